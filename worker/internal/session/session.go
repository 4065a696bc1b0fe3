// Package session keeps what this machine runs, and what it ran in the last
// hour (specification 2.4, 3.1).
package session

import (
	"time"

	"github.com/google/uuid"
)

// Status is where a session stands.
type Status string

// The states: Exited means that the browser ended by itself, Killed that the
// worker ended it.
const (
	Running Status = "running"
	Exited  Status = "exited"
	Killed  Status = "killed"
)

// EndReason says why a session ended.
type EndReason string

// The reasons.
const (
	ClientClose EndReason = "client_close"
	Idle        EndReason = "idle"
	MaxDuration EndReason = "max_duration"
	Crash       EndReason = "crash" // of the browser or its display
	OutOfMemory EndReason = "oom"
	ByRequest   EndReason = "killed"

	Unresponsive EndReason = "unresponsive" // it did not answer any more

	License EndReason = "license"
	Drain   EndReason = "drain"
	Unknown EndReason = "unknown"
)

// Session is one browser's run on this machine.
type Session struct {
	ID             uuid.UUID // what the cloud knows it by
	LaunchID       uuid.UUID // what its routes and tokens know it by
	SlotID         *uuid.UUID
	ProfileID      uuid.UUID
	ProfileName    string
	BrowserVersion int
	Headless       bool
	DevTools       bool // the build brings the DevTools front end
	Metadata       map[string]string
	Bundle         Bundle // whose identity the browser presents; zero for none
	DebugPort      int    // on the loopback
	DebugPath      string // of the browser's own WebSocket: /devtools/browser/<guid>

	// OrganizationKey is what a caller brought for this launch; zero for the
	// worker's own. It is forgotten when the session ends.
	OrganizationKey OrganizationKey

	Start    Start
	Timeline []Step // in order of time

	Status    Status
	StartedAt time.Time
	Seq       int64 // stamped by the Store; the cloud orders starts and heartbeats by it

	// Of a session that has ended.
	EndedAt    time.Time
	EndReason  EndReason
	ExitCode   *int // negative: the signal that ended it
	Traffic    *Traffic
	SaveResult *SaveResult // nil: the profile keeps none
}

// Bundle names an identity preset of this machine.
type Bundle struct {
	Filename string
	Name     string // for people
}

// SaveResult is what became of the browser data of a profile that keeps them.
type SaveResult struct {
	Saved  bool
	Reason DataNotSavedReason // empty when they were saved
}

// DataNotSavedReason says why browser data were not saved: those of the launch
// before are kept.
type DataNotSavedReason string

// The reasons.
const (
	DataTooLarge   DataNotSavedReason = "too_large"   // more than PROFILE_DATA_MB
	DataUncleanEnd DataNotSavedReason = "unclean_end" // the browser did not close by itself
	DataDiskFull   DataNotSavedReason = "disk_full"
	DataTimeout    DataNotSavedReason = "timeout" // saving took too long
	DataError      DataNotSavedReason = "error"   // anything else; the log says what
)

// Traffic is what went through a session's proxy, in bytes.
type Traffic struct{ Received, Sent int64 }

// Start is how a session got its browser.
type Start struct {
	Warm        bool     // it was ready before it was asked for
	ColdReasons []string // why it was not: the settings that only a start can give, or what the pool lacked
}

// Step is something that a launch has got to.
type Step struct {
	Name StepName
	At   time.Time
}

// StepName says what.
type StepName string

// The steps, in their usual order. A launch is claimed or started, never both.
const (
	Asked      StepName = "asked"      // the request came in
	Authorized StepName = "authorized" // the cloud has granted a slot
	Claimed    StepName = "claimed"    // a browser that was ready is this launch's
	Started    StepName = "started"    // the browser's program runs
	Answered   StepName = "answered"   // the browser answered for the first time
	Ready      StepName = "ready"      // it has its settings, and can be driven
	Reported   StepName = "reported"   // the cloud knows that it runs, or will be told
	Ended      StepName = "ended"
)

// End is how a session ended.
type End struct {
	At         time.Time
	Status     Status
	Reason     EndReason
	ExitCode   *int
	Traffic    *Traffic    // nil without a proxy
	SaveResult *SaveResult // nil: the profile keeps none
}
