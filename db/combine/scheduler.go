package combine

import (
	"runtime"
	"sync"
)

// Scheduler has the batches of each key run one at a time, in all Combiners that
// share it, first come first served. Batches that would wait for one another in
// the database wait here instead, where they still take in who comes.
type Scheduler[K comparable] struct {
	mu    sync.Mutex
	turns map[K]*turn // of the keys with a call under way
}

// turn is whose turn it is with a key.
type turn struct {
	users   int           // the calls and lines in it; guarded by Scheduler.mu
	running chan struct{} // full while a batch runs

	mu         sync.Mutex
	resuming   int           // callers that were answered and have not gone on yet
	allResumed chan struct{} // closed when there are none; nil when nobody waits for that
}

func newTurn() *turn { return &turn{users: 1, running: make(chan struct{}, 1)} }

// NewScheduler makes Scheduler.
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

// runSafely begins a batch if none runs.
func (r *turn) tryAcquire() bool {
	select {
	case r.running <- struct{}{}:
		return true
	default:
		return false
	}
}

// acquire waits for the turn.
func (r *turn) acquire() { r.running <- struct{}{} }

func (r *turn) release() { <-r.running }

// callerAnswered notes that a caller has its answer, went that it has gone on with it.
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

// waitForCallers lets those come along who are about to call, as most do whom the batch
// before has answered: it waits until they have gone on, for as long as it takes
// to wake them. Where nobody is there is nothing to wait for.
func (r *turn) waitForCallers() {
	if none := r.pendingCallers(); none != nil {
		<-none
	}
	runtime.Gosched()
}

// pendingCallers is closed when the callers that were answered have gone on; nil when
// they have.
func (r *turn) pendingCallers() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resuming == 0 {
		return nil
	}
	r.allResumed = make(chan struct{})
	return r.allResumed
}
