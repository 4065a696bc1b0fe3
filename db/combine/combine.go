// Package combine batches concurrent calls. Calls that arrive while a batch runs wait
// and form the next batch, so that one statement answers many calls. A single call
// runs immediately, without overhead.
package combine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// MaxBatch is the maximum number of calls in a batch.
const MaxBatch = 500

// smallBatch is the queue length below which a batch first waits for callers that are
// about to call again: the cost of a batch is mostly independent of its size.
const smallBatch = 64

var errClosed = fault.New(fault.Unavailable, "The service is shutting down.")

// Combiner batches the calls of each key, in order of arrival. A call that finds no
// batch running runs at once in its caller's goroutine. Each key has at most one batch
// in progress, and an idle key uses no resources. A batch starts after all of its
// calls have arrived, so it never reads data older than its calls.
type Combiner[K comparable, Q, A any] struct {
	run  func(ctx context.Context, key K, batch []Q) ([]A, error)
	opts Options[K, Q]

	mu     sync.Mutex
	queues map[K]*queue[K, Q, A] // keys with a batch in progress
	closed bool
	active sync.WaitGroup // counts the queues
}

// Options configure a Combiner.
type Options[K comparable, Q any] struct {
	// OnLost is called for each call that may have taken effect although its caller was
	// cancelled or got an error. May be nil.
	OnLost    func(key K, q Q)
	Scheduler *Scheduler[K]   // serializes the batches of the Combiners that share it; default: its own
	OnBatch   func(calls int) // is called before each batch with its size; may be nil
	Logger    *slog.Logger    // logs failures that no caller receives; default: discard
	Name      string          // names the spans of batches; default "batch"
}

// New returns a Combiner. run answers a batch: it returns one answer for each call, or
// one error for all. Its context is never cancelled, because it serves many callers
// and an interrupted commit has an unknown result; the pool limits the duration of its
// statements. A failed batch is split in halves until only the failing call fails.
// Therefore run must not change anything when it returns an error.
func New[K comparable, Q, A any](run func(ctx context.Context, key K, batch []Q) ([]A, error), opts Options[K, Q]) *Combiner[K, Q, A] {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Name == "" {
		opts.Name = "batch"
	}
	if opts.Scheduler == nil {
		opts.Scheduler = NewScheduler[K]()
	}
	return &Combiner[K, Q, A]{run: run, opts: opts, queues: map[K]*queue[K, Q, A]{}}
}

// queue holds the calls of a key that wait for the next batch.
type queue[K comparable, Q, A any] struct {
	key     K
	lock    *keyLock
	waiting []*call[Q, A]
}

// call is a request. Its answer is valid once done is closed.
type call[Q, A any] struct {
	request   Q
	done      chan struct{}
	answered  bool
	abandoned bool       // no caller waits for the answer
	lock      *keyLock   // of its caller
	span      trace.Span // of its caller, if it is being recorded; otherwise nil
	answer    A
	err       error
}

// Do returns the answer to q after its batch took effect. If ctx ends while the call
// is queued, the call is dropped and Do returns at once. If its batch is already
// running, the call is reported to OnLost.
func (c *Combiner[K, Q, A]) Do(ctx context.Context, key K, q Q) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, err
	}
	own := &call[Q, A]{request: q, done: make(chan struct{}), lock: c.opts.Scheduler.join(key), span: recordingSpan(ctx)}
	defer c.opts.Scheduler.leave(key, own.lock)
	pending, first, err := c.enqueue(key, own)
	if err != nil {
		return none, err
	}
	if first {
		c.process(context.WithoutCancel(ctx), pending)
	}
	select {
	case <-own.done:
	case <-ctx.Done():
		if c.abandon(pending, own) {
			return none, ctx.Err()
		}
	}
	own.lock.callerResumed()
	if c.opts.OnLost == nil || own.err == nil && ctx.Err() == nil {
		return own.answer, own.err
	}
	c.opts.OnLost(key, q)
	return none, errors.Join(own.err, ctx.Err())
}

// Post runs q without waiting for the answer. A failure is logged.
func (c *Combiner[K, Q, A]) Post(key K, q Q) {
	pending, first, err := c.enqueue(key, &call[Q, A]{request: q, done: make(chan struct{}), abandoned: true})
	switch {
	case err != nil:
		c.opts.Logger.Warn("call dropped at shutdown", "key", key)
	case first:
		go c.process(context.Background(), pending)
	}
}

// Close refuses new calls and returns when all calls in progress are answered. When
// ctx ends first, it returns an error; the remaining calls end with the pool.
func (c *Combiner[K, Q, A]) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		c.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for calls in progress: %w", ctx.Err())
	}
}

// Wait returns when no call is in progress.
func (c *Combiner[K, Q, A]) Wait() { c.active.Wait() }

// Waiting returns the number of calls queued behind the key's running batch.
func (c *Combiner[K, Q, A]) Waiting(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pending := c.queues[key]; pending != nil {
		return len(pending.waiting)
	}
	return 0
}

// enqueue appends the call to the queue of its key. first is true if no batch is in
// progress; then the caller must call process.
func (c *Combiner[K, Q, A]) enqueue(key K, own *call[Q, A]) (pending *queue[K, Q, A], first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, errClosed
	}
	pending, busy := c.queues[key]
	if !busy {
		pending = &queue[K, Q, A]{key: key, lock: c.opts.Scheduler.join(key)}
		c.queues[key] = pending
		c.active.Add(1)
	}
	pending.waiting = append(pending.waiting, own)
	return pending, !busy, nil
}

