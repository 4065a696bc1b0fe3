package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Options are what a Service works with. Every field is required.
type Options struct {
	License  License
	Reports  Reports
	Builds   Builds
	Launcher Launcher
	Sessions *session.Store
	Data     *Data
	Forward  Forward
	Clock    clock.Clock
	Logger   *slog.Logger
}

// Service launches, watches and ends browsers.
type Service struct {
	Options

	active sync.WaitGroup // launches under way, and watchers

	mu       sync.Mutex
	draining bool
	live     map[uuid.UUID]*running // by session id
}

// New returns a Service. Shutdown ends it.
func New(opts Options) *Service {
	return &Service{Options: opts, live: map[uuid.UUID]*running{}}
}

// Launch asks the cloud, starts a browser and reports it. A launch that fails
// after it was authorized gives its slot back at once and leaves nothing behind.
// Errors: Validation, NotInstalled, PaymentRequired, NotFound, Conflict,
// BadGateway, Unavailable, Timeout, Internal (specification 4.3, 7.3; DESIGN:
// worker).
func (s *Service) Launch(ctx context.Context, request Request) (session.Session, error) {
	if !s.enter() {
		return session.Session{}, fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	defer s.active.Done()
	build, err := s.checkFirst(ctx, request)
	if err != nil {
		return session.Session{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return session.Session{}, fmt.Errorf("make a session id: %w", err)
	}
	grant, err := s.License.Authorize(ctx, authorization(id, request, build))
	if err != nil {
		if undecided(err) && request.ProfileID != nil {
			// The cloud may have reserved a slot without our hearing of it. That of
			// a spec lapses by itself: its profile's id is not known here.
			s.Reports.Ended(s.failed(id, *request.ProfileID))
		}
		return session.Session{}, err
	}
	run, err := s.start(ctx, id, grant, request)
	if err != nil {
		s.Reports.Ended(s.failed(id, grant.Profile.ID))
		return session.Session{}, err
	}
	if err := s.Reports.Started(ctx, run.session); err != nil {
		run.askToEnd(session.License)
		<-run.over
		return session.Session{}, err
	}
	if ctx.Err() != nil { // nobody would hear of it
		run.askToEnd(session.ClientClose)
		<-run.over
		return session.Session{}, fault.Wrap(ctx.Err(), fault.Unavailable, "The launch was given up.")
	}
	return run.session, nil
}

// checkFirst finds what is wrong with a request before the cloud is asked. The
// build is that of a spec; a profile's version is not known yet.
func (s *Service) checkFirst(ctx context.Context, request Request) (browser.Build, error) {
	if details := request.Override.check("browser."); len(details) > 0 {
		return browser.Build{}, fault.Invalid(details...)
	}
	if request.Spec == nil {
		return browser.Build{}, nil
	}
	return s.build(ctx, request.Spec.BrowserVersion)
}

// build finds the installed build of a major version, the newest for 0.
func (s *Service) build(ctx context.Context, major int) (browser.Build, error) {
	builds, err := s.Builds.Find(ctx)
	if err != nil {
		return browser.Build{}, fmt.Errorf("find the installed browsers: %w", err)
	}
	versions := []int{}
	for _, build := range builds {
		if build.Major == major || major == 0 {
			return build, nil
		}
		if len(versions) == 0 || versions[len(versions)-1] != build.Major {
			versions = append(versions, build.Major)
		}
	}
	if major == 0 {
		return browser.Build{}, fault.New(fault.NotInstalled, "No browser is installed on this worker.", notInstalled(nil, versions))
	}
	return browser.Build{}, fault.New(fault.NotInstalled,
		fmt.Sprintf("Browser version %d is not installed on this worker.", major), notInstalled(major, versions))
}

// notInstalled is the detail of specification 4.3.
func notInstalled(received any, versions []int) fault.Detail {
	return fault.Detail{
		Field: "browserVersion", Code: fault.ResourceNotFound, Message: "is not installed", Received: received,
		Constraint: map[string]any{"availableVersions": versions},
	}
}

func authorization(id uuid.UUID, request Request, build browser.Build) Authorization {
	asked := Authorization{SessionID: id, ProfileID: request.ProfileID}
	if request.Spec != nil {
		asked.Spec, asked.BrowserVersion = request.Spec.Criteria, build.Major
	}
	return asked
}

// undecided reports whether the cloud may have granted a slot although no
// grant arrived.
func undecided(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled)
}

func (s *Service) failed(id, profileID uuid.UUID) Ended {
	return Ended{SessionID: id, ProfileID: profileID, Status: session.Killed, Reason: session.Unknown, At: s.Clock.Now()}
}

// start starts the browser of a grant, lists its session and watches it.
func (s *Service) start(ctx context.Context, id uuid.UUID, grant Grant, request Request) (*running, error) {
	profile := grant.Profile
	build, err := s.build(ctx, profile.BrowserVersion)
	if err != nil {
		return nil, err
	}
	if !request.Headless && !build.Headful {
		return nil, fault.Field("browser.headless", fmt.Sprintf("browser version %d cannot show a window on this worker", build.Major))
	}
	launchID, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a launch id: %w", err)
	}
	settings := request.Override.over(profile.Settings)
	if request.Direct {
		settings.Proxy = nil
	}
	if details := settings.Proxy.check("profile.proxy."); len(details) > 0 {
		return nil, fault.Invalid(details...)
	}
	spec := settings.spec()
	spec.LaunchID, spec.Build, spec.Headless, spec.Timeout = launchID.String(), build, request.Headless, request.Timeout
	held, err := s.furnish(&spec, profile, settings.Proxy)
	if err != nil {
		return nil, err
	}
	started, err := s.Launcher.Launch(ctx, spec)
	if err != nil {
		held.release()
		return nil, s.launchFault(ctx, launchID, err)
	}
	held.restrict(started.UID())
	return s.list(started, session.Session{
		ID: id, LaunchID: launchID, SlotID: grant.SlotID, ProfileID: profile.ID, ProfileName: profile.Name,
		BrowserVersion: build.Major, Headless: request.Headless, Metadata: settings.Metadata,
		DebugPort: started.DebugPort, DebugPath: started.WebSocketPath, StartedAt: s.Clock.Now(),
	}, request.MaxDuration, held), nil
}

// launchFault says why a browser did not start.
func (s *Service) launchFault(ctx context.Context, launchID uuid.UUID, err error) error {
	s.Logger.WarnContext(ctx, "launch failed", "launchId", launchID, "error", err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.Wrap(err, fault.Unavailable, "The launch was given up.")
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not start in time.")
	case errors.Is(err, browser.ErrNoSandbox):
		return fault.Wrap(err, fault.Internal, "This worker's host denies Chromium its sandbox: see the worker's log, and ALLOW_NO_SANDBOX.")
	default:
		return fault.Wrap(err, fault.Internal, "The browser did not start.")
	}
}

// list makes a started browser a session and gives it its watcher.
func (s *Service) list(started *browser.Browser, of session.Session, lifetime time.Duration, held held) *running {
	run := &running{
		browser: started, session: s.Sessions.Add(of), lifetime: lifetime, held: held,
		over: make(chan struct{}), kill: make(chan session.EndReason, 1),
	}
	s.mu.Lock()
	s.live[run.session.ID] = run
	if s.draining {
		run.askToEnd(session.Drain)
	}
	s.mu.Unlock()
	s.active.Go(func() { s.watch(run) })
	return run
}

// enter counts a launch that begins, for Shutdown to wait for; false once that
// has begun.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.active.Add(1)
	return true
}
