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
