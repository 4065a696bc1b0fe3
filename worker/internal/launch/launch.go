// Package launch is the worker's main job: ask the cloud, start a browser,
// report it, watch it, end it (specification 3.2, 4.3; nothing is launched
// that the cloud has not allowed).
package launch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Proxy is where a browser's traffic goes.
type Proxy struct {
	Server   string // scheme://host:port
	Bypass   string // comma-separated hosts
	Username string
	Password string
}

// Settings are what a profile, or a launch of its own, sets. A nil field is not
// set.
type Settings struct {
	UserAgent         *string
	Locale            *string
	TimezoneID        *string
	ColorScheme       *string
	Viewport          *browser.Size
	Screen            *browser.Size
	DeviceScaleFactor *float64
	IsMobile          *bool
	HasTouch          *bool
	Geolocation       *browser.Geolocation
	Permissions       []string
	ExtraHTTPHeaders  map[string]string
	IgnoreHTTPSErrors *bool
	Proxy             *Proxy
	Args              []string
	StartURLs         []string
	Metadata          map[string]string
}

// Criteria say which bundle a launch is to look like. An empty one is not set.
// Filename is that of one bundle, whatever the case.
type Criteria struct {
	Filename, OS, OSVersion, WindowsVersion, OSArch, Model, Renderer, GPUName string
}

// Profile is a profile's launch configuration, as the cloud gives it.
type Profile struct {
	ID             uuid.UUID
	Name           string
	BrowserVersion int
	Persist        bool // keep the browser's data from launch to launch
	Criteria       Criteria
	Settings       Settings
}

// Request is one launch. ProfileID or Spec is set, never both.
type Request struct {
	ProfileID *uuid.UUID
	Spec      *Spec

	// OrganizationKey is what the launch is charged to; zero is the worker's own
	// key (specification 5.3).
	OrganizationKey session.OrganizationKey

	// Client is the address of who brought the organization key.
	Client string

	// What adjusts this single launch.
	Headless    bool
	Override    Settings
	Direct      bool          // no proxy, whatever the profile says
	Timeout     time.Duration // of the browser's start; 0 is browser.DefaultTimeout
	MaxDuration time.Duration // 0 is no limit
	IdleTimeout time.Duration // without any activity of clients; 0 is no limit
	KeepAlive   bool          // it outlives the connection that asked for it, where there is one
}

// Spec asks for a profile that lives as long as the launch. What it says is the
// cloud's to read, but for the version and the criteria, which are checked here
// before anything else.
type Spec struct {
	BrowserVersion int // 0 is the newest installed
	Criteria       Criteria
	Body           any // passed on as it came
}

// Authorization is what a launch asks of the cloud.
type Authorization struct {
	SessionID      uuid.UUID
	ProfileID      *uuid.UUID
	Spec           any
	BrowserVersion int // of the spec

	OrganizationKey session.OrganizationKey // zero is the worker's own
	Ends            []Ended                 // of the same key's sessions, to be applied first
}

// Grant is the cloud's permission to launch. A Profile without an id was not
// told, and is to be asked for.
type Grant struct {
	SlotID  *uuid.UUID
	Profile Profile
	Full    bool // the organization's last slot
}

// License is what a launch needs of the cloud. Its errors are *fault.Error:
// PaymentRequired for a refusal, Unavailable when there was no proper answer,
// OwnKeyRefused when the worker has no valid key of its own, Unauthenticated or Forbidden when a caller's key is refused.
type License interface {
	Authorize(ctx context.Context, request Authorization) (Grant, error)
	// Profile reads the launch configuration of a profile, with NotFound as one
	// more error.
	Profile(ctx context.Context, key session.OrganizationKey, id uuid.UUID) (Profile, error)
}

// Reports tells the cloud what became of a launch.
type Reports interface {
	// Started reports a session that runs. The error of a final refusal
	// (PaymentRequired, Conflict) means that the browser must go; when the
	// cloud cannot be reached it goes on trying by itself and returns nil.
	Started(ctx context.Context, s session.Session) error
	// Ended reports the end of a session, or of a launch that failed. It
	// returns at once and does not give up.
	Ended(ended Ended)
	// Unacknowledged returns ends of a key's sessions that the cloud may not know
	// yet, the oldest first and at most as many as an authorize can carry.
	Unacknowledged(key session.OrganizationKey) []Ended
	// Carried tells that an authorize with these ends was answered.
	Carried(ends []Ended)
	// Deliver tells the cloud now of the sessions of a key whose starts and ends
	// both wait, and reports whether it took any.
	Deliver(ctx context.Context, key session.OrganizationKey) bool
}

// Ended is a session, or a launch that failed, that is over.
type Ended struct {
	SessionID uuid.UUID
	ProfileID uuid.UUID
	Status    session.Status
	Reason    session.EndReason
	At        time.Time

	OrganizationKey session.OrganizationKey // zero is the worker's own
}

// Builds lists the installed browsers, the newest first.
type Builds interface {
	Find(ctx context.Context) ([]browser.Build, error)
}

// Launcher starts browsers.
type Launcher interface {
	Launch(ctx context.Context, spec browser.Spec) (*browser.Browser, error)
	CanMoveTimezone() bool // whether that of a running browser can be changed
}

// Admission says whether this machine can carry one launch more; its error is
// the client's. It is asked under the lock that counts, so it must not block.
type Admission interface {
	Admit(running, launching int) error
}

// Tokens keeps the tokens that open the routes of a launch, from when its browser
// is created until it has ended.
type Tokens interface {
	Begin(launchID string)
	End(launchID string)
}

type noTokens struct{}

func (noTokens) Begin(string) {}
func (noTokens) End(string)   {}

// Bundles are the identity presets of this machine.
type Bundles interface {
	// Match returns the bundle that fits the criteria and the browser version;
	// false when none fits.
	Match(criteria Criteria, browserVersion int) (Bundle, bool)
	// ByFilename returns the bundle with the filename that the criteria name, and
	// which of the other criteria, and of the browser version, it does not fit;
	// false when there is none. Version 0 fits every bundle.
	ByFilename(criteria Criteria, browserVersion int) (bundle Bundle, misfits []Mismatch, ok bool)
	Filenames() []string
}

// Bundle is an identity preset.
type Bundle struct {
	session.Bundle
	BrowserVersion int // the only one that it is for; 0: it is for all
	Settings       Settings
}

// Mismatch is a criterion that a bundle does not fit.
type Mismatch struct {
	Criterion string // by its name in the API
	Has       string // what the bundle has instead; empty: it does not say
}
