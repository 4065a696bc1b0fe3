package cloud

import (
	"sync"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/lazy"
)

// machineReportInterval is how often an unchanged report is sent. The cloud keeps the
// last one.
const machineReportInterval = 5 * time.Minute

// MachineReport describes the worker and its host in the cloud's list of machines.
type MachineReport struct {
	HostName    string
	WorkerID    string // empty if the operator set none
	Version     string
	Contract    string // version of the API document of the worker
	PublicURL   string
	MaxSessions int // 0 for no limit
	Draining    bool
}

// maxPublicURL and acceptedPublicURL are the public URLs that the cloud accepts. It
// would refuse a heartbeat with another one, and with it the list of sessions.
const maxPublicURL = 2048

var acceptedPublicURL = lazy.Regexp(`^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~%/-]*)?$`)

func (m MachineReport) toAPI() *cloudapi.MachineReport {
	report := &cloudapi.MachineReport{HostName: m.HostName, Version: m.Version, ContractVersion: &m.Contract, Draining: m.Draining}
	if m.WorkerID != "" {
		report.WorkerId = &m.WorkerID
	}
	if len(m.PublicURL) <= maxPublicURL && acceptedPublicURL().MatchString(m.PublicURL) {
		report.PublicUrl = &m.PublicURL
	}
	if m.MaxSessions > 0 {
		report.Capacity = new(int32(m.MaxSessions))
	}
	return report
}

// DescribeMachine sets the function that describes the worker. Heartbeats with the
// worker's own key report what it returns. It must be set before the client is used.
func (c *Client) DescribeMachine(describe func() MachineReport) { c.machineReports.describe = describe }

// machineReports decides which heartbeats contain a report of the machine.
type machineReports struct {
	describe func() MachineReport // nil: never

	mu          sync.Mutex
	delivered   MachineReport
	deliveredAt time.Time // zero if none was delivered
}

// due returns the report to send now: the first one, a changed one, or an unchanged one
// once in an interval; otherwise nil.
func (m *machineReports) due(now time.Time) *MachineReport {
	if m.describe == nil {
		return nil
	}
	current := m.describe()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.deliveredAt.IsZero() && m.delivered == current && now.Sub(m.deliveredAt) < machineReportInterval {
		return nil
	}
	return &current
}

// setDelivered records that the cloud has applied a heartbeat with the report.
func (m *machineReports) setDelivered(report *MachineReport, now time.Time) {
	if report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delivered, m.deliveredAt = *report, now
}
