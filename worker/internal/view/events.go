package view

import (
	"context"
	"encoding/json"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/handover"
)

// eventsQuery asks for text messages about the browser in the stream.
const eventsQuery = "events"

// wantsEvents reads the query parameter.
func wantsEvents(values []string) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	if wants := values[0] == "true"; len(values) == 1 && (wants || values[0] == "false") {
		return wants, nil
	}
	return false, fault.Invalid(fault.Detail{Field: eventsQuery, Code: fault.InvalidType, Message: "must be true or false", Received: values[0]})
}

// event is a text message: a handover has begun or, with null, ended.
type event struct {
	Handover *openHandover `json:"handover"`
}

// openHandover is a handover to a person that is open.
type openHandover struct {
	Reason      string    `json:"reason"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	SecondsLeft float64   `json:"secondsLeft"` // the clock of a viewer may be wrong
}

// sendEvents sends the state of the browser's handover, and each change of it, until
// the stream ends.
func (s *Service) sendEvents(ctx context.Context, conn *ws.Conn, v access.AuthorizedRequest) {
	for {
		last, changed := v.Calls.Handovers().Last()
		message, err := json.Marshal(event{open(last)})
		if err != nil {
			s.Logger.Error("failed to encode an event of a live view", "launchId", v.LaunchID, "error", err)
			return
		}
		within, cancel := context.WithTimeout(ctx, pongTimeout)
		err = conn.Write(within, ws.Text, message)
		cancel()
		if err != nil {
			return
		}
		select {
		case <-changed: // never for a browser without handovers
		case <-ctx.Done():
			return
		}
	}
}

// open returns the handover if it has not ended.
func open(last *handover.Handover) *openHandover {
	if last == nil {
		return nil
	}
	if _, ended := last.Result(); ended {
		return nil
	}
	return &openHandover{last.Reason, last.Since, last.Until, max(time.Until(last.Until).Seconds(), 0)}
}
