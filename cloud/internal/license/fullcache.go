package license

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	// fullCacheTTL is how long an organization that was seen full is looked at, before
	// a slot is asked for.
	fullCacheTTL = time.Second
	// maxFullCache bounds the organizations that are remembered as full.
	maxFullCache = 10_000
)

// fullCache remembers which organizations were full lately. It is a hint: it
// decides whether to look or to ask first, never the answer.
type fullCache struct {
	clock clock.Clock
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func newFullCache(clock clock.Clock) *fullCache {
	return &fullCache{clock: clock, until: map[uuid.UUID]time.Time{}}
}

func (f *fullCache) recentlyFull(orgID uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.until[orgID]
	if ok && !f.clock.Now().Before(until) {
		delete(f.until, orgID)
		return false
	}
	return ok
}

// set takes down whether the organization was full just now.
func (f *fullCache) set(orgID uuid.UUID, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !full {
		delete(f.until, orgID)
		return
	}
	if len(f.until) >= maxFullCache {
		clear(f.until)
	}
	f.until[orgID] = f.clock.Now().Add(fullCacheTTL)
}

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