// abandon removes the call of a cancelled caller from the queue. It returns false if
// the call is already answered.
func (c *Combiner[K, Q, A]) abandon(pending *queue[K, Q, A], own *call[Q, A]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.answered {
		return false
	}
	own.abandoned = true
	if i := slices.Index(pending.waiting, own); i >= 0 {
		pending.waiting = slices.Delete(pending.waiting, i, i+1)
	}
	return true
}

// process answers the first call in its caller's goroutine if no other batch of the
// key runs. Another goroutine answers the remaining calls until the queue is empty.
func (c *Combiner[K, Q, A]) process(ctx context.Context, pending *queue[K, Q, A]) {
	if pending.lock.tryAcquire() {
		c.runNext(ctx, pending)
	}
	if !c.nextOrRemove(pending) {
		return
	}
	go func() { //nolint:gosec // not the caller's context: it serves many callers
		for ok := true; ok; ok = c.nextOrRemove(pending) {
			pending.lock.acquire()
			c.runNext(context.Background(), pending)
		}
	}()
}

// runNext answers the next batch of the queue.
func (c *Combiner[K, Q, A]) runNext(ctx context.Context, pending *queue[K, Q, A]) {
	defer pending.lock.release()
	if c.queueLength(pending) < smallBatch {
		pending.lock.waitForCallers()
	}
	if batch := c.nextBatch(pending); len(batch) > 0 {
		if c.opts.OnBatch != nil {
			c.opts.OnBatch(len(batch))
		}
		c.execute(ctx, pending.key, batch)
	}
}

func (c *Combiner[K, Q, A]) queueLength(pending *queue[K, Q, A]) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(pending.waiting)
}

// nextBatch removes the next batch from the queue.
func (c *Combiner[K, Q, A]) nextBatch(pending *queue[K, Q, A]) []*call[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(pending.waiting), MaxBatch)
	batch := pending.waiting[:n:n]
	pending.waiting = pending.waiting[n:]
	return batch
}

// nextOrRemove reports whether calls are queued. An empty queue is removed.
func (c *Combiner[K, Q, A]) nextOrRemove(pending *queue[K, Q, A]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(pending.waiting) > 0 {
		return true
	}
	if c.queues[pending.key] == pending {
		delete(c.queues, pending.key)
	}
	c.opts.Scheduler.leave(pending.key, pending.lock)
	c.active.Done()
	return false
}

// execute runs a batch and delivers the answers. A failed batch is split in halves,
// the earlier half first, until only the failing call fails.
func (c *Combiner[K, Q, A]) execute(ctx context.Context, key K, batch []*call[Q, A]) {
	answers, err := c.runSafely(ctx, key, batch)
	if pg.IsUnavailable(err) { // it may have taken effect: run it again to find out
		answers, err = c.runSafely(ctx, key, batch)
	}
	if err == nil || len(batch) == 1 || !mayBeOneCall(err) {
		c.deliver(key, batch, answers, err)
		return
	}
	half := len(batch) / 2
	c.execute(ctx, key, batch[:half])
	c.execute(ctx, key, batch[half:])
}

// mayBeOneCall reports whether a single call of the batch may have caused the error,
// as opposed to an outage or a lock timeout.
func mayBeOneCall(err error) bool {
	_, outage := pg.OutageOf(err)
	return !outage && !errors.Is(err, context.DeadlineExceeded)
}

// runSafely runs a batch and converts a panic into an error.
func (c *Combiner[K, Q, A]) runSafely(ctx context.Context, key K, batch []*call[Q, A]) (answers []A, err error) {
	ctx, endSpan := c.startSpan(ctx, batch)
	defer func() { endSpan(err) }()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("batch panicked: %v\n%s", p, debug.Stack())
		}
	}()
	questions := make([]Q, len(batch))
	for i, each := range batch {
		questions[i] = each.request
	}
	return c.run(ctx, key, questions)
}

func (c *Combiner[K, Q, A]) deliver(key K, batch []*call[Q, A], answers []A, err error) {
	var abandoned []Q
	c.mu.Lock()
	for i, each := range batch {
		each.answered, each.err = true, err
		if err == nil {
			each.answer = answers[i]
		}
		if each.abandoned {
			abandoned = append(abandoned, each.request)
		} else {
			each.lock.callerAnswered()
		}
	}
	c.mu.Unlock()
	for _, each := range batch {
		close(each.done)
	}
	if len(abandoned) > 0 && err != nil {
		c.opts.Logger.Error("abandoned calls failed", "key", key, "calls", len(abandoned), "error", err)
	}
	if c.opts.OnLost != nil {
		for _, q := range abandoned {
			c.opts.OnLost(key, q)
		}
	}
}

// Lookup answers a batch of read-only requests. It calls find once with the distinct
// requests, in order of arrival. A request that find does not return gets the zero
// answer.
func Lookup[Q comparable, A any](batch []Q, find func(distinct []Q) (map[Q]A, error)) ([]A, error) {
	found, err := find(Distinct(batch))
	if err != nil {
		return nil, err
	}
	answers := make([]A, len(batch))
	for i, q := range batch {
		answers[i] = found[q]
	}
	return answers, nil
}

// Distinct returns the elements without duplicates, in order of their first
// occurrence.
func Distinct[Q comparable](all []Q) []Q {
	visited := make(map[Q]bool, len(all))
	distinct := make([]Q, 0, len(all))
	for _, q := range all {
		if !visited[q] {
			visited[q] = true
			distinct = append(distinct, q)
		}
	}
	return distinct
}
