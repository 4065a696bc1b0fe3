package launch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/warm"
)

// claimTimeout bounds how long a browser that was ready may take to become a
// launch's; one is started instead after that.
const claimTimeout = 5 * time.Second

// claimFailed is the reason of a cold start after a spare that was of no use.
const claimFailed = "claimFailed"

// WarmPool keeps browsers ready for launches.
type WarmPool = warm.Pool[WarmKind, *WarmBrowser]

// WarmKind tells spares apart: what can't be changed once a browser runs.
type WarmKind struct {
	Build    browser.Build
	Locale   string // empty: the browser's own
	Headless bool
}

// String is for people: 156.0.8078.79 fr-FR headless.
func (k WarmKind) String() string {
	words := []string{k.Build.Version}
	if k.Locale != "" {
		words = append(words, k.Locale)
	}
	if k.Headless {
		words = append(words, "headless")
	}
	return strings.Join(words, " ")
}

func warmKindOf(spec browser.Spec) WarmKind {
	return WarmKind{Build: spec.Build, Locale: spec.Locale, Headless: spec.Headless}
}

// WarmBrowser is a browser that waits for its launch, with its way out. Nothing of it
// is known to the cloud.
type WarmBrowser struct {
	browser    *browser.Browser
	egress     Egress
	executable os.FileInfo // as it was when it was started
}

// Done implements warm.WarmBrowser.
func (s *WarmBrowser) Done() <-chan struct{} { return s.browser.Done() }

// Memory implements warm.WarmBrowser.
func (s *WarmBrowser) Memory() int64 { return s.browser.Memory() }

// Stale implements warm.WarmBrowser: the build has been replaced, or removed.
func (s *WarmBrowser) Stale() bool {
	now, err := os.Stat(s.browser.Build.Path)
	return err != nil || !os.SameFile(now, s.executable) || now.Size() != s.executable.Size() || !now.ModTime().Equal(s.executable.ModTime())
}

// Stop implements warm.WarmBrowser.
func (s *WarmBrowser) Stop(ctx context.Context) error {
	defer s.egress.Close()
	return s.browser.Kill(ctx)
}

// WarmStarter starts the browsers of a WarmPool.
type WarmStarter struct {
	Launcher Launcher
	Egress   EgressProvider
	Builds   Builds
}

// First is what a worker that has launched nothing yet keeps ready: the newest
// version, without a window.
func (s WarmStarter) First(ctx context.Context) (WarmKind, bool) {
	builds, err := s.Builds.Find(ctx)
	if err != nil {
		return WarmKind{}, false
	}
	build, ok := browser.Choose(builds, 0, false)
	return WarmKind{Build: build, Headless: true}, ok
}

// Start starts a browser of a kind, which leads straight out and has only its
// first, blank tab.
func (s WarmStarter) Start(ctx context.Context, kind WarmKind) (_ *WarmBrowser, err error) {
	program, err := os.Stat(kind.Build.Path)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a launch id: %w", err)
	}
	way, err := s.Egress.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a way out: %w", err)
	}
	started, err := s.Launcher.Launch(ctx, browser.Spec{
		LaunchID: id.String(), Build: kind.Build, Headless: kind.Headless, Locale: kind.Locale, Warm: true,
		ProxyServer: way.Address(), OnProxyListener: way.MoveTo,
	})
	if err != nil {
		way.Close()
		return nil, err
	}
	way.Restrict(started.UID())
	return &WarmBrowser{browser: started, egress: way, executable: program}, nil
}

// coldReasons are the settings for which a launch needs a browser started for
// it, by their names in the API.
func (s *Service) coldReasons(profile Profile, spec browser.Spec) []string {
	reasons := spec.StartupSettings()
	if spec.TimezoneID != "" && !s.Launcher.CanMoveTimezone() {
		reasons = append(reasons, "timezoneId")
	}
	if profile.Persist {
		reasons = append(reasons, "persist")
	}
	return reasons
}

// claimWarm makes a browser that is ready that of a launch. The reason says why there
// is none; then, and after an error, nothing is left of what it did.
func (s *Service) claimWarm(ctx context.Context, run *running, proxy *Proxy, field string, spec browser.Spec) (reason string, err error) {
	if s.Warm == nil {
		return string(warm.Disabled), nil
	}
	at := s.Clock.Now()
	spare, miss := s.Warm.Claim(warmKindOf(spec))
	if miss != "" {
		return string(miss), nil
	}
	h := resources{egress: spare.egress}
	if err := h.setUpstream(proxy, field); err != nil {
		s.stopWarm(spare)
		return "", err
	}
	claiming, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := spare.browser.Configure(claiming, spec); err != nil {
		s.Logger.WarnContext(ctx, "failed to configure warm browser", "kind", warmKindOf(spec), "error", err)
		s.stopWarm(spare)
		return claimFailed, nil
	}
	run.browser, run.resources = spare.browser, h
	run.timeline.record(ctx, session.Claimed, at)
	return "", nil
}

// acquireBrowser gets a launch its browser, and what is held for it: one that is ready
// where one will do, else a new one. After an error nothing is left of either.
func (s *Service) acquireBrowser(ctx context.Context, run *running, profile Profile, proxy *Proxy, field string, spec browser.Spec) (session.Start, error) {
	cold := s.coldReasons(profile, spec)
	if len(cold) == 0 {
		reason, err := s.claimWarm(ctx, run, proxy, field, spec)
		if err != nil {
			return session.Start{}, err
		}
		if reason == "" {
			return session.Start{Warm: true}, nil
		}
		cold = []string{reason}
	}
	return session.Start{ColdReasons: cold}, s.startCold(ctx, run, profile, proxy, field, spec)
}

// stopWarm ends a spare that was taken for a launch.
func (s *Service) stopWarm(spare *WarmBrowser) {
	s.active.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		if err := spare.Stop(ctx); err != nil {
			s.Logger.Error("a browser that was ready resists its end", "error", err)
		}
	})
}

// Starts counts how launches got their browsers, since the worker's start.
type Starts struct {
	Warm int64
	Cold map[string]int64 // by reason; a launch may have several
}

// Starts returns the counts so far.
func (s *Service) Starts() Starts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Starts{Warm: s.starts.Warm, Cold: maps.Clone(s.starts.Cold)}
}

func (s *Service) countStart(start session.Start) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start.Warm {
		s.starts.Warm++
	}
	for _, reason := range start.ColdReasons {
		s.starts.Cold[reason]++
	}
}
