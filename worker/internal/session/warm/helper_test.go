package warm_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// startTime is the duration of a start.
const startTime = 200 * time.Millisecond

// weight is the memory of a browser.
const weight = 200 << 20

type fakeBrowser struct {
	kind string
	n    int // its number in the order of creation
	born time.Time
	done chan struct{}

	mu      sync.Mutex
	stale   bool
	dead    bool
	stopped int
}

func (s *fakeBrowser) Done() <-chan struct{} { return s.done }
func (s *fakeBrowser) Memory() int64         { return weight }

func (s *fakeBrowser) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale
}

func (s *fakeBrowser) Stop(context.Context) error {
	s.mu.Lock()
	s.stopped++
	s.mu.Unlock()
	s.die()
	return nil
}

func (s *fakeBrowser) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		s.dead = true
		close(s.done)
	}
}

func (s *fakeBrowser) setStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
}

func (s *fakeBrowser) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead
}

// fakeStarter starts fake browsers and simulates the load of the machine.
type fakeStarter struct {
	mu         sync.Mutex
	browsers   []*fakeBrowser
	startTimes []time.Time // when each start began
	atOnce     int
	most       int  // maximum number of concurrent starts
	failing    bool // every start fails
	load       warm.Load
}

func (m *fakeStarter) start(ctx context.Context, kind string) (*fakeBrowser, error) {
	m.mu.Lock()
	m.startTimes = append(m.startTimes, time.Now())
	m.atOnce++
	m.most = max(m.most, m.atOnce)
	m.mu.Unlock()
	var err error
	select {
	case <-time.After(startTime):
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.atOnce--
	if m.failing {
		err = errors.New("no")
	}
	if err != nil {
		return nil, err
	}
	s := &fakeBrowser{kind: kind, n: len(m.browsers), born: time.Now(), done: make(chan struct{})}
	m.browsers = append(m.browsers, s)
	return s, nil
}

func (m *fakeStarter) setLoad(change func(*warm.Load)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.load)
}

// setFailing makes every start fail or succeed.
func (m *fakeStarter) setFailing(failing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = failing
}

func (m *fakeStarter) all() []*fakeBrowser {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.browsers)
}

func (m *fakeStarter) currentLoad() warm.Load {
	m.mu.Lock()
	defer m.mu.Unlock()
	load := m.load
	for _, s := range m.browsers {
		if s.alive() {
			load.MemoryUsed += weight
		}
	}
	return load
}

func (m *fakeStarter) alive() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.browsers {
		if s.alive() {
			n++
		}
	}
	return n
}

func (m *fakeStarter) starts() int { return len(m.began()) }

// began returns the time of each start.
func (m *fakeStarter) began() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.startTimes)
}

// maxConcurrent returns the maximum number of concurrent starts.
func (m *fakeStarter) maxConcurrent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

type (
	pool    = warm.Pool[string, *fakeBrowser]
	options = warm.Options[string, *fakeBrowser]
)

// withPool runs a test with a running pool in a synctest bubble.
func withPool(t *testing.T, change func(*options), test func(t *testing.T, p *pool, m *fakeStarter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &fakeStarter{load: warm.Load{Capacity: -1, MemoryLimit: 8 << 30, MemoryCeiling: 90}}
		opts := options{
			Size: 2, Start: m.start, Load: m.currentLoad, Clock: clock.System{}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			First: func(context.Context) (string, bool) { return "first", true },
		}
		if change != nil {
			change(&opts)
		}
		p := warm.New(opts)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		test(t, p, m)
		stop()
		running.Wait()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.browsers {
			if s.alive() && s.stopped == 0 {
				t.Errorf("leaked browser %d of kind %s", s.n, s.kind)
			}
		}
	})
}

// advance advances the time and waits for the effects.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// claim claims a browser of the first kind.
func claim(t *testing.T, p *pool) {
	t.Helper()
	s, miss := p.Claim("first")
	if miss != "" {
		t.Fatalf("no browser was ready: %s", miss)
	}
	if s.kind != "first" {
		t.Fatalf("Claim returned a browser of kind %s", s.kind)
	}
	s.die() // the test owns the browser; its death must not affect the pool
}

func assertMiss(t *testing.T, p *pool, kind string, want warm.Miss) {
	t.Helper()
	if s, miss := p.Claim(kind); miss != want {
		t.Fatalf("a claim of %s: %v, %q; want %q", kind, s, miss, want)
	}
}

func ready(p *pool) map[string]int {
	found := map[string]int{}
	for _, h := range p.Stats().Ready {
		found[h.Kind] = h.Count
	}
	return found
}
