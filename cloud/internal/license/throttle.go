package license

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

// throttle lets one call per organization through in each interval.
type throttle struct {
	interval time.Duration
	clock    clock.Clock

	mu    sync.Mutex
	last  map[uuid.UUID]time.Time
	swept time.Time
}

func newThrottle(every time.Duration, clock clock.Clock) *throttle {
	return &throttle{interval: every, clock: clock, last: map[uuid.UUID]time.Time{}}
}

// allow reports whether the interval since the organization's last allowed call
// is over.
func (t *throttle) allow(orgID uuid.UUID) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) > time.Minute { // undoReservation the organizations that went quiet
		t.swept = now
		for id, at := range t.last {
			if now.Sub(at) >= t.interval {
				delete(t.last, id)
			}
		}
	}
	if at, ok := t.last[orgID]; ok && now.Sub(at) < t.interval {
		return false
	}
	t.last[orgID] = now
	return true
}
