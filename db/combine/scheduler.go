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
	locks map[K]*keyLock // keys with a call in progress
}

// keyLock serializes the batches of one key.
type keyLock struct {
	users   int           // calls and queues that use it; guarded by Scheduler.mu
	running chan struct{} // full while a batch runs

	mu         sync.Mutex
	resuming   int           // callers that have an answer but have not resumed yet
	allResumed chan struct{} // closed when resuming is 0; nil if no goroutine waits for that
}

func newKeyLock() *keyLock { return &keyLock{users: 1, running: make(chan struct{}, 1)} }

// NewScheduler returns a Scheduler.
func NewScheduler[K comparable]() *Scheduler[K] { return &Scheduler[K]{locks: map[K]*keyLock{}} }

func (s *Scheduler[K]) join(key K) *keyLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.locks[key]; own != nil {
		own.users++
		return own
	}
	own := newKeyLock()
	s.locks[key] = own
	return own
}

func (s *Scheduler[K]) leave(key K, own *keyLock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.locks, key)
	}
}

// tryAcquire starts a batch unless one is running. It reports whether it did.
func (l *keyLock) tryAcquire() bool {
	select {
	case l.running <- struct{}{}:
		return true
	default:
		return false
	}
}

// acquire waits until no other batch of the key runs.
func (l *keyLock) acquire() { l.running <- struct{}{} }

func (l *keyLock) release() { <-l.running }

// callerAnswered records that a caller has its answer; callerResumed records that its
// goroutine has resumed.
func (l *keyLock) callerAnswered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resuming++
}

func (l *keyLock) callerResumed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resuming--; l.resuming == 0 && l.allResumed != nil {
		close(l.allResumed)
		l.allResumed = nil
	}
}

// waitForCallers waits until the callers of the previous batch have resumed, since
// most of them call again at once and can join this batch.
func (l *keyLock) waitForCallers() {
	if none := l.pendingCallers(); none != nil {
		<-none
	}
	runtime.Gosched()
}

// pendingCallers returns a channel that is closed when all answered callers have
// resumed, or nil if they have.
func (l *keyLock) pendingCallers() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resuming == 0 {
		return nil
	}
	l.allResumed = make(chan struct{})
	return l.allResumed
}
