package warm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/warm"
)

// ask claims, and takes what it gets.
func ask(p *pool, kind string) {
	if s, miss := p.Claim(kind); miss == "" {
		s.die()
	}
}

func TestTheSharesFollowWhatIsAskedFor(t *testing.T) {
	inPool(t, func(o *options) { o.Size = 4 }, func(t *testing.T, p *pool, m *maker) {
		for range 30 { // three of a for one of b
			for _, kind := range []string{"a", "a", "b", "a"} {
				ask(p, kind)
				pass(5 * time.Second)
			}
		}
		pass(10 * time.Second)
		if diff := cmp.Diff(map[string]int{"a": 3, "b": 1}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
		for range 60 { // the fashion changes
			ask(p, "c")
			pass(30 * time.Second)
		}
		pass(10 * time.Second)
		if got := ready(p)["c"]; got < 3 {
			t.Errorf("%v are ready after half an hour of c", ready(p))
		}
	})
}

func TestKindsAskedForInTurnDoNotDriveEachOtherOut(t *testing.T) {
	inPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *maker) {
		for range 50 {
			ask(p, "a")
			pass(5 * time.Second)
			misses(t, p, "b", warm.Empty)
			pass(5 * time.Second)
		}
		if n := m.starts(); n > 60 {
			t.Errorf("%d starts for 50 claims", n)
		}
	})
}

func TestWhatIsAskedForTakesThePlaceOfWhatIsNot(t *testing.T) {
	inPool(t, func(o *options) { o.Size = 1 }, func(t *testing.T, p *pool, m *maker) {
		pass(5 * time.Second)
		misses(t, p, "other", warm.Empty)
		pass(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"other": 1}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
	})
}

func TestAnIdleHourEmptiesThePoolAndTheNextClaimFillsIt(t *testing.T) {
	inPool(t, nil, func(t *testing.T, p *pool, m *maker) {
		ask(p, "a")
		pass(59 * time.Minute)
		if m.alive() == 0 && m.starts() > 10 {
			t.Error("it is empty before the hour is over")
		}
		pass(2 * time.Minute)
		starts := m.starts()
		pass(time.Hour)
		if m.alive() != 0 || m.starts() != starts {
			t.Errorf("%d spares after an idle hour, %d starts since", m.alive(), m.starts()-starts)
		}
		misses(t, p, "a", warm.Empty)
		pass(5 * time.Second)
		if diff := cmp.Diff(map[string]int{"a": 2}, ready(p)); diff != "" {
			t.Errorf("ready (-want +got):\n%s", diff)
		}
	})
}

func TestAnUnusedPoolEmptiesItselfToo(t *testing.T) {
	inPool(t, nil, func(t *testing.T, p *pool, m *maker) {
		pass(55 * time.Minute)
		if m.alive() != 2 {
			t.Errorf("%d spares, want 2", m.alive())
		}
		pass(10 * time.Minute)
		if m.alive() != 0 {
			t.Errorf("%d spares after an idle hour", m.alive())
		}
	})
}

func TestNothingStartsBesideALaunch(t *testing.T) {
	held(t, func(l *warm.Load) { l.Launching = 1 }, func(l *warm.Load) { l.Launching = 0 })
}

func TestABusyMachineIsLeftAloneBetweenStarts(t *testing.T) {
	inPool(t, func(o *options) { o.Size = 20 }, func(t *testing.T, p *pool, m *maker) {
		m.set(func(l *warm.Load) { l.CPUPercent = 95 })
		pass(time.Minute)
		if n := m.starts(); n < 5 || n > 7 {
			t.Errorf("%d starts in a minute, want 5 to 7", n)
		}
		m.set(func(l *warm.Load) { l.CPUPercent = 20 })
		pass(20 * time.Second)
		if m.alive() != 20 {
			t.Errorf("%d spares, want 20", m.alive())
		}
	})
}

func TestNothingStartsWithoutTheMemoryForIt(t *testing.T) {
	held(t, func(l *warm.Load) { l.MemoryUsed = 6400 << 20 }, func(l *warm.Load) { l.MemoryUsed = 2 << 30 })
}

func TestNothingStartsThatNobodyMayLaunch(t *testing.T) {
	held(t, func(l *warm.Load) { l.Room = 0 }, func(l *warm.Load) { l.Room = 2 })
}

// held checks that nothing is made while the machine is as before says, and
// that the pool is filled as soon as it is otherwise.
func held(t *testing.T, before, after func(*warm.Load)) {
	t.Helper()
	inPool(t, nil, func(t *testing.T, p *pool, m *maker) {
		m.set(before)
		p.Drain() // of what may have begun
		p.Resume()
		pass(time.Second)
		starts := m.starts()
		pass(time.Minute)
		if m.starts() != starts || m.alive() != 0 {
			t.Errorf("%d starts, %d spares", m.starts()-starts, m.alive())
		}
		m.set(after)
		pass(5 * time.Second)
		if m.alive() != 2 {
			t.Errorf("%d spares, want 2", m.alive())
		}
	})
}

func TestSparesMakeRoomForBrowsers(t *testing.T) {
	inPool(t, func(o *options) { o.Size = 4 }, func(t *testing.T, p *pool, m *maker) {
		pass(10 * time.Second)
		if m.alive() != 4 {
			t.Fatalf("%d spares, want 4", m.alive())
		}
		m.set(func(l *warm.Load) { l.MemoryUsed = 6400 << 20 }) // 800 MiB more are 90 %
		pass(5 * time.Second)
		if used := 100 * m.now().MemoryUsed / m.now().MemoryLimit; used > 85 || m.alive() == 0 {
			t.Errorf("%d spares, %d %% of the memory in use", m.alive(), used)
		}
		m.set(func(l *warm.Load) { l.Room = 1 })
		pass(5 * time.Second)
		if m.alive() != 1 {
			t.Errorf("%d spares, but only one launch is taken", m.alive())
		}
	})
}

func TestTheMemoryBudgetHolds(t *testing.T) {
	inPool(t, func(o *options) { o.Size, o.Memory = 10, 700<<20 }, func(t *testing.T, p *pool, m *maker) {
		for range 120 {
			pass(time.Second)
			if m.alive() > 3 {
				t.Fatalf("%d spares of 200 MiB in 700", m.alive())
			}
		}
		if m.alive() != 3 {
			t.Errorf("%d spares, want 3", m.alive())
		}
		if memory := p.Stats().Memory; memory != 3*weight {
			t.Errorf("they are said to take %d bytes, want %d", memory, 3*weight)
		}
	})
}
