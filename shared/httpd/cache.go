package httpd

import (
	"context"
	"sync"
	"time"
)

// Cache runs a check at most once per period and shares its result between all callers, so
// that unauthenticated requests cannot occupy what the check uses. One run at a time has the
// timeout and is not canceled with the request that started it. A check that does not return
// in time continues to run; until it ends, callers get the late result.
type Cache[T any] struct {
	period, timeout time.Duration
	check           func(context.Context) T
	late            T

	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	last    *checkRun[T] // nil before the first run
}

// checkRun is one run of a check.
type checkRun[T any] struct {
	deadline time.Time
	cancel   context.CancelFunc
	done     chan struct{} // closed at the end of the run, after result and ended were set
	result   T
	ended    time.Time
}

// NewCache returns a Cache without a result. Call Close to end it.
func NewCache[T any](period, timeout time.Duration, late T, check func(context.Context) T) *Cache[T] {
	return &Cache[T]{period: period, timeout: timeout, late: late, check: check}
}

// Get returns the result of a check that ended within the period. Otherwise it waits for one,
// and returns the late result when the timeout is over or ctx ends. After Close it is late.
func (c *Cache[T]) Get(ctx context.Context) T {
	run := c.current(ctx)
	if run == nil {
		return c.late
	}
	waiting, cancel := context.WithDeadline(ctx, run.deadline)
	defer cancel()
	select {
	case <-run.done:
		return run.result
	case <-waiting.Done():
	}
	select {
	case <-run.done: // both have ended
		return run.result
	default:
		return c.late
	}
}

// current returns the last run, or starts one if its result is too old. It returns nil after Close.
func (c *Cache[T]) current(ctx context.Context) *checkRun[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil
	case c.last != nil && !c.last.isOlder(c.period):
		return c.last
	}
	run := &checkRun[T]{deadline: time.Now().Add(c.timeout), done: make(chan struct{})}
	ctx, run.cancel = context.WithDeadline(context.WithoutCancel(ctx), run.deadline)
	c.last = run
	c.running.Go(func() {
		defer run.cancel()
		run.result = c.check(ctx)
		run.ended = time.Now()
		close(run.done)
	})
	return run
}

// isOlder reports whether the run ended longer ago than the period.
func (r *checkRun[T]) isOlder(period time.Duration) bool {
	select {
	case <-r.done:
		return time.Since(r.ended) >= period
	default:
		return false
	}
}

// Close cancels the run and waits for its end.
func (c *Cache[T]) Close() {
	c.mu.Lock()
	c.closed = true
	if c.last != nil {
		c.last.cancel()
	}
	c.mu.Unlock()
	c.running.Wait()
}
