package session

import (
	"time"

	"github.com/google/uuid"
)

// EventType is the type of an Event, as in the API of the cloud.
type EventType string

// The types, with their fields.
const (
	Expiring          EventType = "session.expiring"   // Reason, Until
	HandoverRequested EventType = "handover.requested" // Reason, Until
	HandoverDone      EventType = "handover.done"      // Outcome, Seconds
	RecordingReady    EventType = "recording.ready"    // Parts, State
)

// Event is something that happened in a session, for the webhooks of the cloud. Its JSON
// format is that of the API.
type Event struct {
	ID      uuid.UUID `json:"id"`
	Type    EventType `json:"type"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"` // why the session ends, or what the person is to do
	Until   time.Time `json:"until,omitzero"`   // when the session ends, or the handover times out
	Outcome string    `json:"outcome,omitempty"`
	Seconds *float64  `json:"seconds,omitempty"` // how long the handover took
	Parts   []string  `json:"parts,omitempty"`   // of the recording
	State   string    `json:"state,omitempty"`   // of the recording
}
