package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/activity"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Options configures a Service. The second group is optional.
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

	Extensions  Extensions              // nil: no extensions
	AutoEngine  bool                    // a launch without an engine uses a headless shell if that suffices
	Admission   Admission               // nil: every launch is admitted
	Bundles     Bundles                 // nil: no bundles
	Tokens      Tokens                  // nil: no tokens
	Warm        *WarmPool               // nil: no warm browsers
	OutOfMemory func() uint64           // the kernel's count of OOM kills; nil: unknown
	Tracer      trace.Tracer            // nil: no traces
	Metrics     *Metrics                // nil: not exported
	Key         session.OrganizationKey // the worker's own; zero if it has none
	KeepsFiles  bool                    // files can outlive a browser
	// CannotRecord returns why a recording is not possible; "" if it is. nil: none is.
	CannotRecord func(Record) (problem string)
	MaxWaiting   int // bounds the launches that wait for this machine; 0: DefaultMaxWaiting
	// Waited is called with the time that each launch with Wait has waited for this machine
	// and for a slot, and whether it got them. It must not block. nil: Metrics.
	Waited func(ctx context.Context, wait time.Duration, granted bool)
	// Launched is called for each browser that has started, with its request. It must not
	// block. nil: no call.
	Launched func(launchID uuid.UUID, request Request)
	// DrainChanged is called after Drain, Resume and Retire. It must not block. nil: no call.
	DrainChanged func()
}

// Service launches, watches and ends browsers.
type Service struct {
	Options

	active     sync.WaitGroup // launches in progress and watchers
	keyLimiter *keyLimiter

	mu        sync.Mutex
	closing   bool // permanently
	retired   bool // permanently, but sessions continue
	draining  bool // until Resume
	launching int
	live      map[uuid.UUID]*running // by session id
	starts    Starts
	queue     []*queuedLaunch // launches that wait for this machine, in order of arrival
	waiting   context.Context // ends when waiting launches are refused
	refuse    context.CancelFunc

	fullCache fullCache
}

// New returns a Service. Call Shutdown to end it.
func New(opts Options) *Service {
	if opts.OutOfMemory == nil {
		opts.OutOfMemory = func() uint64 { return 0 }
	}
	if opts.Bundles == nil {
		opts.Bundles = noBundles{}
	}
	if opts.Extensions == nil {
		opts.Extensions = noExtensions{}
	}
	if opts.Tokens == nil {
		opts.Tokens = noTokens{}
	}
	if opts.Tracer == nil {
		opts.Tracer = noop.Tracer{}
	}
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if opts.CannotRecord == nil {
		opts.CannotRecord = func(Record) string { return "must be empty: this worker does not record" }
	}
	if opts.MaxWaiting == 0 {
		opts.MaxWaiting = DefaultMaxWaiting
	}
	if opts.Waited == nil {
		opts.Waited = opts.Metrics.observeWait
	}
	s := &Service{
		Options: opts, keyLimiter: newKeyLimiter(opts.Clock), live: map[uuid.UUID]*running{}, starts: Starts{Cold: map[string]int64{}},
	}
	s.waiting, s.refuse = context.WithCancel(context.Background())
	return s
}

// Launch asks the cloud for a slot, starts a browser and reports it. A launch that
// fails after its authorization releases its slot immediately and leaks no
// resources. A launch with Wait waits in line if the machine or the organization is full.
// Errors: Validation, NotInstalled, PaymentRequired, NotFound, Conflict,
// OwnKeyRefused, Unavailable, Timeout, Internal, those of Admission, and for a
// caller's key Unauthenticated and Forbidden (specification 4.3, 5.3, 7.3; DESIGN:
// worker).
func (s *Service) Launch(ctx context.Context, request Request) (session.Session, error) {
	until := s.Clock.Now().Add(request.Wait)
	if err := s.checkWaiting(ctx, request); err != nil {
		return session.Session{}, err
	}
	entry, err := s.beginLaunch(ctx, request, until)
	if err != nil {
		s.recordWait(ctx, request, until, false)
		s.Metrics.countLaunch(notAdmitted, noStart)
		return session.Session{}, err
	}
	defer s.active.Done()
	ctx, timeline := s.beginTimeline(ctx, request, until.Add(-request.Wait))
	run, err := s.launch(ctx, request, entry, timeline, until)
	if err != nil {
		entry.abandon()
		s.Metrics.countLaunch(entry.failure(ctx, err), timeline.start)
		s.Logger.Log(ctx, failureLogLevel(request, err), "launch failed", "error", err, "after", timeline)
		timeline.fail(err, s.Clock.Now())
		return session.Session{}, err
	}
	launched, err := s.reportStart(ctx, run)
	if err != nil {
		s.Metrics.countLaunch(entry.failure(ctx, err), timeline.start)
		timeline.fail(err, s.Clock.Now())
		return session.Session{}, err
	}
	timeline.finish(ctx, launched)
	s.Metrics.countLaunch(launchSucceeded, timeline.start)
	s.Logger.InfoContext(ctx, "session started", "sessionId", launched.ID, "launchId", launched.LaunchID, "warm", launched.Start.Warm,
		"cold", launched.Start.ColdReasons, "after", timeline)
	return launched, nil
}

