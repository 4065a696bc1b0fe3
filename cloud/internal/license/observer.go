package license

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Status is how a session ended (specification 3.1).
type Status string

// Exited: the browser ended by itself or for an unknown reason. Killed: the worker ended it.
const (
	Exited Status = "exited"
	Killed Status = "killed"
)

// EndReason is why a session ended, a value of the API.
type EndReason string

// The reasons.
const (
	ClientClose   EndReason = "client_close"
	Idle          EndReason = "idle"
	MaxDuration   EndReason = "max_duration"
	Crash         EndReason = "crash"
	Unresponsive  EndReason = "unresponsive"
	OutOfMemory   EndReason = "oom"
	KilledReason  EndReason = "killed"
	LicenseReason EndReason = "license"
	Drain         EndReason = "drain"
	Unknown       EndReason = "unknown"

	NeverConnected EndReason = "never_connected" // no client used the browser
)

// Observer is called for sessions inside the transaction that changes them, which
// holds their slots. An error rolls that transaction back. An observer must not change
// license tables, should not wait for rows of other sessions, and may be called again
// for a transaction that is retried.
type Observer interface {
	// SessionsStarted reports running sessions: they started, got other labels, or were
	// restored after they had been released. The same session may be reported twice.
	SessionsStarted(ctx context.Context, tx *sqlx.Tx, started []Started) error
	// SessionsEnded reports ended sessions. A session without StartedAt never ran: its
	// launch failed or its reservation expired; it may be left out if its profile
	// existed before. The same session may be reported twice: first as released without
	// a report, then with its actual end.
	SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []Ended) error
}

// Started is a session that runs.
type Started struct {
	OrgID          uuid.UUID
	SessionID      uuid.UUID
	ProfileID      uuid.UUID
	MachineID      string
	KeyID          uuid.UUID // of the start report; zero for a restored session
	LaunchID       uuid.UUID
	BrowserVersion int
	StartedAt      time.Time // by the worker's clock; between the reservation and now
	Resumed        bool      // it had been released without an end report
	Recording      *Recording
	Labels         *Labels // of the start report; nil for a restored session
}

// Labels are what users call a session. The license does not depend on them.
type Labels struct {
	Name     string            // empty for none
	Metadata map[string]string // nil or empty for none
}

// Recording is what a worker records of a session. The license does not depend on it.
type Recording struct {
	Video, Events, Frames, HAR, Trace bool
	URL, Viewer                       string
}

// Ended is a session that has ended. Fields that only a start report has are nil or
// zero if it never ran.
type Ended struct {
	OrgID          uuid.UUID
	SessionID      uuid.UUID
	ProfileID      *uuid.UUID
	MachineID      string
	LaunchID       *uuid.UUID
	BrowserVersion int
	StartedAt      *time.Time
	EndedAt        time.Time
	Status         Status
	EndReason      EndReason
	GivenUp        bool // released without an end report: it may run again
}
