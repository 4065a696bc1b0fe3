package warm_test

import (
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// settleTime is the time after which browsers settle that settle late.
const settleTime = 2 * time.Second

func claimed(t *testing.T, p *pool, settled bool) *fakeBrowser {
	t.Helper()
	s, miss := p.Claim("first", settled)
	if miss != "" {
		t.Fatalf("no browser was ready: %s; %+v", miss, p.Stats())
	}
	s.die()
	return s
}

func TestClaim_SettledBrowser(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.settleLate()
		p.Drain() // a start may be in progress
		p.Resume()
		advance(time.Second)
		if s, miss := p.Claim("first", true); miss != warm.Unsettled {
			t.Fatalf("a claim of a settled browser before it has settled: %v, %q", s, miss)
		}
		advance(settleTime)
		if got := p.Stats().Ready[0]; got.Count != 1 || got.Settled != 1 {
			t.Errorf("ready: %+v", got)
		}
		if s := claimed(t, p, true); !s.Settled() {
			t.Errorf("got browser %d, which has not settled", s.n)
		}
	})
}

// TestClaim_LeavesSettledBrowsers checks that a claim that needs no settled browser takes
// another one.
func TestClaim_LeavesSettledBrowsers(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		m.settleLate()
		advance(10 * time.Second)
		claimed(t, p, true)
		advance(time.Second) // one is settled, its replacement is not
		if s := claimed(t, p, false); s.Settled() {
			t.Errorf("got browser %d, which has settled", s.n)
		}
		claimed(t, p, true)
	})
}

func TestAwait_BrowserThatSettlesLate(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.settleLate()
		advance(10 * time.Second)
		claimed(t, p, false)
		advance(startTime / 2)
		if s, miss := p.Claim("first", true); miss != warm.Empty {
			t.Errorf("a claim of a settled browser during a start: %v, %q; a cold start is faster", s, miss)
		}
		assertMiss(t, p, "first", warm.Starting)
	})
}

// TestPool_SettlingDelaysNoStart lets launches that need settled browsers arrive more often
// than one browser after another could settle.
func TestPool_SettlingDelaysNoStart(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 16 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.settleLate()
		advance(10 * time.Second)
		arriveNeeding(p, "first", true, 300*time.Millisecond, 10*time.Second) // the pool learns the demand
		if found, all := arriveNeeding(p, "first", true, 300*time.Millisecond, time.Minute); float64(found) < 0.98*float64(all) {
			t.Errorf("%d of %d launches found a settled browser: %+v", found, all, p.Stats())
		}
		if m.maxConcurrent() != 1 {
			t.Errorf("%d starts at once on one processor", m.maxConcurrent())
		}
		got := p.Stats().Demand[0]
		if got.SettledPerMinute < 170 || *got.SettleTime < settleTime || *got.SettleTime > settleTime+300*time.Millisecond || got.Stock < 12 || got.Stock > 14 {
			t.Errorf("demand %+v", got) // 7 launches arrive in 2.2 seconds
		}
	})
}

// TestPool_StockIncludesTheWaitForAProcessor lets launches arrive in pairs, so that each
// second one waits for the start of the first.
func TestPool_StockIncludesTheWaitForAProcessor(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		for range 120 {
			ask(p, "first")
			ask(p, "first")
			advance(500 * time.Millisecond)
		}
		if got := p.Stats().Demand[0].StartTime; got < startTime+startTime/3 || got > 2*startTime {
			t.Errorf("a browser is replaced in %v, want the start and about half of another", got)
		}
	})
}
