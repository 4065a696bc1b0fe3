package license

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	// fullCacheTTL is how long an organization counts as recently full. Meanwhile a
	// launch looks for a free slot before it tries to take one.
	fullCacheTTL = time.Second
	// maxFullCache bounds the organizations in the cache.
	maxFullCache = 10_000
)

// fullCache remembers which organizations were recently full. It is only a hint: it
// decides whether a launch looks first, never its result.
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

// set records whether the organization is full.
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

// allow reports whether the interval since the organization's last allowed call has
// passed.
func (t *throttle) allow(orgID uuid.UUID) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) > time.Minute { // remove idle organizations
		t.swept = now
		for id, last := range t.last {
			if now.Sub(last) >= t.interval {
				delete(t.last, id)
			}
		}
	}
	if last, ok := t.last[orgID]; ok && now.Sub(last) < t.interval {
		return false
	}
	t.last[orgID] = now
	return true
}
