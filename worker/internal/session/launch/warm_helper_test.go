package launch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// recordingEgress is an egress without a proxy that records its calls.
type recordingEgress struct {
	mu      sync.Mutex
	servers []string
	uid     int
	closed  int
}

func (w *recordingEgress) SetRules(*netrules.Policy)      {}
func (w *recordingEgress) Address() string                { return "http://127.0.0.1:9" }
func (w *recordingEgress) Counts() (received, sent int64) { return 0, 0 }
func (w *recordingEgress) MoveTo(net.Listener)            {}
func (w *recordingEgress) OpenContextProxy(string, string) (string, func(), error) {
	return "", nil, nil
}
func (w *recordingEgress) PresentCertificates(map[string]tls.Certificate, []*x509.Certificate, bool) (*x509.Certificate, error) {
	return nil, nil
}
func (w *recordingEgress) Network(int) session.Network          { return session.Network{} }
func (w *recordingEgress) CountDenied(string, netrules.Verdict) {}
func (w *recordingEgress) Restrict(uid int)                     { w.locked(func() { w.uid = uid }) }
func (w *recordingEgress) Close()                               { w.locked(func() { w.closed++ }) }
func (w *recordingEgress) SetUpstream(upstream *settings.Proxy) error {
	if upstream != nil {
		w.locked(func() { w.servers = append(w.servers, upstream.Server) })
	}
	return nil
}

func (w *recordingEgress) locked(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
}

// recordingEgressProvider opens recordingEgresses. It is safe for concurrent use.
type recordingEgressProvider struct {
	mu  sync.Mutex
	all []*recordingEgress
}

func (*recordingEgressProvider) Check(context.Context, settings.Proxy) error { return nil }

func (t *recordingEgressProvider) Open(context.Context) (launch.Egress, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, &recordingEgress{})
	return t.all[len(t.all)-1], nil
}

// summary returns the upstream proxies of the open egresses, whether every egress is
// restricted to a user, and how many are open.
func (t *recordingEgressProvider) summary() (servers []string, kept bool, open int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = true
	for _, w := range t.all {
		w.locked(func() {
			servers = append(servers, w.servers...)
			kept = kept && w.uid != 0
			if w.closed == 0 {
				open++
			}
		})
	}
	return servers, kept, open
}

// warmFixture is a fixture with a running warm pool.
type warmFixture struct {
	*fixture
	pool   *launch.WarmPool
	egress *recordingEgressProvider
	clock  *clock.Fake // clock of the pool; tests advance it
}

func newWarmFixture(t *testing.T, size int) *warmFixture {
	t.Helper()
	w := &warmFixture{egress: &recordingEgressProvider{}, clock: clock.NewFake(time.Now())}
	w.fixture = newFixture(t, func(o *launch.Options) {
		o.Egress = w.egress
		spares := launch.WarmStarter{Launcher: o.Launcher, Egress: o.Egress, Builds: o.Builds, PreferShell: o.AutoEngine}
		w.pool = warm.New(warm.Options[launch.WarmKind, *launch.WarmBrowser]{
			Size: size, Start: spares.Start, First: spares.First, Clock: w.clock, MaxAge: 1000 * time.Hour, Idle: 1000 * time.Hour,
			Load: func() warm.Load {
				_, launching := w.Counts()
				return warm.Load{Launching: launching, Capacity: -1}
			},
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		o.Warm = w.pool
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.pool.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

// awaitReady waits until exactly this many warm browsers are ready.
func (w *warmFixture) awaitReady(t *testing.T, ready int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for w.ready() != ready {
		if time.Now().After(deadline) {
			t.Fatalf("got %d ready browsers, want %d: %+v", w.ready(), ready, w.pool.Stats())
		}
		w.clock.Advance(time.Second) // eventually passes every pause of the pool
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *warmFixture) ready() (n int) {
	for _, held := range w.pool.Stats().Ready {
		n += held.Count
	}
	return n
}

func (w *warmFixture) assertAnswers(t *testing.T, s session.Session) {
	t.Helper()
	if err := w.browser(t, s).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Errorf("the browser does not answer: %v", err)
	}
}