// reportStart reports the running session. It ends the session if the cloud refuses
// it or the client has disconnected.
func (s *Service) reportStart(ctx context.Context, run *running) (session.Session, error) {
	if err := s.Reports.Started(ctx, run.session); err != nil {
		run.requestEnd(session.License)
		<-run.done
		return session.Session{}, err
	}
	if ctx.Err() != nil { // the client has disconnected
		run.requestEnd(session.ClientClose)
		<-run.done
		return session.Session{}, launchCanceled(ctx.Err())
	}
	return s.Sessions.AddStep(run.session.ID, run.timeline.record(ctx, session.Reported, s.Clock.Now())), nil
}

// checkWaiting checks a launch before it waits: a launch that fails anyway, or with a key
// that may be made up, must not take a place.
func (s *Service) checkWaiting(ctx context.Context, request Request) error {
	if request.Wait <= 0 {
		return nil
	}
	if _, err := s.checkRequest(request, s.snapshotHost(ctx)); err != nil || request.usesWorkerKey() {
		return err
	}
	return s.VerifyKey(ctx, request)
}

// launch runs every step before the report.
func (s *Service) launch(ctx context.Context, request Request, entry *pendingLaunch, timeline *timeline, until time.Time) (*running, error) {
	host := s.snapshotHost(ctx)
	build, err := s.checkRequest(request, host)
	if err != nil {
		return nil, err
	}
	if request.usesWorkerKey() { // check first: a wrong password must not use a slot
		if err := s.checkProxy(ctx, request.Override.Proxy, "proxyOverride."); err != nil {
			return nil, err
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate session id: %w", err)
	}
	grant, err := s.takeSlot(ctx, request, newAuthorization(id, request, build), until)
	if err != nil {
		if mayHaveReserved(err) && request.ProfileID != nil && request.usesWorkerKey() {
			// The cloud may have reserved a slot although its answer was lost. The
			// reservation of a spec expires by itself, because the id of its profile is
			// unknown here. So does that of a caller's key: otherwise anyone who can
			// reach the port could create any number of reports with made-up keys.
			s.Reports.Ended(s.failedLaunch(id, *request.ProfileID, request))
		}
		return nil, err
	}
	if request.ProfileID != nil && grant.Profile.ID == uuid.Nil { // the grant came without the configuration
		if grant.Profile, err = s.License.Profile(ctx, request.OrganizationKey, *request.ProfileID); err != nil {
			s.Reports.Ended(s.failedLaunch(id, *request.ProfileID, request))
			return nil, err
		}
	}
	timeline.record(ctx, session.Authorized, s.Clock.Now())
	var run *running
	if err = entry.countAuthorized(); err == nil {
		run, err = s.start(ctx, id, grant, request, host, timeline)
	}
	if err != nil {
		s.Reports.Ended(s.failedLaunch(id, grant.Profile.ID, request))
	}
	return run, err
}

// takeSlot asks the cloud for a slot, and waits for it if the request allows.
func (s *Service) takeSlot(ctx context.Context, request Request, asked Authorization, until time.Time) (Grant, error) {
	if request.Wait <= 0 {
		return s.requestSlot(ctx, request, asked)
	}
	grant, err := s.awaitSlot(ctx, request, asked, until)
	s.recordWait(ctx, request, until, err == nil)
	return grant, err
}

func (s *Service) recordWait(ctx context.Context, request Request, until time.Time, granted bool) {
	if request.Wait > 0 {
		s.Waited(ctx, request.Wait-until.Sub(s.Clock.Now()), granted)
	}
}

// requestSlot asks the cloud for a slot. Requests with a caller's key are limited.
func (s *Service) requestSlot(ctx context.Context, request Request, asked Authorization) (Grant, error) {
	authorize := func() (Grant, error) { return s.authorize(ctx, asked) }
	if request.usesWorkerKey() {
		return authorize()
	}
	return s.keyLimiter.authorize(ctx, request, authorize)
}

// failureLogLevel returns the log level of a failed launch. Refused keys of callers
// are already in the access log, which summarizes repeated entries.
func failureLogLevel(request Request, err error) slog.Level {
	if !request.usesWorkerKey() && (isKeyRefused(err) || errors.Is(err, errTooManyPending)) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// checkRequest validates a request before the cloud is asked. It returns the build
// for a spec; the version of a profile is not known yet.
func (s *Service) checkRequest(request Request, host func() hostSnapshot) (browser.Build, error) {
	details := slices.Concat(request.Override.check("browser."), request.State.Check(stateField), request.checkEngine(),
		s.checkExtensions(request.Extensions), s.checkKeepFiles(request), s.checkRecord(request))
	if len(details) > 0 {
		return browser.Build{}, fault.Invalid(details...)
	}
	if request.Spec == nil {
		return browser.Build{}, nil
	}
	build, err := s.chooseBuild(*request.Spec, host(), s.needs(request, Profile{}))
	if err == nil {
		err = request.checkBuild(build)
	}
	return build, err
}

// checkKeepFiles refuses keepFiles on a worker that keeps none.
func (s *Service) checkKeepFiles(request Request) []fault.Detail {
	if !request.KeepFiles || s.KeepsFiles {
		return nil
	}
	return []fault.Detail{{
		Field: "browser.keepFiles", Code: fault.Custom, Message: "must be false: this worker does not keep files (FILES_RETENTION is 0)", Received: true,
	}}
}

func newAuthorization(id uuid.UUID, request Request, build browser.Build) Authorization {
	asked := Authorization{SessionID: id, ProfileID: request.ProfileID, OrganizationKey: request.OrganizationKey}
	if request.Spec != nil {
		asked.Spec, asked.BrowserVersion = request.Spec.Body, build.Major
	}
	return asked
}

// mayHaveReserved reports whether the cloud may have reserved a slot although no
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

// start starts the browser of a grant, adds its session and watches it. After an
// error no resources leak.
func (s *Service) start(
	ctx context.Context, id uuid.UUID, grant Grant, request Request, host func() hostSnapshot, timeline *timeline,
) (*running, error) {
	spec, settings, bundle, err := s.prepareSpec(grant.Profile, request, host())
	if err != nil {
		return nil, err
	}
	field := request.proxyField()
	if request.Override.Proxy == nil || !request.usesWorkerKey() { // otherwise it was checked before the authorization
		if err := s.checkProxy(ctx, settings.Proxy, field); err != nil {
			return nil, err
		}
	}
	run := &running{
		maxDuration: request.MaxDuration, idleTimeout: request.IdleTimeout, oomKillsBefore: host().oomKills,
		done: make(chan struct{}), endRequests: make(chan session.EndReason, 1), timeline: timeline,
		dataUse: DataUse{ProfileID: grant.Profile.ID, SessionID: id, OrganizationKey: request.OrganizationKey, ReadOnly: request.ReadOnly},
	}
	releaseExtensions, err := s.useExtensions(request.Extensions, &spec)
	if err != nil {
		return nil, err
	}
	start, err := s.acquireBrowser(ctx, run, grant.Profile, settings.Proxy, field, spec)
	if err != nil {
		releaseExtensions()
		return nil, err
	}
	run.resources.extensions = releaseExtensions
	s.countStart(start)
	timeline.record(ctx, session.Answered, run.browser.AnsweredAt)
	timeline.record(ctx, session.Ready, s.Clock.Now())
	run.activity = activity.New(s.Clock)
	if err := s.bindFiles(run, id, request.KeepFiles); err != nil {
		return nil, err
	}
	s.addSession(run, session.Session{
		ID: id, LaunchID: uuid.MustParse(run.browser.LaunchID), SlotID: grant.SlotID, ProfileID: grant.Profile.ID, ProfileName: grant.Profile.Name,
		BrowserVersion: spec.Build.Major, Engine: string(spec.Build.Engine), Headless: request.Headless, DevTools: spec.Build.DevTools, Metadata: settings.Metadata, Bundle: bundle,
		DebugPort: run.browser.DebugPort, DebugPath: run.browser.WebSocketPath, StartedAt: s.Clock.Now(),
		OrganizationKey: request.OrganizationKey, Start: start, Timeline: timeline.snapshot(),
	})
	if s.Launched != nil {
		s.Launched(run.session.LaunchID, request)
	}
	return run, nil
}

// bindFiles gives the files of a browser to its session. After an error the browser has
// ended.
func (s *Service) bindFiles(run *running, id uuid.UUID, keep bool) error {
	of := run.browser.Files()
	if of == nil {
		return nil
	}
	err := of.Bind(id, keep)
	if err == nil {
		return nil
	}
	s.stopBrowser(run)
	run.resources.release()
	return fault.Wrap(err, fault.Internal, "The files of the browser could not be stored.")
}

// startCold starts a new browser for a launch.
func (s *Service) startCold(ctx context.Context, run *running, profile Profile, proxy *Proxy, field string, spec browser.Spec) error {
	held, err := s.acquireResources(ctx, profile, run.dataUse, proxy, field, &spec)
	if err != nil {
		return err
	}
	if run.browser, err = s.Launcher.Launch(ctx, spec); err != nil {
		held.release()
		return s.launchError(ctx, spec.LaunchID, err)
	}
	held.restrict(run.browser.UID())
	run.resources = held
	run.timeline.record(ctx, session.Started, run.browser.ExecutedAt)
	return nil
}

// prepareSpec builds the browser spec for a profile and a request. acquireResources
// adds the directories and the proxy address.
func (s *Service) prepareSpec(profile Profile, request Request, host hostSnapshot) (_ browser.Spec, settings Settings, bundle session.Bundle, err error) {
	build, err := host.findBuild(profile.BrowserVersion, s.needs(request, profile))
	if err == nil {
		err = request.checkBuild(build)
	}
	if err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	launchID, err := uuid.NewV7()
	if err != nil {
		return browser.Spec{}, settings, bundle, fmt.Errorf("generate launch id: %w", err)
	}
	settings, bundle = s.settings(request, profile)
	if details := settings.Proxy.check(request.proxyField()); len(details) > 0 {
		return browser.Spec{}, settings, bundle, fault.Invalid(details...)
	}
	if err := checkSettings(request, profile, settings, build); err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	spec := settings.browserSpec()
	spec.LaunchID, spec.Build, spec.Headless, spec.Timeout = launchID.String(), build, request.Headless, request.Timeout
	if len(spec.StartURLs) == 0 && !spec.Headless {
		spec.StartURLs = nil // a headful browser needs a tab
	}
	if request.State != nil {
		spec.BeforeFirstPage = func(ctx context.Context, conn *cdp.Conn) error { return request.State.Write(ctx, conn, stateField) }
	}
	return spec, settings, bundle, nil
}

// stateField is the prefix of the names of a state's fields.
const stateField = "browser.state."

// launchError returns the client error for a browser that did not start.
func (s *Service) launchError(ctx context.Context, launchID string, err error) error {
	if invalid, ok := errors.AsType[*fault.Error](err); ok { // the browser refuses the state
		return invalid
	}
	s.Logger.WarnContext(ctx, "browser did not start", "launchId", launchID, "error", err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return launchCanceled(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not start in time.")
	case errors.Is(err, browser.ErrNoSandbox):
		return fault.Wrap(err, fault.Internal, "The host of this worker does not support Chromium's sandbox. See the worker's log and ALLOW_NO_SANDBOX.")
	}
	if refused, ok := errors.AsType[*browser.ExtensionError](err); ok {
		return extensionRefused(refused)
	}
	return fault.Wrap(err, fault.Internal, "The browser did not start.")
}

func launchCanceled(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "The launch was canceled.")
}
