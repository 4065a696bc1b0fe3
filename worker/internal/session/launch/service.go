package launch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
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
	Admission   admission.Policy        // nil: every launch is admitted
	Bundles     Bundles                 // nil: no bundles
	Tokens      Tokens                  // nil: no tokens
	Warm        *WarmPool               // nil: no warm browsers
	OutOfMemory func() uint64           // the kernel's count of OOM kills; nil: unknown
	Tracer      trace.Tracer            // nil: no traces
	Metrics     *Metrics                // nil: not exported
	Key         session.OrganizationKey // the worker's own; zero if it has none
	KeepsFiles  bool                    // files can outlive a browser
	BlocksAds   bool                    // the launcher has a block list
	// CannotRecord returns why videos are not possible; "" if they are. nil: none is.
	CannotRecord  func(Record) (problem string)
	RecordingURLs func(session uuid.UUID) (player, viewer string) // nil: recordings are not reported
	MaxWaiting    int                                             // bounds the launches that wait for this machine; 0: admission.DefaultMaxWaiting
	// Waited is called with the time that each launch with Wait has waited for this machine
	// and for a slot, and whether it got them. It must not block. nil: Metrics.
	Waited func(ctx context.Context, wait time.Duration, granted bool)
	// Launched is called for each browser that has started, with its request and what to record. It returns the
	// reason in the API why the recording could not start; "" if it has. nil: no call.
	Launched   func(launchID uuid.UUID, request Request, record Record) (failure string)
	OpenReplay OpenReplay // nil: there are no recordings
	// ActionLog creates the activity log of a session. A launch whose log cannot be created is refused. nil: no logs.
	ActionLog func(opened session.Session) (*audit.Log, error)
	// DrainChanged is called after Drain, Resume and Retire. It must not block. nil: no call.
	DrainChanged func()
}

// Service launches, watches and ends browsers. A launch has four steps in this order, of
// which each but the first has state with a lock of its own:
//
//   - validate: checkRequest, without state;
//   - admit (admit.go): the machine's capacity, and the key of a caller;
//   - authorize (authorize.go): a slot from the cloud;
//   - start and watch (start.go, end.go): the browser and its session.
type Service struct {
	Options

	controller *admission.Controller
	keys       *admission.Keys
	fullKeys   fullKeys
	starts     startCounts
	saves      *saves

	drainOrder sync.Mutex     // held while Admission and Warm change, so that they agree
	active     sync.WaitGroup // goroutines of launches, and watchers

	mu      sync.Mutex
	closing bool                   // permanently: sessions end as soon as they have started
	live    map[uuid.UUID]*running // by session id
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
	if opts.Waited == nil {
		opts.Waited = opts.Metrics.observeWait
	}
	return &Service{
		Options:    opts,
		controller: admission.New(admission.Options{Policy: opts.Admission, MaxWaiting: opts.MaxWaiting, Queued: opts.Metrics.beginWait}),
		keys:       admission.NewKeys(opts.Clock), saves: newSaves(opts.Clock), live: map[uuid.UUID]*running{}, starts: startCounts{Starts: Starts{Cold: map[string]int64{}}},
	}
}

// attempt is one launch in progress.
type attempt struct {
	Request
	id       uuid.UUID // of the session
	received time.Time
	host     func() hostSnapshot // reads the state of this machine, once
	replay   *browser.Replay     // nil: there is none
	place    *admission.Place    // nil: not admitted
	full     bool                // this machine refuses the launch
	timeline *timeline
}

// remaining returns how long the launch can still wait.
func (a *attempt) remaining(now time.Time) time.Duration { return a.Wait - now.Sub(a.received) }

// Launch asks the cloud for a slot, starts a browser and reports it. A launch that
// fails after its authorization releases its slot immediately and leaks no
// resources. A launch with Wait waits in line if the machine or the organization is full.
// Errors: Validation, NotInstalled, PaymentRequired, NotFound, Conflict,
// OwnKeyRefused, Unavailable, Timeout, Internal, those of Admission, and for a
// caller's key Unauthenticated and Forbidden (specification 4.3, 5.3, 7.3; DESIGN:
// worker).
func (s *Service) Launch(ctx context.Context, request Request) (session.Session, error) {
	a := &attempt{Request: request, received: s.Clock.Now(), host: s.hostReader(ctx)}
	ctx, a.timeline = s.beginTimeline(ctx, request, a.received)
	launched, err := s.launch(ctx, a)
	if err != nil {
		s.Metrics.countLaunch(a.failure(ctx, err), a.timeline.start)
		s.Logger.Log(ctx, a.failureLogLevel(err), "launch failed", "error", err, "after", a.timeline)
		a.timeline.fail(err, s.Clock.Now())
		return session.Session{}, err
	}
	a.timeline.finish(ctx, launched)
	s.Metrics.countLaunch(launchSucceeded, a.timeline.start)
	s.Logger.InfoContext(ctx, "session started", "sessionId", launched.ID, "launchId", launched.LaunchID, "warm", launched.Start.Warm,
		"cold", launched.Start.ColdReasons, "after", a.timeline)
	return launched, nil
}

// launch runs the steps of a launch.
func (s *Service) launch(ctx context.Context, a *attempt) (session.Session, error) {
	build, err := s.checkRequest(a.Request, a.host)
	if err != nil {
		return session.Session{}, err
	}
	if a.replay, err = s.openReplay(ctx, a.Request); err != nil {
		return session.Session{}, err
	}
	if err := s.admit(ctx, a); err != nil {
		return session.Session{}, err
	}
	defer a.place.Done()
	grant, err := s.authorize(ctx, a, build)
	if err != nil {
		return session.Session{}, err
	}
	run, err := s.start(ctx, a, grant)
	if err != nil {
		s.releaseSlot(a, grant.Profile.ID)
		return session.Session{}, err
	}
	return s.reportStart(ctx, run)
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
		return session.Session{}, admission.Canceled(ctx.Err())
	}
	return s.Sessions.AddStep(run.session.ID, run.timeline.record(ctx, session.Reported, s.Clock.Now())), nil
}

// failureLogLevel returns the log level of a failed launch. Launches that this machine
// refuses, and refused keys of callers, are already in the access log, which summarizes
// repeated entries.
func (a *attempt) failureLogLevel(err error) slog.Level {
	if a.full || !a.usesWorkerKey() && (admission.IsKeyRefused(err) || errors.Is(err, admission.ErrTooManyPending)) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
