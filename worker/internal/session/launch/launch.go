// Package launch is the worker's main function: it asks the cloud for a slot, starts
// a browser, reports it, watches it and ends it (specification 3.2, 4.3). The worker
// launches a browser only after the cloud has allowed it.
package launch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/data/storagestate"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Settings of a profile or of a single launch. The JSON names are those of the API.
type Settings struct {
	settings.Settings
	ConnectTimeoutSeconds *int32              `json:"connectTimeoutSeconds"` // only of a launch; see IdleTimeoutSeconds
	ClientCertificates    []certs.ClientInput `json:"clientCertificates"`
	Metadata              map[string]string   `json:"metadata"`
}

// Profile is the launch configuration of a profile, as the cloud returns it.
type Profile struct {
	ID             uuid.UUID
	Name           string
	BrowserVersion int
	Persist        bool // keep the browser's data between launches
	Criteria       bundle.Criteria
	Settings       Settings
	// OrganizationNetwork has the network rules of the organization; nil for none.
	OrganizationNetwork *netrules.Rules
}

// Request is one launch. Exactly one of ProfileID and Spec is set.
type Request struct {
	ProfileID *uuid.UUID
	Spec      *Spec

	// OrganizationKey is the key that the launch is charged to; zero is the worker's
	// own key (specification 5.3).
	OrganizationKey session.OrganizationKey

	// Client is the address of the client that sent the organization key.
	Client string

	// OperatorNetwork are the rules of the operator for the client's protocol; nil: none.
	OperatorNetwork *netrules.Rules

	// Options of this launch only.
	Name        string // of the session
	Headless    bool
	Override    Settings
	Engine      builds.Engine       // "" if the worker chooses it
	Extensions  []string            // ids
	State       *storagestate.State // set before the first page; nil for none
	Replay      *Replay             // nil: the network answers requests
	CollectLogs bool                // from the start
	Direct      bool                // ignore the proxy of the profile
	Timeout     time.Duration       // of the browser's start; 0 is browser.DefaultTimeout
	Wait        time.Duration       // for capacity of this machine and for a slot; 0 is not at all
	DefaultIdle time.Duration       // replaces the worker's default of Limits.Idle; 0 keeps it
	ReadOnly    bool                // the data of a profile is not saved
	KeepFiles   bool                // downloads and uploads outlive the browser
	KeepAlive   bool                // the session outlives the connection that launched it

	// CheckBuild returns why the client cannot use a build; nil accepts all. It is called
	// before the authorization, unless a profile determines the build.
	CheckBuild func(builds.Build) error
}

func (r Request) checkBuild(build builds.Build) error {
	if r.CheckBuild == nil {
		return nil
	}
	return r.CheckBuild(build)
}

// Spec describes a profile that exists only for this launch. The cloud interprets
// it, except for the version and the criteria, which the worker checks first.
type Spec struct {
	BrowserVersion int    // 0 is the newest installed
	Filename       string // selects one bundle, and ignores case
	Criteria       bundle.Criteria
	Body           any // passed to the cloud unchanged
}

// Authorization is the request for a slot.
type Authorization struct {
	SessionID      uuid.UUID
	ProfileID      *uuid.UUID
	Spec           any
	BrowserVersion int // of the spec

	OrganizationKey session.OrganizationKey // zero is the worker's own
	Ends            []Ended                 // ends of sessions of the same key; the cloud applies them first

	Wait time.Duration // how long the launch can still wait for a slot
	Poll time.Duration // maximum duration of this request; if it is shorter, a refusal can be Queued
}

// Grant is the cloud's permission to launch. If Profile has no id, the configuration
// must be requested separately.
type Grant struct {
	SlotID  *uuid.UUID
	Profile Profile
	Full    bool // this was the organization's last free slot
	Queued  bool // with an error: the launch keeps its place, the request must be repeated
}

// License authorizes launches with the cloud. Errors are *fault.Error:
// PaymentRequired for a refusal, Unavailable without a valid answer, OwnKeyRefused
// if the worker has no valid key of its own, Unauthenticated or Forbidden if a
// caller's key is refused.
type License interface {
	Authorize(ctx context.Context, request Authorization) (Grant, error)
	// VerifyKey returns an error if the cloud refuses a caller's key.
	VerifyKey(ctx context.Context, key session.OrganizationKey) error
	// Profile returns the launch configuration of a profile. It can also return
	// NotFound.
	Profile(ctx context.Context, key session.OrganizationKey, id uuid.UUID) (Profile, error)
}

// Reports reports sessions to the cloud.
type Reports interface {
	// Started reports a running session. An error is final: the browser must be ended.
	// If the cloud cannot be reached, Started returns nil and retries in the
	// background; the session then continues regardless of the cloud's answer.
	Started(ctx context.Context, s session.Session) error
	// Changed reports the name and the metadata of a running session. It returns immediately
	// and retries until the report is delivered or the session has ended.
	Changed(s session.Session)
	// Happened reports an event of a session, also after its end, with a repeated report
	// of its start or end. It does not wait for the cloud. For a running session it does
	// not block.
	Happened(s session.Session, e session.Event)
	// Ended records the end of a session or of a failed launch, and returns when
	// Unacknowledged has it. The report is retried until it is delivered.
	Ended(ended Ended)
	// Unacknowledged returns the ends of a key's sessions that the cloud has not
	// acknowledged, oldest first and at most as many as an authorize request can
	// carry.
	Unacknowledged(key session.OrganizationKey) []Ended
	// Carried records that an authorize request with these ends was answered.
	Carried(ends []Ended)
	// Deliver reports now those sessions of a key whose start and end are both
	// pending. It returns whether any was delivered.
	Deliver(ctx context.Context, key session.OrganizationKey) bool
}

// Ended is the end of a session or of a failed launch.
type Ended struct {
	SessionID uuid.UUID
	ProfileID uuid.UUID
	Status    session.Status
	Reason    session.EndReason
	At        time.Time
	Network   *session.Network // nil if no browser ran, or it is not known

	OrganizationKey session.OrganizationKey // zero is the worker's own
}

// Builds lists the installed browsers, newest first.
type Builds interface {
	Find(ctx context.Context) ([]builds.Build, error)
}

// Launcher starts browsers.
type Launcher interface {
	Launch(ctx context.Context, spec browser.Spec) (*browser.Browser, error)
}

// Tokens keeps the access tokens of a launch from the creation of its browser until
// its end.
type Tokens interface {
	Begin(launchID string)
	End(launchID string)
}

type noTokens struct{}

func (noTokens) Begin(string) {}
func (noTokens) End(string)   {}

// Bundles are the identity presets of this machine.
type Bundles interface {
	// Match returns the bundle that matches the criteria, or false if there is none.
	Match(criteria bundle.Criteria) (bundle.Bundle, bool)
	// ByFilename returns the bundle with a filename, or false if there is none.
	ByFilename(filename string) (bundle.Bundle, bool)
	Filenames() []string
}
