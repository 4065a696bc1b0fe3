package report

import (
	"sync"

	"github.com/google/uuid"
)

// recentStarts holds the sessions whose start was accepted since the last
// heartbeat.
type recentStarts struct {
	wake chan struct{} // signals that a session was added

	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

func newRecentStarts() *recentStarts {
	return &recentStarts{wake: make(chan struct{}, 1), ids: map[uuid.UUID]bool{}}
}

func (u *recentStarts) add(id uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ids[id] = true
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// take returns and clears the sessions.
func (u *recentStarts) take() map[uuid.UUID]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := u.ids
	u.ids = map[uuid.UUID]bool{}
	return ids
}
