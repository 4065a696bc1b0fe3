package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/activity"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Options are what a Service works with. The second part may be left out.
type Options struct {
	License  License
	Reports  Reports
	Builds   Builds
	Launcher Launcher
	Sessions *session.Store
	Data     Data
	Egress   EgressProvider
	Clock    clock.Clock
	Logger   *slog.Logger

	Admission   Admission               // nil admits every launch
	Bundles     Bundles                 // nil: there are none
	Tokens      Tokens                  // told which launches run; nil: nobody is
	Warm        *WarmPool               // browsers that are ready; nil: none ever
	OutOfMemory func() uint64           // the kernel's count of processes that it killed for want of memory; nil: nobody knows
	Tracer      trace.Tracer            // of launches; nil traces nothing
	Key         session.OrganizationKey // the worker's own; zero when it has none
}

// Service launches, watches and ends browsers.
type Service struct {
	Options

	active     sync.WaitGroup // launches under way, and watchers
	keyLimiter *keyLimiter

	mu        sync.Mutex
	closing   bool // for good
	retired   bool // for good, but what runs goes on
	draining  bool // until Resume
	launching int
	live      map[uuid.UUID]*running // by session id
	starts    Starts

	fullCache fullCache
}

// New returns a Service. Shutdown ends it.
func New(opts Options) *Service {
	if opts.OutOfMemory == nil {
		opts.OutOfMemory = func() uint64 { return 0 }
	}
	if opts.Bundles == nil {
		opts.Bundles = noBundles{}
	}
	if opts.Tokens == nil {
		opts.Tokens = noTokens{}
	}
	if opts.Tracer == nil {
		opts.Tracer = noop.Tracer{}
	}
	return &Service{Options: opts, keyLimiter: newKeyLimiter(opts.Clock), live: map[uuid.UUID]*running{}, starts: Starts{Cold: map[string]int64{}}}
}

// Launch asks the cloud, starts a browser and reports it. A launch that fails
// after it was authorized gives its slot back at once and leaves nothing behind.
// Errors: Validation, NotInstalled, PaymentRequired, NotFound, Conflict,
// OwnKeyRefused, Unavailable, Timeout, Internal, what Admission says, and for a key
// that the caller brought Unauthenticated and Forbidden (specification 4.3, 5.3,
// 7.3; DESIGN: worker).
func (s *Service) Launch(ctx context.Context, request Request) (session.Session, error) {
	entry, err := s.beginLaunch(request)
	if err != nil {
		return session.Session{}, err
	}
	defer s.active.Done()
	ctx, journey := s.beginTimeline(ctx, request)
	run, err := s.launch(ctx, request, entry, journey)
	if err != nil {
		entry.abandon()
		s.Logger.Log(ctx, failureLogLevel(request, err), "launch failed", "error", err, "after", journey)
		journey.fail(err, s.Clock.Now())
		return session.Session{}, err
	}
	launched, err := s.reportStart(ctx, run)
	if err != nil {
		journey.fail(err, s.Clock.Now())
		return session.Session{}, err
	}
	journey.finish(launched)
	s.Logger.InfoContext(ctx, "session started", "sessionId", launched.ID, "launchId", launched.LaunchID, "warm", launched.Start.Warm,
		"cold", launched.Start.ColdReasons, "after", journey)
	return launched, nil
}

// reportStart reports a session that runs, and ends it when it may not.
func (s *Service) reportStart(ctx context.Context, run *running) (session.Session, error) {
	if err := s.Reports.Started(ctx, run.session); err != nil {
		run.requestEnd(session.License)
		<-run.done
		return session.Session{}, err
	}
	if ctx.Err() != nil { // nobody would hear of it
		run.requestEnd(session.ClientClose)
		<-run.done
		return session.Session{}, launchCanceled(ctx.Err())
	}
	return s.Sessions.AddStep(run.session.ID, run.timeline.record(ctx, session.Reported, s.Clock.Now())), nil
}

