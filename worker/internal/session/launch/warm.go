package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// claimTimeout bounds the configuration of a claimed warm browser. After it, the
// launch starts a new browser.
const claimTimeout = 5 * time.Second

// claimFailed is the cold start reason if a claimed warm browser could not be
// configured.
const claimFailed = "claimFailed"

// WarmPool keeps browsers ready for launches.
type WarmPool = warm.Pool[WarmKind, *WarmBrowser]

// WarmKind holds the settings of a warm browser that cannot be changed while it
// runs.
type WarmKind struct {
	Build    builds.Build
	Locale   string // empty: the browser's default
	Timezone string // IANA name; empty: the host's
	Headless bool
}

// String returns a description for logs: 156.0.8078.79 fr-FR Europe/Paris headless.
func (k WarmKind) String() string {
	words := []string{k.Build.Version}
	for _, word := range []string{k.Locale, k.Timezone} {
		if word != "" {
			words = append(words, word)
		}
	}
	if k.Build.Engine == builds.HeadlessShell {
		words = append(words, string(builds.HeadlessShell))
	}
	if k.Headless {
		words = append(words, "headless")
	}
	return strings.Join(words, " ")
}

func warmKindOf(spec browser.Spec) WarmKind {
	return WarmKind{Build: spec.Build, Locale: spec.Locale, Timezone: spec.TimezoneID, Headless: spec.Headless}
}

// WarmBrowser is a running browser that waits for its launch. The cloud does not
// know about it.
type WarmBrowser struct {
	browser    *browser.Browser
	egress     Egress
	executable os.FileInfo // at the time of the start
}

// Done implements warm.Browser.
func (s *WarmBrowser) Done() <-chan struct{} { return s.browser.Done() }

// Memory implements warm.Browser.
func (s *WarmBrowser) Memory() int64 { return s.browser.Memory() }

// Stale implements warm.Browser: the build has been replaced or removed.
func (s *WarmBrowser) Stale() bool {
	now, err := os.Stat(s.browser.Build.Path)
	return err != nil || !os.SameFile(now, s.executable) || now.Size() != s.executable.Size() || !now.ModTime().Equal(s.executable.ModTime())
}

// Stop implements warm.Browser.
func (s *WarmBrowser) Stop(ctx context.Context) error {
	defer s.egress.Close()
	return s.browser.Kill(ctx)
}

// WarmStarter starts the browsers of a WarmPool.
type WarmStarter struct {
	Launcher    Launcher
	Egress      EgressProvider
	Builds      Builds
	PreferShell bool // as Options.AutoEngine
}

// First returns the kind to keep ready before the first launch: the newest version,
// headless.
func (s WarmStarter) First(ctx context.Context) (WarmKind, bool) {
	installed, err := s.Builds.Find(ctx)
	if err != nil {
		return WarmKind{}, false
	}
	build, ok := builds.Choose(installed, 0, builds.Needs{PreferShell: s.PreferShell})
	return WarmKind{Build: build, Headless: true}, ok
}

// Start starts a browser of a kind, with direct egress and one blank tab.
func (s WarmStarter) Start(ctx context.Context, kind WarmKind) (_ *WarmBrowser, err error) {
	executable, err := os.Stat(kind.Build.Path)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate launch id: %w", err)
	}
	egress, err := s.Egress.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open egress: %w", err)
	}
	started, err := s.Launcher.Launch(ctx, browser.Spec{
		LaunchID: id.String(), Build: kind.Build, Headless: kind.Headless, Warm: true,
		Emulation:   settings.Emulation{Locale: kind.Locale, TimezoneID: kind.Timezone},
		ProxyServer: egress.Address(), OnProxyListener: egress.MoveTo, OpenContextProxy: egress.OpenContextProxy, CountDenied: egress.CountDenied,
	})
	if err != nil {
		egress.Close()
		return nil, err
	}
	egress.Restrict(started.UID())
	return &WarmBrowser{browser: started, egress: egress, executable: executable}, nil
}

// coldReasons returns the settings, by their names in the API, that require a
// browser started for this launch.
func coldReasons(profile Profile, spec browser.Spec) []string {
	reasons := spec.StartupSettings()
	if profile.Persist {
		reasons = append(reasons, "persist")
	}
	return reasons
}

