package combine

import (
	"runtime"
	"sync"
)

// Rounds has the batches of each key run one at a time, in all Combiners that
// share it, first come first served. Batches that would wait for one another in
// the database wait here instead, where they still take in who comes.
type Rounds[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*round // of the keys with a call under way
}

// round is whose turn it is with a key.
type round struct {
	users   int           // the calls and lines in it; guarded by Rounds.mu
	running chan struct{} // full while a batch runs

	mu     sync.Mutex
	coming int           // callers that were answered and have not gone on yet
	none   chan struct{} // closed when there are none; nil when nobody waits for that
}

func newRound() *round { return &round{users: 1, running: make(chan struct{}, 1)} }

// NewRounds makes Rounds.
func NewRounds[K comparable]() *Rounds[K] { return &Rounds[K]{byKey: map[K]*round{}} }

func (r *Rounds[K]) enter(key K) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.byKey[key]; own != nil {
		own.users++
		return own
	}
	own := newRound()
	r.byKey[key] = own
	return own
}

func (r *Rounds[K]) leave(key K, own *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(r.byKey, key)
	}
}

// try begins a batch if none runs.
func (r *round) try() bool {
	select {
	case r.running <- struct{}{}:
		return true
	default:
		return false
	}
}

// begin waits for the turn.
func (r *round) begin() { r.running <- struct{}{} }

func (r *round) end() { <-r.running }

// answered notes that a caller has its answer, went that it has gone on with it.
func (r *round) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming++
}

func (r *round) went() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coming--; r.coming == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// gather lets those come along who are about to call, as most do whom the batch
// before has answered: it waits until they have gone on, for as long as it takes
// to wake them. Where nobody is there is nothing to wait for.
func (r *round) gather() {
	if none := r.awaited(); none != nil {
		<-none
	}
	runtime.Gosched()
}

// awaited is closed when the callers that were answered have gone on; nil when
// they have.
func (r *round) awaited() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coming == 0 {
		return nil
	}
	r.none = make(chan struct{})
	return r.none
}