// launch does all that comes before the report.
func (s *Service) launch(ctx context.Context, request Request, entry *pendingLaunch, journey *timeline) (*running, error) {
	machine := s.snapshotHost(ctx)
	build, err := s.checkRequest(request, machine)
	if err != nil {
		return nil, err
	}
	if request.usesWorkerKey() { // a wrong password costs no slot
		if err := s.checkProxy(ctx, request.Override.Proxy, "proxyOverride."); err != nil {
			return nil, err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a session id: %w", err)
	}
	grant, err := s.requestSlot(ctx, request, newAuthorization(id, request, build))
	if err != nil {
		if mayHaveReserved(err) && request.ProfileID != nil && request.usesWorkerKey() {
			// The cloud may have reserved a slot without our hearing of it. That of
			// a spec lapses by itself: its profile's id is not known here. So does
			// that of a caller's key: whoever reaches the port can make one up, and
			// make as many reports to tell as they can hang up.
			s.Reports.Ended(s.failedLaunch(id, *request.ProfileID, request))
		}
		return nil, err
	}
	if request.ProfileID != nil && grant.Profile.ID == uuid.Nil { // a permission without the configuration is none yet
		if grant.Profile, err = s.License.Profile(ctx, request.OrganizationKey, *request.ProfileID); err != nil {
			s.Reports.Ended(s.failedLaunch(id, *request.ProfileID, request))
			return nil, err
		}
	}
	journey.record(ctx, session.Authorized, s.Clock.Now())
	var run *running
	if err = entry.countAuthorized(); err == nil {
		run, err = s.start(ctx, id, grant, request, machine, journey)
	}
	if err != nil {
		s.Reports.Ended(s.failedLaunch(id, grant.Profile.ID, request))
	}
	return run, err
}

// requestSlot asks the cloud for a slot; for a key that a caller brought, when it is the
// caller's turn.
func (s *Service) requestSlot(ctx context.Context, request Request, asked Authorization) (Grant, error) {
	authorize := func() (Grant, error) { return s.authorize(ctx, asked) }
	if request.usesWorkerKey() {
		return authorize()
	}
	return s.keyLimiter.authorize(ctx, request, authorize)
}

// failureLogLevel is that at which a launch that failed is logged. Of callers whose
// key is refused the access log tells, which summarizes what repeats.
func failureLogLevel(request Request, err error) slog.Level {
	if !request.usesWorkerKey() && (isKeyRefused(err) || errors.Is(err, errTooManyPending)) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// checkRequest finds what is wrong with a request before the cloud is asked. The
// build is that of a spec; a profile's version is not known yet.
func (s *Service) checkRequest(request Request, machine func() hostSnapshot) (browser.Build, error) {
	if details := request.Override.check("browser."); len(details) > 0 {
		return browser.Build{}, fault.Invalid(details...)
	}
	if request.Spec == nil {
		return browser.Build{}, nil
	}
	return s.chooseBuild(*request.Spec, machine(), !request.Headless)
}

func newAuthorization(id uuid.UUID, request Request, build browser.Build) Authorization {
	asked := Authorization{SessionID: id, ProfileID: request.ProfileID, OrganizationKey: request.OrganizationKey}
	if request.Spec != nil {
		asked.Spec, asked.BrowserVersion = request.Spec.Body, build.Major
	}
	return asked
}

// mayHaveReserved reports whether the cloud may have granted a slot although no
// grant arrived.
func mayHaveReserved(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled)
}

func (s *Service) failedLaunch(id, profileID uuid.UUID, request Request) Ended {
	return Ended{
		SessionID: id, ProfileID: profileID, Status: session.Killed, Reason: session.Unknown, At: s.Clock.Now(),
		OrganizationKey: request.OrganizationKey,
	}
}

// start starts the browser of a grant, lists its session and watches it. After
// an error nothing is left of it.
func (s *Service) start(
	ctx context.Context, id uuid.UUID, grant Grant, request Request, machine func() hostSnapshot, journey *timeline,
) (*running, error) {
	spec, settings, bundle, err := s.prepareSpec(grant.Profile, request, machine())
	if err != nil {
		return nil, err
	}
	field := request.proxyField()
	if request.Override.Proxy == nil || !request.usesWorkerKey() { // else it was checked before the cloud was asked
		if err := s.checkProxy(ctx, settings.Proxy, field); err != nil {
			return nil, err
		}
	}
	run := &running{
		maxDuration: request.MaxDuration, idleTimeout: request.IdleTimeout, oomKillsBefore: machine().oomKills,
		done: make(chan struct{}), endRequests: make(chan session.EndReason, 1), timeline: journey,
	}
	how, err := s.acquireBrowser(ctx, run, grant.Profile, settings.Proxy, field, spec)
	if err != nil {
		return nil, err
	}
	s.countStart(how)
	journey.record(ctx, session.Answered, run.browser.AnsweredAt)
	journey.record(ctx, session.Ready, s.Clock.Now())
	run.activity = activity.New(s.Clock)
	s.addSession(run, session.Session{
		ID: id, LaunchID: uuid.MustParse(run.browser.LaunchID), SlotID: grant.SlotID, ProfileID: grant.Profile.ID, ProfileName: grant.Profile.Name,
		BrowserVersion: spec.Build.Major, Headless: request.Headless, DevTools: spec.Build.DevTools, Metadata: settings.Metadata, Bundle: bundle,
		DebugPort: run.browser.DebugPort, DebugPath: run.browser.WebSocketPath, StartedAt: s.Clock.Now(),
		OrganizationKey: request.OrganizationKey, Start: how, Timeline: journey.snapshot(),
	})
	return run, nil
}

// startCold starts a launch's browser.
func (s *Service) startCold(ctx context.Context, run *running, profile Profile, proxy *Proxy, field string, spec browser.Spec) error {
	h, err := s.acquireResources(ctx, profile, proxy, field, &spec)
	if err != nil {
		return err
	}
	if run.browser, err = s.Launcher.Launch(ctx, spec); err != nil {
		h.release()
		return s.launchError(ctx, spec.LaunchID, err)
	}
	h.restrict(run.browser.UID())
	run.resources = h
	run.timeline.record(ctx, session.Started, run.browser.ExecutedAt)
	return nil
}

// prepareSpec says what to launch for a profile and a request; directories and the
// way to the proxy are furnish's.
func (s *Service) prepareSpec(profile Profile, request Request, machine hostSnapshot) (_ browser.Spec, settings Settings, bundle session.Bundle, err error) {
	build, err := machine.findBuild(profile.BrowserVersion, !request.Headless)
	if err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	launchID, err := uuid.NewV7()
	if err != nil {
		return browser.Spec{}, settings, bundle, fmt.Errorf("make a launch id: %w", err)
	}
	settings, bundle = s.settings(request, profile)
	if details := settings.Proxy.check(request.proxyField()); len(details) > 0 {
		return browser.Spec{}, settings, bundle, fault.Invalid(details...)
	}
	spec := settings.browserSpec()
	spec.LaunchID, spec.Build, spec.Headless, spec.Timeout = launchID.String(), build, request.Headless, request.Timeout
	if len(spec.StartURLs) == 0 && !spec.Headless {
		spec.StartURLs = nil // a window without a tab is none
	}
	return spec, settings, bundle, nil
}

// launchError says why a browser did not start.
func (s *Service) launchError(ctx context.Context, launchID string, err error) error {
	s.Logger.WarnContext(ctx, "the browser did not start", "launchId", launchID, "error", err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return launchCanceled(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not start in time.")
	case errors.Is(err, browser.ErrNoSandbox):
		return fault.Wrap(err, fault.Internal, "This worker's host denies Chromium its sandbox: see the worker's log, and ALLOW_NO_SANDBOX.")
	default:
		return fault.Wrap(err, fault.Internal, "The browser did not start.")
	}
}

func launchCanceled(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "The launch was given up.")
}
