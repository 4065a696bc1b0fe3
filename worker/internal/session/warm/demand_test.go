package warm_test

import (
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// claimRegularly claims browsers of a kind at regular times and returns how many were ready.
func claimRegularly(p *pool, kind string, between, duration time.Duration) (found, all int) {
	for end := time.Now().Add(duration); time.Now().Before(end); all++ {
		if s, miss := p.Claim(kind); miss == "" {
			s.die()
			found++
		}
		advance(between)
	}
	return found, all
}

// TestPool_HoldsUnderSteadyLaunches lets launches arrive faster than one start at a time
// allows, while others are in progress and the processors are busy.
func TestPool_HoldsUnderSteadyLaunches(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		m.setLoad(func(l *warm.Load) { l.CPUs, l.Launching, l.CPUPercent = 2, 1, 95 })
		if found, all := claimRegularly(p, "first", 150*time.Millisecond, 3*time.Minute); float64(found) < 0.98*float64(all) {
			t.Errorf("%d of %d launches found a browser: %+v", found, all, p.Stats())
		}
		if m.maxConcurrent() > 2 {
			t.Errorf("%d starts at once on 2 processors", m.maxConcurrent())
		}
		stats := p.Stats()
		const wait = 30 * time.Millisecond // for the launch in progress
		want := warm.KindDemand[string]{Kind: "first", PerMinute: 400, StartTime: wait + startTime, Stock: 6}
		got := stats.Demand[0]
		if got.PerMinute, got.StartTime = float64(int(got.PerMinute/10+0.5)*10), got.StartTime.Round(time.Millisecond); len(stats.Demand) != 1 || got != want {
			t.Errorf("demand %+v, want %+v", stats.Demand, want)
		}
		if stats.Target != 6 || stats.Reason != warm.Demand {
			t.Errorf("target %d because of %s", stats.Target, stats.Reason)
		}
	})
}

func TestPool_ShrinksToMinimumAfterDemand(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUs = 2 })
		claimRegularly(p, "first", 150*time.Millisecond, time.Minute)
		advance(time.Minute)
		if got := ready(p)["first"]; got != 5 {
			t.Errorf("got %d ready a minute after the last launch, want 5", got)
		}
		starts := m.starts()
		advance(5 * time.Minute)
		if got := ready(p)["first"]; got != 2 || m.starts() != starts {
			t.Errorf("got %d ready and %d starts later, want 2 and none", got, m.starts()-starts)
		}
		if stats := p.Stats(); stats.Target != 2 || stats.Reason != warm.Minimum {
			t.Errorf("target %d because of %s", stats.Target, stats.Reason)
		}
	})
}

func TestPool_BurstDoesNotExceedMaximum(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 3 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUs = 4 })
		advance(5 * time.Second)
		for range 200 {
			ask(p, "first")
		}
		for range 100 {
			advance(100 * time.Millisecond)
			if m.alive() > 3 {
				t.Fatalf("got %d browsers, want at most 3", m.alive())
			}
		}
		if stats := p.Stats(); stats.Target != 3 || stats.Reason != warm.Maximum {
			t.Errorf("target %d because of %s", stats.Target, stats.Reason)
		}
	})
}

// TestPool_EachRegularKindHasItsStock mixes a frequent and a rarer kind, and a kind that
// is requested once.
func TestPool_EachRegularKindHasItsStock(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUs = 2 })
		ask(p, "once")
		found, all := 0, 0
		for range 20 {
			ask(p, "shell")
			claimRegularly(p, "full", 500*time.Millisecond, 2500*time.Millisecond)
			if s, miss := p.Claim("shell"); miss == "" {
				s.die()
				found++
			}
			all++
			claimRegularly(p, "full", 500*time.Millisecond, 2500*time.Millisecond)
		}
		advance(time.Second)
		if found < all-1 {
			t.Errorf("%d of %d launches of the rarer kind found a browser", found, all)
		}
		got := ready(p)
		if got["full"] < 2 || got["shell"] < 1 || got["once"] != 0 {
			t.Errorf("ready: %v, %+v", got, p.Stats())
		}
	})
}

func TestPool_DemandIsBoundedByMemory(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUs, l.MemoryUsed = 2, 5800<<20 }) // 80 % with 3 browsers
		for range 400 {
			ask(p, "first")
			advance(150 * time.Millisecond)
			if used := 100 * m.currentLoad().MemoryUsed / m.currentLoad().MemoryLimit; used > 80 {
				t.Fatalf("%d %% of the memory in use with %d browsers", used, m.alive())
			}
		}
		advance(5 * time.Second)
		if stats := p.Stats(); m.alive() == 0 || stats.Reason != warm.Memory {
			t.Errorf("got %d browsers, target %d because of %s", m.alive(), stats.Target, stats.Reason)
		}
	})
}

// TestPool_LaunchInProgressGoesFirst checks that the replacement of a claimed browser waits
// for its launch, but not long.
func TestPool_LaunchInProgressGoesFirst(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		claimRegularly(p, "first", time.Second, 10*time.Second)
		m.setLoad(func(l *warm.Load) { l.Launching = 1 })
		starts := m.starts()
		claim(t, p)
		advance(20 * time.Millisecond)
		if n := m.starts() - starts; n != 0 {
			t.Errorf("%d starts 20 ms after the claim", n)
		}
		advance(20 * time.Millisecond)
		if n := m.starts() - starts; n != 1 {
			t.Errorf("%d starts 40 ms after the claim, want 1", n)
		}
	})
}

// TestPool_BurstGoesFirst checks that browsers claimed in a burst are replaced only when
// most of its launches have ended.
func TestPool_BurstGoesFirst(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUs = 2 })
		advance(5 * time.Second)
		m.setLoad(func(l *warm.Load) { l.Launching = 20 })
		starts := m.starts()
		for range 20 {
			ask(p, "first")
		}
		advance(5 * time.Second)
		if n := m.starts() - starts; n != 0 {
			t.Errorf("%d starts during the burst", n)
		}
		m.setLoad(func(l *warm.Load) { l.Launching = 4 })
		advance(2 * time.Second)
		if n := m.starts() - starts; n != 0 {
			t.Errorf("%d starts while the browsers of the burst load their pages", n)
		}
		advance(2 * time.Second)
		if m.starts() == starts {
			t.Error("no start after the burst")
		}
		if got := p.Stats().Demand[0].StartTime; got > 2*startTime {
			t.Errorf("the burst counts as a wait: %v", got)
		}
	})
}

// TestPool_KeepsMoreKindsThanMinimum mixes three kinds that each are requested once a minute,
// as launches with different time zones are.
func TestPool_KeepsMoreKindsThanMinimum(t *testing.T) {
	withPool(t, func(o *options) { o.Max = 8 }, func(t *testing.T, p *pool, m *fakeStarter) {
		found, all := 0, 0
		for round := range 33 {
			for _, kind := range []string{"Berlin", "Tokyo", "Phoenix"} {
				s, miss := p.Claim(kind)
				if miss == "" {
					s.die()
				}
				if advance(20 * time.Second); round < 3 {
					continue // the pool learns the demand
				}
				if all++; miss == "" {
					found++
				}
			}
		}
		if 100*found < 95*all {
			t.Errorf("%d of %d launches found a browser: %+v", found, all, p.Stats())
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
