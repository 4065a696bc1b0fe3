package license

import (
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

// The pauses between heartbeats: about HeartbeatInterval, but up to longestPause when
// many machines return at once. Even then a session keeps its slot when two heartbeats
// are lost.
const (
	shortestPause = HeartbeatInterval / 2
	longestPause  = 4 * HeartbeatInterval
)

// OfflineAfter is how long a machine must be silent to be offline.
const OfflineAfter = longestPause

// maxReturning is how many machines may return to one replica within a
// HeartbeatInterval before their heartbeats are spread over a longer window.
const maxReturning = 5000

// heartbeatPacer decides when machines send their next heartbeat. Each machine has a
// fixed phase within the interval, so that a fleet that returned at once is spread
// after one heartbeat.
type heartbeatPacer struct {
	clock clock.Clock

	mu          sync.Mutex
	windowStart time.Time
	returned    int // machines that returned since then
}

// nextPause returns the time until the machine's next heartbeat, in whole seconds.
// silence is the time since its last one.
func (p *heartbeatPacer) nextPause(orgID uuid.UUID, machineID string, silence time.Duration) time.Duration {
	now := p.clock.Now()
	window := HeartbeatInterval
	if silence >= 2*HeartbeatInterval {
		window = p.spreadWindow(now)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(orgID[:])
	_, _ = sum.Write([]byte(machineID))
	phase := time.Duration(sum.Sum64() % uint64(window))
	wait := (phase - time.Duration(now.UnixNano()%int64(window)) + window) % window
	if wait < shortestPause {
		wait += window
	}
	return min(wait.Round(time.Second), longestPause)
}

// spreadWindow counts a returning machine and returns the window over which heartbeats
// are spread.
func (p *heartbeatPacer) spreadWindow(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := now.Sub(p.windowStart); age < 0 || age >= HeartbeatInterval {
		p.windowStart, p.returned = now, 0
	}
	p.returned++
	return HeartbeatInterval * time.Duration(min(1+p.returned/maxReturning, 3))
}
