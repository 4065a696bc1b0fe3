package warm_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/session/warm"
)

func TestPool_FirstKindIsReadyBeforeDemand(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		assertMiss(t, p, "other", warm.Empty)
	})
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"first": 2}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
		claim(t, p)
		claim(t, p)
		synctest.Wait() // the pool starts the next browser
		assertMiss(t, p, "first", warm.Starting)
		advance(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"first": 2}, ready(p)); diff != "" {
			t.Errorf("ready after the claims (-want +got):\n%s", diff)
		}
	})
}

func TestClaim_NeverReturnsABrowserTwice(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 16 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(time.Minute)
		if got := ready(p)["first"]; got != 16 {
			t.Fatalf("got %d ready, want 16", got)
		}
		var mu sync.Mutex
		claimed := map[*fakeBrowser]int{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if s, miss := p.Claim("first"); miss == "" {
					mu.Lock()
					defer mu.Unlock()
					claimed[s]++
				}
			})
		}
		all.Wait()
		if len(claimed) != 16 {
			t.Errorf("Claim returned %d browsers, want 16", len(claimed))
		}
		for s, n := range claimed {
			if n != 1 {
				t.Errorf("Claim returned browser %d %d times", s.n, n)
			}
			if !s.alive() {
				t.Errorf("Claim returned the dead browser %d", s.n)
			}
			s.die()
		}
	})
}

func TestClaim_DoesNotWaitForStart(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(startTime / 2)
		began := time.Now()
		assertMiss(t, p, "first", warm.Starting)
		assertMiss(t, p, "other", warm.Empty)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Claim waited %v", waited)
		}
	})
}

func TestPool_StartsOneAtATimeWithPause(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(time.Minute)
		began := m.began()
		if m.maxConcurrent() != 1 || len(began) != 8 {
			t.Fatalf("%d starts, %d at once; want 8, one at a time", len(began), m.maxConcurrent())
		}
		for i := range began[1:] {
			if between := began[i+1].Sub(began[i]); between < startTime+200*time.Millisecond {
				t.Errorf("start %d came %v after the previous one", i+1, between)
			}
		}
	})
}

func TestPool_ReplacesDeadBrowser(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		for range 50 {
			advance(10 * time.Minute) // longer than any backoff
			if got := ready(p)["first"]; got != 2 {
				t.Fatalf("got %d ready, want 2", got)
			}
			for _, s := range m.all() {
				s.die()
			}
			// The pool has had almost no time to notice the death.
			if s, miss := p.Claim("first"); miss == "" {
				t.Fatalf("Claim returned the dead browser %d", s.n)
			}
		}
		if died := p.Stats().Died; died != 100 {
			t.Errorf("%d died, want 100", died)
		}
	})
}

func TestPool_BacksOffWhenBrowsersKeepDying(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *fakeStarter) {
		for range 20 * 60 {
			advance(time.Second)
			for _, s := range m.all() {
				s.die()
			}
		}
		if n := m.starts(); n < 8 || n > 16 {
			t.Errorf("%d starts in 20 minutes, want 8 to 16", n)
		}
		advance(20 * time.Minute)
		if got := ready(p)["first"]; got != 1 {
			t.Errorf("got %d ready after the deaths have ended, want 1", got)
		}
		for _, s := range m.all() {
			s.die()
		}
		advance(5 * time.Second)
		if got := ready(p)["first"]; got != 1 {
			t.Error("a browser that died after a long life was not replaced at once")
		}
	})
}

func TestPool_BacksOffWhenStartsFail(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setFailing(true)
		advance(20 * time.Minute)
		if n := m.starts(); n < 8 || n > 16 {
			t.Errorf("%d starts in 20 minutes, want 8 to 16", n)
		}
		if failed := p.Stats().Failed; failed != int64(m.starts()) {
			t.Errorf("got %d counted failures, want %d", failed, m.starts())
		}
		m.setFailing(false)
		advance(10 * time.Minute)
		if got := ready(p)["first"]; got != 2 {
			t.Errorf("got %d ready, want 2", got)
		}
	})
}

