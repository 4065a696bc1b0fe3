package webdriver

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
)

// gridStatus is the status in the form of Selenium Grid. Only the worker key sees nodes.
type gridStatus struct {
	Ready   bool       `json:"ready"`
	Message string     `json:"message"`
	Nodes   []gridNode `json:"nodes,omitempty"`
}

// gridNode is a worker.
type gridNode struct {
	ID           string     `json:"id"`
	URI          string     `json:"uri"`
	Availability string     `json:"availability"` // UP, or DRAINING
	MaxSessions  int        `json:"maxSessions"`
	Version      string     `json:"version"`
	OSInfo       gridOS     `json:"osInfo"`
	Slots        []gridSlot `json:"slots"`
}

type gridOS struct {
	Arch    string `json:"arch"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// gridSlot is a place for a browser.
type gridSlot struct {
	ID          gridSlotID     `json:"id"`
	LastStarted time.Time      `json:"lastStarted"` // 1970 for a free slot
	Session     *gridSession   `json:"session"`
	Stereotype  map[string]any `json:"stereotype"`
}

type gridSlotID struct {
	HostID string `json:"hostId"`
	ID     string `json:"id"`
}

// gridSession is a running session, of any kind of client. Its id is the one of GET
// /sessions: the id of a WebDriver session is a credential.
type gridSession struct {
	SessionID    string         `json:"sessionId"`
	Start        time.Time      `json:"start"`
	URI          string         `json:"uri"`
	Capabilities map[string]any `json:"capabilities"`
	Stereotype   map[string]any `json:"stereotype"`
}

// status answers GET status.
func (s *Service) status(c echo.Context) error {
	ctx := c.Request().Context()
	status := gridStatus{Ready: true, Message: "This worker accepts launches."}
	if reasons := s.Reasons(ctx); len(reasons) > 0 {
		status.Ready, status.Message = false, reasons[0].Message
	}
	if key, err := requestKey(c.Request(), ""); err == nil && s.IsWorkerKey(key) {
		fleet, err := s.Fleet(ctx)
		if err != nil {
			return err
		}
		status.Nodes = []gridNode{newGridNode(fleet)}
	}
	return writeValue(c, status)
}

// newGridNode describes a worker with one slot for each running browser, and one for each
// more that it accepts: one if the number is not limited.
func newGridNode(fleet workerapi.FleetStatus) gridNode {
	node := gridNode{
		ID: fleet.MachineId, URI: fleet.PublicUrl, Availability: "UP", Version: fleet.Version, Slots: []gridSlot{},
		OSInfo: gridOS{Arch: fleet.Host.Arch, Name: fleet.Host.Os, Version: fleet.Host.Kernel},
	}
	if fleet.Draining {
		node.Availability = "DRAINING"
	}
	stereotype := map[string]any{"browserName": "chrome", "platformName": "linux"}
	for _, running := range fleet.Sessions {
		id := running.Id.String()
		node.Slots = append(node.Slots, gridSlot{
			ID: gridSlotID{HostID: node.ID, ID: id}, LastStarted: running.StartedAt, Stereotype: stereotype,
			Session: &gridSession{SessionID: id, Start: running.StartedAt, URI: node.URI, Capabilities: stereotype, Stereotype: stereotype},
		})
	}
	free := 1
	if limit := fleet.Capacity.MaxSessions; limit != nil {
		free = max(0, int(*limit)-len(node.Slots))
	}
	for range free {
		node.Slots = append(node.Slots, gridSlot{ID: gridSlotID{HostID: node.ID, ID: strconv.Itoa(len(node.Slots))}, LastStarted: time.Unix(0, 0).UTC(), Stereotype: stereotype})
	}
	node.MaxSessions = len(node.Slots)
	return node
}
