package combine

import (
	"runtime"
	"sync"
	"sync/atomic"
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
	coming  atomic.Int64  // callers that were answered and have not gone on yet
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

// gather lets those come along who are about to call, as most do whom the batch
// before has answered. It only yields, so nobody waits where nobody is.
func (r *round) gather() {
	for some := true; some; runtime.Gosched() {
		some = r.coming.Load() > 0
	}
}
