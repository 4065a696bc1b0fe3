package session

import (
	"time"

	"github.com/google/uuid"
)

// Status is the state of a session.
type Status string

// The states: Exited means that the browser ended by itself, Killed that the
// worker ended it.
const (
	Running Status = "running"
	Exited  Status = "exited"
	Killed  Status = "killed"
)

// EndReason is why a session ended.
type EndReason string

// The reasons.
const (
	ClientClose EndReason = "client_close"
	Idle        EndReason = "idle"
	MaxDuration EndReason = "max_duration"
	Crash       EndReason = "crash" // of the browser or its display
	OutOfMemory EndReason = "oom"
	ByRequest   EndReason = "killed"

	NeverConnected EndReason = "never_connected" // no client used the browser
	Unresponsive   EndReason = "unresponsive"    // the browser stopped responding

	License EndReason = "license"
	Drain   EndReason = "drain"
	Unknown EndReason = "unknown"
)

// Session is one browser's run on this machine.
type Session struct {
	ID             uuid.UUID // its id in the cloud
	LaunchID       uuid.UUID // its id in routes and tokens
	SlotID         *uuid.UUID
	ProfileID      uuid.UUID
	ProfileName    string
	BrowserVersion int
	Engine         string // of the browser
	Headless       bool
	DevTools       bool   // the build includes the DevTools front end
	Name           string // for people
	Metadata       map[string]string
	Bundle         Bundle // the identity of the browser; zero for none
	DebugPort      int    // on the loopback
	DebugPath      string // of the browser's own WebSocket: /devtools/browser/<guid>

	// OrganizationKey is the caller's key; zero for the worker's own. It is removed
	// when the session ends.
	OrganizationKey OrganizationKey

	Start    Start
	Timeline []Step // in order of time

	Recording *Recording // nil: the launch records nothing

	Status    Status
	StartedAt time.Time
	Seq       int64 // set by the Store; the cloud orders starts and heartbeats by it

	// Set when the session has ended.
	EndedAt    time.Time
	EndReason  EndReason
	ExitCode   *int // negative: the signal that ended it
	Traffic    *Traffic
	Network    Network
	SaveResult *SaveResult // nil: the profile keeps none
}

// Bundle names an identity preset of this machine.
type Bundle struct {
	Filename string
	Name     string // display name
}

// SaveResult reports whether the browser data of a profile was saved.
type SaveResult struct {
	Saved  bool
	Reason DataNotSavedReason // empty when they were saved
}

// DataNotSavedReason is why browser data was not saved. The previously saved data is
// kept.
type DataNotSavedReason string

// The reasons.
const (
	DataTooLarge   DataNotSavedReason = "too_large"   // more than LAUNCH_DISK_MB
	DataUncleanEnd DataNotSavedReason = "unclean_end" // the browser did not close by itself
	DataDiskFull   DataNotSavedReason = "disk_full"
	DataTimeout    DataNotSavedReason = "timeout" // saving took too long
	DataPending    DataNotSavedReason = "pending" // stored, but the cloud has not acknowledged it yet
	DataError      DataNotSavedReason = "error"   // any other error; see the log
)

// Traffic is the traffic through a session's proxy, in bytes.
type Traffic struct{ Received, Sent int64 }

// Recording is what a launch has asked to record of a session.
type Recording struct {
	Video   bool   `json:"video"`
	Events  bool   `json:"events"`
	Frames  bool   `json:"frames"`
	HAR     bool   `json:"har"`
	Trace   bool   `json:"trace"`
	URL     string `json:"url"`       // of the player; "" after a failure
	Viewer  string `json:"viewerUrl"` // of the trace viewer; "" without a trace
	Failure string `json:"-"`         // the reason in the API why it could not start; "" if it has started
}

// Start describes how a session got its browser.
type Start struct {
	Warm        bool     // it claimed a warm browser
	ColdReasons []string // why not: settings that require a new browser, or the state of the pool
}

// Step is a step of a launch.
type Step struct {
	Name StepName
	At   time.Time
}

// StepName names a step.
type StepName string

// The steps, in their usual order. A launch is claimed or started, never both.
const (
	Asked      StepName = "asked"      // the request was received
	Authorized StepName = "authorized" // the cloud has granted a slot
	Claimed    StepName = "claimed"    // a warm browser was claimed
	Started    StepName = "started"    // the browser process runs
	Answered   StepName = "answered"   // the browser answered for the first time
	Ready      StepName = "ready"      // the browser is configured
	Reported   StepName = "reported"   // the start was reported or is queued
	Ended      StepName = "ended"
)

// End describes the end of a session.
type End struct {
	At         time.Time
	Status     Status
	Reason     EndReason
	ExitCode   *int
	Traffic    *Traffic // nil without a proxy
	Network    Network
	SaveResult *SaveResult // nil: the profile keeps none
}
