package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
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
	LimitRules  LimitRules              // of the lifetimes of sessions
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
	// CannotRecord returns why videos are not possible; "" if they are. nil: none is.
	CannotRecord func(Record) (problem string)
	RecordingURL func(session uuid.UUID) string // of the player; nil: recordings are not reported
	MaxWaiting   int                            // bounds the launches that wait for this machine; 0: DefaultMaxWaiting
	// Waited is called with the time that each launch with Wait has waited for this machine
	// and for a slot, and whether it got them. It must not block. nil: Metrics.
	Waited func(ctx context.Context, wait time.Duration, granted bool)
	// Launched is called for each browser that has started, with its request and what to record. It returns the
	// reason in the API why the recording could not start; "" if it has. nil: no call.
	Launched func(launchID uuid.UUID, request Request, record Record) (failure string)
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

	checkScheduled bool // the queue will be checked

	fullCache fullCache
	saves     *saves
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
		saves: newSaves(opts.Clock),
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
	// A report is not canceled with its client: it would be sent again.
	if err := s.Reports.Started(context.WithoutCancel(ctx), run.session); err != nil {
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

// checkWaiting checks a launch before it waits: a launch that fails anyway, or whose key
// may be invalid, must not take a place in the queue.
func (s *Service) checkWaiting(ctx context.Context, request Request) error {
	if request.Wait <= 0 {
		return nil
	}
	if _, err := s.checkRequest(request, s.hostReader(ctx)); err != nil || request.usesWorkerKey() {
		return err
	}
	return s.VerifyKey(ctx, request)
}

// launch runs every step before the report.
func (s *Service) launch(ctx context.Context, request Request, entry *pendingLaunch, timeline *timeline, until time.Time) (*running, error) {
	host := s.hostReader(ctx)
	s.active.Go(func() { host() }) // while the launch asks the cloud
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
