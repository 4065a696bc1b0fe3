package auth

import (
	"context"
	"fmt"
	"sync"
)

// networkLocks serialize the password checks and hashes of each network. With
// concurrent attempts, each one sees the counts of those before it, and only
// clients of the same network wait for each other.
type networkLocks struct {
	mu        sync.Mutex
	byNetwork map[string]*networkLock // locks that are held or waited for
}

type networkLock struct {
	locked  chan struct{}
	waiters int // number of callers that hold or wait for the lock
}

// acquire waits for the network's lock. The caller releases it with leave.
func (l *networkLocks) acquire(ctx context.Context, network string) (leave func(), err error) {
	mine := l.retain(network)
	select {
	case mine.locked <- struct{}{}:
		return func() {
			<-mine.locked
			l.release(network)
		}, nil
	case <-ctx.Done():
		l.release(network)
		return nil, fmt.Errorf("wait for the network's password lock: %w", ctx.Err())
	}
}

func (l *networkLocks) retain(network string) *networkLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNetwork[network] == nil {
		l.byNetwork[network] = &networkLock{locked: make(chan struct{}, 1)}
	}
	l.byNetwork[network].waiters++
	return l.byNetwork[network]
}

func (l *networkLocks) release(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNetwork[network].waiters--; l.byNetwork[network].waiters == 0 {
		delete(l.byNetwork, network)
	}
}

// withNetworkLock calls work under the lock of the client's network, unless one
// of the keys is paused (RateLimited). work must count its attempts before it
// returns.
func (s *Service) withNetworkLock(ctx context.Context, client Client, subjects []limitKey, work func() error) error {
	leave, err := s.networkLocks.acquire(ctx, client.network())
	if err != nil {
		return err
	}
	defer leave()
	if err := s.attempts.check(ctx, subjects...); err != nil {
		return err
	}
	return work()
}
