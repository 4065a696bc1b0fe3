package warm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// awaited is the result of Await.
type awaited struct {
	browser *fakeBrowser
	ok      bool
}

// await awaits a browser of the first kind in the background.
func await(ctx context.Context, p *pool) <-chan awaited {
	result := make(chan awaited, 1)
	go func() {
		browser, ok := p.Await(ctx, "first")
		result <- awaited{browser, ok}
	}()
	synctest.Wait()
	return result
}

func TestAwait_TakesStartingBrowser(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(startTime / 2)
		assertMiss(t, p, "first", warm.Starting)
		got := await(t.Context(), p)
		assertMiss(t, p, "first", warm.Empty) // the browser is for the waiting launch
		if second := <-await(t.Context(), p); second.ok {
			t.Error("two launches got the same browser")
		}
		advance(startTime / 2)
		first := <-got
		if !first.ok || first.browser.n != 0 {
			t.Fatalf("got %+v, want the browser that was starting", first)
		}
		first.browser.die()
		if stats := p.Stats(); stats.Died != 0 || stats.Started != 1 {
			t.Errorf("stats %+v", stats)
		}
	})
}

func TestAwait_ReportsFailedStart(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setFailing(true)
		advance(startTime / 2)
		got := await(t.Context(), p)
		advance(startTime / 2)
		if result := <-got; result.ok {
			t.Errorf("got %+v", result)
		}
	})
}

func TestAwait_BrowserRemainsWhenLaunchIsCanceled(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		advance(startTime / 2)
		got := await(ctx, p)
		cancel()
		if result := <-got; result.ok {
			t.Errorf("got %+v", result)
		}
		advance(startTime)
		claim(t, p)
	})
}

func TestAwait_DrainEndsWait(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(startTime / 2)
		got := await(t.Context(), p)
		p.Drain()
		if result := <-got; result.ok {
			t.Errorf("got %+v", result)
		}
		advance(time.Second)
		if m.alive() != 0 {
			t.Errorf("%d browsers are left", m.alive())
		}
	})
}
