package license

import (
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

// The pauses between heartbeats: about HeartbeatInterval, but up to longestPause
// when many machines come back at once. Two heartbeats that are lost then still
// leave a session its slot.
const (
	shortestPause = HeartbeatInterval / 2
	longestPause  = 4 * HeartbeatInterval
)

// maxReturning is how many machines may come back to one replica within a
// HeartbeatInterval before they are spread over more than one.
const maxReturning = 5000

// pacer tells machines when to report again. Each has a moment of its own within
// the interval, so that a fleet that came back all at once is spread after one
// answer.
type heartbeatPacer struct {
	clock clock.Clock

	mu          sync.Mutex
	windowStart time.Time
	returned    int // machines that came back since then
}

// nextPause is after how long the machine shall report again, in whole seconds.
// silence is how long it had not been heard of.
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

// spreadWindow counts a machine that comes back, and is the time that they are spread
// over.
func (p *heartbeatPacer) spreadWindow(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := now.Sub(p.windowStart); age < 0 || age >= HeartbeatInterval {
		p.windowStart, p.returned = now, 0
	}
	p.returned++
	return HeartbeatInterval * time.Duration(min(1+p.returned/maxReturning, 3))
}
