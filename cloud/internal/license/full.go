package license

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	// fullFor is how long an organization that was seen full is looked at, before
	// a slot is asked for.
	fullFor = time.Second
	// fullMost bounds the organizations that are remembered as full.
	fullMost = 10_000
)

// fullness remembers which organizations were full lately. It is a hint: it
// decides whether to look or to ask first, never the answer.
type fullness struct {
	clock clock.Clock
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func newFullness(clock clock.Clock) *fullness {
	return &fullness{clock: clock, until: map[uuid.UUID]time.Time{}}
}

func (f *fullness) lately(orgID uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.until[orgID]
	if ok && !f.clock.Now().Before(until) {
		delete(f.until, orgID)
		return false
	}
	return ok
}

// is takes down whether the organization was full just now.
func (f *fullness) is(orgID uuid.UUID, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !full {
		delete(f.until, orgID)
		return
	}
	if len(f.until) >= fullMost {
		clear(f.until)
	}
	f.until[orgID] = f.clock.Now().Add(fullFor)
}
