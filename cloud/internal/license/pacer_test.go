package license

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

// countPauses returns how many of n machines that report at once are asked to report
// again after how many seconds.
func countPauses(p *heartbeatPacer, n int, silence time.Duration) map[int]int {
	org, seconds := uuid.New(), map[int]int{}
	for i := range n {
		seconds[int(p.nextPause(org, fmt.Sprint("worker-", i), silence)/time.Second)]++
	}
	return seconds
}

func TestHeartbeatPacer_SpreadsMachinesOverInterval(t *testing.T) {
	p := &heartbeatPacer{clock: clock.NewFake(time.Now())}
	got := countPauses(p, 3000, HeartbeatInterval)
	for second, n := range got {
		if second < 15 || second > 45 || n > 200 {
			t.Errorf("%d machines after %d s", n, second)
		}
	}
	if len(got) < 30 {
		t.Errorf("machines report in %d different seconds", len(got))
	}
}

func TestHeartbeatPacer_SpreadsReturningFleetOverLongerWindow(t *testing.T) {
	p := &heartbeatPacer{clock: clock.NewFake(time.Now())}
	got := countPauses(p, 4*maxReturning, time.Hour)
	longest, most := 0, 0
	for second, n := range got {
		longest, most = max(longest, second), max(most, n)
	}
	if longest < 90 || longest > 120 || most > 4*maxReturning/25 {
		t.Errorf("up to %d s, up to %d in one second", longest, most)
	}
	if got := countPauses(p, 100, HeartbeatInterval); len(got) > 32 {
		t.Errorf("continuously reporting machines are spread over %d s", len(got))
	}
}

func TestHeartbeatPacer_KeepsPhasePerMachine(t *testing.T) {
	fake := clock.NewFake(time.Now())
	p := &heartbeatPacer{clock: fake}
	org := uuid.New()
	fake.Advance(p.nextPause(org, "worker-1", HeartbeatInterval))
	for range 20 {
		next := p.nextPause(org, "worker-1", HeartbeatInterval)
		if (next - HeartbeatInterval).Abs() > time.Second {
			t.Errorf("after %s", next)
		}
		fake.Advance(next)
	}
	fake.Advance(7 * time.Second) // late
	if next := p.nextPause(org, "worker-1", HeartbeatInterval+7*time.Second); (next - 23*time.Second).Abs() > time.Second {
		t.Errorf("7 s late, then after %s", next)
	}
}

func TestHeartbeatPacer_ResetsCountEachInterval(t *testing.T) {
	fake := clock.NewFake(time.Now())
	p := &heartbeatPacer{clock: fake}
	countPauses(p, 3*maxReturning, time.Hour)
	fake.Advance(HeartbeatInterval)
	for second := range countPauses(p, 100, time.Hour) {
		if second > 45 {
			t.Errorf("a machine that returns later reports after %d s", second)
		}
	}
}
