package license

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Status is how a session ended (specification 3.1).
type Status string

// Exited: the browser ended by itself, or nobody knows. Killed: the worker
// ended it.
const (
	Exited Status = "exited"
	Killed Status = "killed"
)

// EndReason is why a session ended: one of the reasons of the API.
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
)

// Observer is told of sessions inside the transaction that changes them, which
// holds their slots. An error undoes that transaction. An observer must change
// no license table, should wait for no other session's rows, and may be called
// again for a transaction that lost a race.
type Observer interface {
	// SessionsStarted tells that these run: they started, or count as running
	// again after they had been given up, so the same session may come twice.
	SessionsStarted(ctx context.Context, tx *sqlx.Tx, started []Started) error
	// SessionsEnded tells that these are over. One whose StartedAt is nil never
	// ran: its launch failed or its reservation lapsed; it may be left out if its
	// profile was there before. The same session may come twice: given up first,
	// and then reported with its true end.
	SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []Ended) error
}

// Started is a session that runs.
type Started struct {
	OrgID          uuid.UUID
	SessionID      uuid.UUID
	ProfileID      uuid.UUID
	MachineID      string
	LaunchID       uuid.UUID
	BrowserVersion int
	StartedAt      time.Time // as the worker says, but not before the reservation nor in the future
	Resumed        bool      // it had been given up
}

// Ended is a session that is over. Kind only a start tells is nil or zero for
// one that never ran.
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
	GivenUp        bool // nobody reported the end: it may start again
}
