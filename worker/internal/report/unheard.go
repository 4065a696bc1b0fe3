package report

import (
	"sync"

	"github.com/google/uuid"
)

// unheard are the sessions whose start the cloud took since the last heartbeat.
type unheard struct {
	wake chan struct{} // one was added

	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

func newUnheard() *unheard {
	return &unheard{wake: make(chan struct{}, 1), ids: map[uuid.UUID]bool{}}
}

func (u *unheard) add(id uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ids[id] = true
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// take returns them and forgets them.
func (u *unheard) take() map[uuid.UUID]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.ids
	u.ids = map[uuid.UUID]bool{}
	return taken
}
