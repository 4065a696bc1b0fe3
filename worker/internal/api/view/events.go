package view

import (
	"context"
	"encoding/json"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
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

// event is a text message: the state of the browser.
type event struct {
	Handover  *openHandover `json:"handover"`
	Questions []question    `json:"questions"`
	Expiry    *expiry       `json:"expiry"`
}

// question is a document that waits for a person.
type question struct {
	ID          string  `json:"id"`
	URL         string  `json:"url"`
	Origin      string  `json:"origin"`
	Rule        string  `json:"rule"`
	SecondsLeft float64 `json:"secondsLeft"`
}

// openHandover is a handover to a person that is open.
type openHandover struct {
	Reason      string    `json:"reason"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	SecondsLeft float64   `json:"secondsLeft"` // the clock of a viewer may be wrong
}

// expiry says that the worker ends the browser within expiryNotice.
type expiry struct {
	Reason       string  `json:"reason"`
	LimitSeconds int64   `json:"limitSeconds"` // the limit that ends it
	SecondsLeft  float64 `json:"secondsLeft"`
}

const (
	expiryNotice   = time.Minute
	expiryInterval = time.Second // of checks
)

// sendEvents sends the state of the browser, and each change of it, until the stream ends.
func (s *Service) sendEvents(ctx context.Context, conn *ws.Conn, v access.AuthorizedRequest) {
	check := time.NewTicker(expiryInterval)
	defer check.Stop()
	for {
		last, changed := v.Calls.Handovers().Last()
		end := endingSoon(v)
		message, err := json.Marshal(event{open(last), questions(v.Calls.Handovers()), newExpiry(end)})
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
		for same := true; same; {
			select {
			case <-changed: // never for a browser without handovers
				same = false
			case <-check.C:
				same = endingSoon(v) == end
			case <-ctx.Done():
				return
			}
		}
	}
}

// endingSoon returns when and why the worker ends the browser, if that is soon; otherwise zero.
func endingSoon(v access.AuthorizedRequest) access.Expiry {
	if v.Expiry == nil {
		return access.Expiry{}
	}
	if end := v.Expiry(); !end.Time.IsZero() && time.Until(end.Time) <= expiryNotice {
		return end
	}
	return access.Expiry{}
}

func newExpiry(end access.Expiry) *expiry {
	if end.Time.IsZero() {
		return nil
	}
	return &expiry{end.Reason, int64(end.Limit / time.Second), max(time.Until(end.Time).Seconds(), 0)}
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

// questions returns the open questions.
func questions(h *handover.Handovers) []question {
	list := []question{}
	for _, q := range h.Questions() {
		list = append(list, question{q.ID.String(), q.URL, q.Origin, q.Rule, max(time.Until(q.Until).Seconds(), 0)})
	}
	return list
}
