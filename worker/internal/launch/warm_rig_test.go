package launch_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/warm"
)

// trail is a way that leads nowhere and remembers what was asked of it.
type trail struct {
	mu     sync.Mutex
	to     []string
	uid    int
	closed int
}

func (w *trail) Address() string         { return "http://127.0.0.1:9" }
func (w *trail) Counts() (in, out int64) { return 0, 0 }
func (w *trail) Move(net.Listener)       {}
func (w *trail) Restrict(uid int)        { w.note(func() { w.uid = uid }) }
func (w *trail) Close()                  { w.note(func() { w.closed++ }) }
func (w *trail) Use(to *launch.Proxy) error {
	if to != nil {
		w.note(func() { w.to = append(w.to, to.Server) })
	}
	return nil
}

func (w *trail) note(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
}

// trails opens them, for many at once.
type trails struct {
	mu  sync.Mutex
	all []*trail
}

func (*trails) Check(context.Context, launch.Proxy) error { return nil }

func (t *trails) Open(context.Context) (launch.Way, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, &trail{})
	return t.all[len(t.all)-1], nil
}

// leading lists the proxies that ways lead to, and says whether every way is
// kept for some user, and how many are open.
func (t *trails) leading() (to []string, kept bool, open int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = true
	for _, w := range t.all {
		w.note(func() {
			to = append(to, w.to...)
			kept = kept && w.uid != 0
			if w.closed == 0 {
				open++
			}
		})
	}
	return to, kept, open
}

// warmRig is a rig with a pool that runs.
type warmRig struct {
	*rig
	pool  *launch.Pool
	ways  *trails
	clock *clock.Fake // of the pool: it stands still but for pass
}

func newWarmRig(t *testing.T, size int) *warmRig {
	t.Helper()
	w := &warmRig{ways: &trails{}, clock: clock.NewFake(time.Now())}
	w.rig = newRig(t, func(o *launch.Options) {
		o.Ways = w.ways
		spares := launch.Spares{Launcher: o.Launcher, Ways: o.Ways, Builds: o.Builds}
		w.pool = warm.New(warm.Options[launch.Kind, *launch.Spare]{
			Size: size, Start: spares.Start, First: spares.First, Clock: w.clock, MaxAge: 1000 * time.Hour, Idle: 1000 * time.Hour,
			Load: func() warm.Load {
				_, launching := w.Counts()
				return warm.Load{Launching: launching, Room: -1}
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

// await waits until that many browsers are ready, and their number is right.
func (w *warmRig) await(t *testing.T, ready int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for w.ready() != ready {
		if time.Now().After(deadline) {
			t.Fatalf("%d are ready, want %d: %+v", w.ready(), ready, w.pool.Stats())
		}
		w.clock.Advance(time.Second) // beyond any pause soon
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *warmRig) ready() (n int) {
	for _, held := range w.pool.Stats().Ready {
		n += held.Count
	}
	return n
}

func (w *warmRig) answers(t *testing.T, s session.Session) {
	t.Helper()
	if err := w.browser(t, s).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Errorf("the browser does not answer: %v", err)
	}
}