func TestPool_ReplacesStaleBrowser(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		for _, s := range m.all() {
			s.setStale()
		}
		assertMiss(t, p, "first", warm.Empty)
		synctest.Wait()
		if m.alive() != 0 {
			t.Errorf("%d stale browsers were not stopped", m.alive())
		}
		advance(5 * time.Second)
		claim(t, p)
		if stale := p.Stats().Stale; stale != 2 {
			t.Errorf("got %d counted as stale, want 2", stale)
		}
	})
}

func TestPool_EnforcesMaxAge(t *testing.T) {
	withPool(t, func(o *options) { o.MaxAge = 10 * time.Minute }, func(t *testing.T, p *pool, m *fakeStarter) {
		for range 30 {
			advance(time.Minute)
			oldest := time.Now()
			for _, s := range m.all() {
				if s.alive() && s.born.Before(oldest) {
					oldest = s.born
				}
			}
			if age := time.Since(oldest); age > 10*time.Minute+5*time.Second {
				t.Fatalf("a browser is %v old", age)
			}
		}
		if n := m.starts(); n != 6 {
			t.Errorf("%d starts in half an hour, want 6", n)
		}
	})
}

func TestDrain_StopsBrowsersUntilResume(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(startTime / 2) // during a start
		p.Drain()
		advance(time.Minute)
		assertMiss(t, p, "first", warm.Draining)
		if len(m.all()) != 0 || m.starts() != 1 || p.Stats().Failed != 0 {
			t.Errorf("got %d browsers from %d starts, %d failed, while draining", len(m.all()), m.starts(), p.Stats().Failed)
		}
		p.Resume()
		advance(5 * time.Second)
		claim(t, p)
		p.Drain()
		synctest.Wait()
		if m.alive() != 0 {
			t.Errorf("%d browsers are left", m.alive())
		}
	})
}

func TestDrain_StopsBrowserThatIsStarting(t *testing.T) {
	stubborn := func(o *options) {
		start := o.Start
		o.Start = func(ctx context.Context, kind string) (*fakeBrowser, error) {
			return start(context.WithoutCancel(ctx), kind)
		}
	}
	withPool(t, stubborn, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(startTime / 2)
		p.Drain()
		advance(startTime)
		if len(m.all()) != 1 || m.alive() != 0 || len(ready(p)) != 0 {
			t.Errorf("got %d started, %d alive, %v ready", len(m.all()), m.alive(), ready(p))
		}
	})
}

func TestPool_NoticesDeathImmediately(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		m.all()[0].die()
		synctest.Wait()
		if got := ready(p)["first"]; got != 1 || p.Stats().Died != 1 {
			t.Errorf("got %d ready, %d died", got, p.Stats().Died)
		}
	})
}

func TestClose_IsFinal(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		p.Resume()
		advance(time.Minute)
		assertMiss(t, p, "first", warm.Draining)
		if m.alive() != 0 || m.starts() != 2 {
			t.Errorf("got %d browsers after %d starts", m.alive(), m.starts())
		}
	})
}

func TestPool_SizeZeroIsDisabled(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 0 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(time.Hour)
		assertMiss(t, p, "first", warm.Disabled)
		if m.starts() != 0 {
			t.Errorf("%d starts", m.starts())
		}
	})
}

func TestClose_StopsWaitingWhenContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := warm.New(options{
			Size: 1, Clock: fixedClock{}, Load: func() warm.Load { return warm.Load{Capacity: -1} },
			First: func(context.Context) (string, bool) { return "first", true },
			Start: func(context.Context, string) (*fakeBrowser, error) { <-hang; return nil, context.Canceled },
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		advance(time.Second)
		stop()
		running.Wait()
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(limit); err == nil {
			t.Error("Close returned no error while a browser was left")
		}
		close(hang)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.Now() }
