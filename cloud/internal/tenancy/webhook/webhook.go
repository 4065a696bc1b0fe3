// Package webhook reports events of organizations to their endpoints and to the readers
// of the event stream.
//
// The database is the outbox: triggers insert an event in the transaction of the change
// that it reports, if the organization has an enabled endpoint or a reader. Run publishes
// committed events in one order and creates their deliveries, then sends these. Each
// delivery is sent at least once; those of one session or machine are sent in order.
package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// Types are the types of the events, without TestType.
var Types = []string{
	"session.started", "session.ended", "launch.refused", "key.revoked", "machine.lost", "machine.recovered", "invoice.created",
	"session.expiring", "handover.requested", "handover.done", "recording.ready",
}

// TestType is the type of the event that tests an endpoint.
const TestType = "webhook.test"

// maxEndpoints is the maximum number of endpoints of an organization.
const maxEndpoints = 20

// rotationTime is how long the secret before a rotation signs too.
const rotationTime = 24 * time.Hour

// Service manages the endpoints of organizations, and sends their events.
type Service struct {
	DB     *sqlx.DB // sees one organization in each transaction
	System *sqlx.DB // sees all organizations; for publishing and sending
	Clock  clock.Clock
	Sealer Sealer
	Audit  Recorder
	Logger *slog.Logger

	Sender       Sender
	AllowHTTP    bool          // URLs with http are allowed
	OfflineAfter time.Duration // how long a machine must be silent to be lost
	UserAgent    string
	Options      Options

	streams streams
}

// Options are the intervals and limits of a Service. Zero values mean the defaults.
type Options struct {
	Every   time.Duration // between searches for events and due deliveries; default 500 ms
	Timeout time.Duration // of a request; default 10 s
	Backoff time.Duration // after the first failed attempt, tripled after each further one; default 10 s
	Grace   time.Duration // for requests in progress when Run ends; default 5 s
	Turn    time.Duration // of an endpoint, before others that wait; default 30 s
	Check   time.Duration // between checks of the client of a stream; default 15 s
}

func (o Options) withDefaults() Options {
	o.Every = defaultTo(o.Every, 500*time.Millisecond)
	o.Timeout = defaultTo(o.Timeout, 10*time.Second)
	o.Backoff = defaultTo(o.Backoff, 10*time.Second)
	o.Grace = defaultTo(o.Grace, 5*time.Second)
	o.Turn = defaultTo(o.Turn, 30*time.Second)
	o.Check = defaultTo(o.Check, 15*time.Second)
	return o
}

func defaultTo(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// Sealer encrypts the secrets of endpoints.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Sender sends requests to endpoints. It must be safe for concurrent use and stop when ctx
// ends. An error is shown to users.
type Sender interface {
	Post(ctx context.Context, url string, header map[string]string, body []byte) (status int, err error)
}

// Recorder writes the audit log. It reads the actor from the context.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// The audit actions.
const (
	created = "webhook.created"
	updated = "webhook.updated"
	rotated = "webhook.secretRotated"
	deleted = "webhook.deleted"
)

// Fields are the fields of an endpoint that a user sets.
type Fields struct {
	URL         string    `json:"url"`
	Description *string   `json:"description"`
	Types       *[]string `json:"types"` // nil: all
	Enabled     bool      `json:"enabled"`
}

// Endpoint is a URL to which events are sent, without its secret.
type Endpoint struct {
	Fields
	ID             uuid.UUID
	DisabledReason *string // failing or gone; nil if the service did not disable the endpoint
	FailingSince   *time.Time
	OldSecretUntil *time.Time // nil if the secret was not rotated in the last 24 hours
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Event is a published event.
type Event struct {
	ID        uuid.UUID
	OrgID     uuid.UUID
	Type      string
	CreatedAt time.Time
	Data      json.RawMessage
}

// MarshalJSON returns the body of the request to an endpoint, which is also the data in
// the stream.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID             uuid.UUID       `json:"id"`
		Type           string          `json:"type"`
		Timestamp      time.Time       `json:"timestamp"`
		OrganizationID uuid.UUID       `json:"organizationId"`
		Data           json.RawMessage `json:"data"`
	}{e.ID, e.Type, e.CreatedAt.UTC(), e.OrgID, e.Data})
}

// State is the state of a Delivery.
type State string

// The states.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Failed    State = "failed" // after the last attempt
)

// Delivery is an event for one endpoint.
type Delivery struct {
	ID            uuid.UUID  `db:"id"`
	EventID       uuid.UUID  `db:"event_id"`
	Type          string     `db:"type"`
	Data          []byte     `db:"data"` // of the event, as JSON; nil if it is not stored any more
	State         State      `db:"state"`
	Attempts      int32      `db:"attempts"`
	CreatedAt     time.Time  `db:"created_at"`
	LastAttemptAt *time.Time `db:"last_attempt_at"`
	LastStatus    *int32     `db:"last_status"` // nil if the last attempt got no response
	LastError     *string    `db:"last_error"`
	DurationMS    *int32     `db:"last_duration_ms"` // of the last attempt; nil if there was none
	NextAttemptAt *time.Time `db:"next_attempt_at"`  // nil unless pending
}

// streams are the open streams of this replica.
type streams struct {
	mu       sync.Mutex
	open     map[uuid.UUID]map[*Stream]struct{} // by organization
	position int64                              // up to which streams were notified; 0: none was open
	stopped  bool
}
