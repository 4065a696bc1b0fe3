package warm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// ask claims a browser of a kind and kills it.
func ask(p *pool, kind string) {
	if s, miss := p.Claim(kind); miss == "" {
		s.die()
	}
}

func TestPool_SharesFollowDemand(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 4 }, func(t *testing.T, p *pool, m *fakeStarter) {
		for range 30 { // three claims of a for each claim of b
			for _, kind := range []string{"a", "a", "b", "a"} {
				ask(p, kind)
				advance(5 * time.Second)
			}
		}
		advance(10 * time.Second)
		if diff := cmp.Diff(map[string]int{"a": 3, "b": 1}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
		for range 60 { // the demand changes
			ask(p, "c")
			advance(30 * time.Second)
		}
		advance(10 * time.Second)
		if got := ready(p)["c"]; got < 3 {
			t.Errorf("got %v ready after half an hour of claims of c", ready(p))
		}
	})
}

func TestPool_AlternatingKindsDoNotEvictEachOther(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *fakeStarter) {
		for range 50 {
			ask(p, "a")
			advance(5 * time.Second)
			assertMiss(t, p, "b", warm.Empty)
			advance(5 * time.Second)
		}
		if n := m.starts(); n > 60 {
			t.Errorf("%d starts for 50 claims", n)
		}
	})
}

func TestPool_DemandedKindReplacesUnusedKind(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(5 * time.Second)
		assertMiss(t, p, "other", warm.Empty)
		advance(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"other": 1}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
	})
}

func TestPool_IdleHourEmptiesPool(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		ask(p, "a")
		advance(59 * time.Minute)
		if m.alive() == 0 && m.starts() > 10 {
			t.Error("the pool was emptied before the hour was over")
		}
		advance(2 * time.Minute)
		starts := m.starts()
		advance(time.Hour)
		if m.alive() != 0 || m.starts() != starts {
			t.Errorf("got %d browsers after an idle hour, %d starts since", m.alive(), m.starts()-starts)
		}
		assertMiss(t, p, "a", warm.Empty)
		advance(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"a": 2}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
	})
}

func TestPool_UnusedPoolBecomesEmpty(t *testing.T) {
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(55 * time.Minute)
		if m.alive() != 2 {
			t.Errorf("got %d browsers, want 2", m.alive())
		}
		advance(10 * time.Minute)
		if m.alive() != 0 {
			t.Errorf("got %d browsers after an idle hour", m.alive())
		}
	})
}

func TestPool_StartsNothingDuringLaunch(t *testing.T) {
	assertStartsOnlyAfter(t, func(l *warm.Load) { l.Launching = 1 }, func(l *warm.Load) { l.Launching = 0 })
}

func TestPool_PausesLongerOnBusyMachine(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 20 }, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(func(l *warm.Load) { l.CPUPercent = 95 })
		advance(time.Minute)
		if n := m.starts(); n < 5 || n > 7 {
			t.Errorf("%d starts in a minute, want 5 to 7", n)
		}
		m.setLoad(func(l *warm.Load) { l.CPUPercent = 20 })
		advance(20 * time.Second)
		if m.alive() != 20 {
			t.Errorf("got %d browsers, want 20", m.alive())
		}
	})
}

func TestPool_StartsNothingWithoutMemory(t *testing.T) {
	assertStartsOnlyAfter(t, func(l *warm.Load) { l.MemoryUsed = 6400 << 20 }, func(l *warm.Load) { l.MemoryUsed = 2 << 30 })
}

func TestPool_SizeIsBoundedByCapacity(t *testing.T) {
	assertStartsOnlyAfter(t, func(l *warm.Load) { l.Capacity = 0 }, func(l *warm.Load) { l.Capacity = 2 })
}

// assertStartsOnlyAfter checks that no browser is started under the load before, and
// that the pool is filled under the load after.
func assertStartsOnlyAfter(t *testing.T, before, after func(*warm.Load)) {
	t.Helper()
	withPool(t, nil, func(t *testing.T, p *pool, m *fakeStarter) {
		m.setLoad(before)
		p.Drain() // a start may be in progress
		p.Resume()
		advance(time.Second)
		starts := m.starts()
		advance(time.Minute)
		if m.starts() != starts || m.alive() != 0 {
			t.Errorf("got %d starts, %d browsers", m.starts()-starts, m.alive())
		}
		m.setLoad(after)
		advance(5 * time.Second)
		if m.alive() != 2 {
			t.Errorf("got %d browsers, want 2", m.alive())
		}
	})
}

func TestPool_StopsBrowsersWhenMemoryIsNeeded(t *testing.T) {
	withPool(t, func(o *options) { o.Size = 4 }, func(t *testing.T, p *pool, m *fakeStarter) {
		advance(10 * time.Second)
		if m.alive() != 4 {
			t.Fatalf("got %d browsers, want 4", m.alive())
		}
		m.setLoad(func(l *warm.Load) { l.MemoryUsed = 6400 << 20 }) // 800 MiB more would be 90 %
		advance(5 * time.Second)
		if used := 100 * m.currentLoad().MemoryUsed / m.currentLoad().MemoryLimit; used > 85 || m.alive() == 0 {
			t.Errorf("got %d browsers, %d %% of the memory in use", m.alive(), used)
		}
		m.setLoad(func(l *warm.Load) { l.Capacity = 1 })
		advance(5 * time.Second)
		if m.alive() != 1 {
			t.Errorf("got %d browsers, want one, the capacity", m.alive())
		}
	})
}