// claimWarm claims and configures a warm browser for a launch, or one that is starting for
// the pool. If the browser was not ready, or there is none, it returns the reason. Without
// a browser it holds no resources.
func (s *Service) claimWarm(ctx context.Context, run *running, proxy *settings.Proxy, field string, spec browser.Spec) (acquired bool, reason string, err error) {
	if s.Warm == nil {
		return false, string(warm.Disabled), nil
	}
	claimTime := s.Clock.Now()
	claimed, miss := s.Warm.Claim(warmKindOf(spec))
	if miss == warm.Starting {
		var ok bool
		if claimed, ok = s.awaitWarm(ctx, spec); !ok {
			return false, string(miss), nil
		}
		claimTime = s.Clock.Now()
	} else if miss != "" {
		return false, string(miss), nil
	}
	held := resources{egress: claimed.egress}
	held.egress.SetRules(spec.Rules)
	if err := held.setUpstream(proxy, field); err != nil {
		s.stopWarm(claimed)
		return false, "", err
	}
	timeout := claimTimeout
	if spec.BeforeFirstPage != nil { // takes longer, and would take as long in a new browser
		timeout = cmp.Or(spec.Timeout, browser.DefaultTimeout)
	}
	claimCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := claimed.browser.Configure(claimCtx, spec); err != nil {
		if invalid, ok := errors.AsType[*fault.Error](err); ok {
			s.stopWarm(claimed)
			return false, "", invalid
		}
		s.Logger.WarnContext(ctx, "failed to configure warm browser", "kind", warmKindOf(spec), "error", err)
		s.stopWarm(claimed)
		return false, claimFailed, nil
	}
	run.browser, run.resources = claimed.browser, held
	run.timeline.record(ctx, session.Claimed, claimTime)
	return true, string(miss), nil
}

// awaitWarm waits for a browser that is starting for the pool: it is ready earlier than a
// new one.
func (s *Service) awaitWarm(ctx context.Context, spec browser.Spec) (*WarmBrowser, bool) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(spec.Timeout, browser.DefaultTimeout))
	defer cancel()
	return s.Warm.Await(ctx, warmKindOf(spec))
}

// acquireBrowser gets a browser and its resources for a launch: a warm browser if
// possible, otherwise a new one. After an error no resources leak.
func (s *Service) acquireBrowser(ctx context.Context, run *running, profile Profile, proxy *settings.Proxy, field string, spec browser.Spec) (session.Start, error) {
	cold := coldReasons(profile, spec)
	if len(cold) == 0 {
		acquired, reason, err := s.claimWarm(ctx, run, proxy, field, spec)
		switch {
		case err != nil:
			return session.Start{}, err
		case acquired && reason == "":
			run.timeline.start = warmStart
			return session.Start{Warm: true}, nil
		case acquired:
			run.timeline.start = coldStart
			return session.Start{ColdReasons: []string{reason}}, nil
		}
		cold = []string{reason}
	}
	run.timeline.start = coldStart
	return session.Start{ColdReasons: cold}, s.startCold(ctx, run, profile, proxy, field, spec)
}

// stopWarm stops a claimed warm browser in the background.
func (s *Service) stopWarm(claimed *WarmBrowser) {
	s.active.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		if err := claimed.Stop(ctx); err != nil {
			s.Logger.Error("failed to stop warm browser", "error", err)
		}
	})
}

// Starts counts warm and cold starts since the worker started.
type Starts struct {
	Warm int64
	Cold map[string]int64 // by reason; a launch may have several
}

// startCounts counts the starts of a Service.
type startCounts struct {
	mu sync.Mutex
	Starts
}

// Starts returns the counts so far.
func (s *Service) Starts() Starts {
	s.starts.mu.Lock()
	defer s.starts.mu.Unlock()
	return Starts{Warm: s.starts.Warm, Cold: maps.Clone(s.starts.Cold)}
}

func (c *startCounts) count(start session.Start) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if start.Warm {
		c.Warm++
	}
	for _, reason := range start.ColdReasons {
		c.Cold[reason]++
	}
}
