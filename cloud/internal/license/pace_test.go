package license

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

// spread is how many of n machines that report at once are asked to report
// again after how many seconds.
func spread(p *pace, n int, silence time.Duration) map[int]int {
	org, seconds := uuid.New(), map[int]int{}
	for i := range n {
		seconds[int(p.next(org, fmt.Sprint("worker-", i), silence)/time.Second)]++
	}
	return seconds
}

func TestMachinesThatReportAtOnceAreSpreadOverTheInterval(t *testing.T) {
	p := &pace{clock: clock.NewFake(time.Now())}
	got := spread(p, 3000, HeartbeatInterval)
	for second, n := range got {
		if second < 15 || second > 45 || n > 200 {
			t.Errorf("%d machines after %d s", n, second)
		}
	}
	if len(got) < 30 {
		t.Errorf("they report in %d different seconds", len(got))
	}
}

func TestAFleetThatComesBackIsSpreadOverLonger(t *testing.T) {
	p := &pace{clock: clock.NewFake(time.Now())}
	got := spread(p, 4*returning, time.Hour)
	longest, most := 0, 0
	for second, n := range got {
		longest, most = max(longest, second), max(most, n)
	}
	if longest < 90 || longest > 120 || most > 4*returning/25 {
		t.Errorf("up to %d s, up to %d in one second", longest, most)
	}
	if got := spread(p, 100, HeartbeatInterval); len(got) > 32 {
		t.Errorf("those that were there meanwhile are spread over %d s", len(got))
	}
}

func TestAMachineKeepsItsMoment(t *testing.T) {
	fake := clock.NewFake(time.Now())
	p := &pace{clock: fake}
	org := uuid.New()
	fake.Advance(p.next(org, "worker-1", HeartbeatInterval))
	for range 20 {
		next := p.next(org, "worker-1", HeartbeatInterval)
		if (next - HeartbeatInterval).Abs() > time.Second {
			t.Errorf("after %s", next)
		}
		fake.Advance(next)
	}
	fake.Advance(7 * time.Second) // late
	if next := p.next(org, "worker-1", HeartbeatInterval+7*time.Second); (next - 23*time.Second).Abs() > time.Second {
		t.Errorf("7 s late, then after %s", next)
	}
}

func TestTheFleetIsCountedForOneIntervalAtATime(t *testing.T) {
	fake := clock.NewFake(time.Now())
	p := &pace{clock: fake}
	spread(p, 3*returning, time.Hour)
	fake.Advance(HeartbeatInterval)
	for second := range spread(p, 100, time.Hour) {
		if second > 45 {
			t.Errorf("a machine that comes back later reports after %d s", second)
		}
	}
}
