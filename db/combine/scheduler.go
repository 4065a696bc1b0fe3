package combine

import (
	"runtime"
	"sync"
)

// Scheduler serializes the batches of each key, first come, first served, across all
// Combiners that share it. Batches that would wait for the same lock in the database
// wait here instead, and can still accept more calls.
type Scheduler[K comparable] struct {
	mu    sync.Mutex
	turns map[K]*turn // keys with a call in progress
}

// turn serializes the batches of one key.
type turn struct {
	users   int           // calls and queues that use it; guarded by Scheduler.mu
	running chan struct{} // full while a batch runs

	mu         sync.Mutex
	resuming   int           // callers that have an answer but have not resumed yet
	allResumed chan struct{} // closed when resuming is 0; nil if no goroutine waits for that
}

func newTurn() *turn { return &turn{users: 1, running: make(chan struct{}, 1)} }

// NewScheduler returns a Scheduler.
func NewScheduler[K comparable]() *Scheduler[K] { return &Scheduler[K]{turns: map[K]*turn{}} }

func (r *Scheduler[K]) join(key K) *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.turns[key]; own != nil {
		own.users++
		return own
	}
	own := newTurn()
	r.turns[key] = own
	return own
}

func (r *Scheduler[K]) leave(key K, own *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(r.turns, key)
	}
}

// tryAcquire starts a batch unless one is running. It reports whether it did.
func (r *turn) tryAcquire() bool {
	select {
	case r.running <- struct{}{}:
		return true
	default:
		return false
	}
}

// acquire waits until no other batch of the key runs.
func (r *turn) acquire() { r.running <- struct{}{} }

func (r *turn) release() { <-r.running }

// callerAnswered records that a caller has its answer; callerResumed records that its
// goroutine has resumed.
func (r *turn) callerAnswered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resuming++
}

func (r *turn) callerResumed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resuming--; r.resuming == 0 && r.allResumed != nil {
		close(r.allResumed)
		r.allResumed = nil
	}
}

// waitForCallers waits until the callers of the previous batch have resumed, since
// most of them call again at once and can join this batch.
func (r *turn) waitForCallers() {
	if none := r.pendingCallers(); none != nil {
		<-none
	}
	runtime.Gosched()
}

// pendingCallers returns a channel that is closed when all answered callers have
// resumed, or nil if they have.
func (r *turn) pendingCallers() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resuming == 0 {
		return nil
	}
	r.allResumed = make(chan struct{})
	return r.allResumed
}
