// Package combine answers calls of one kind together: what comes while a batch
// is under way waits, and is the next batch. It makes one statement of many, and
// costs nothing when there is one.
package combine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// MaxBatch bounds the calls that one batch answers.
const MaxBatch = 500

// smallBatch calls wait for those who are about to come along: too few share what a
// batch costs, however small it is.
const smallBatch = 64

var errClosed = fault.New(fault.Unavailable, "The service is shutting down.")

// Combiner answers calls, those of one key together and in order of arrival. A
// call that finds nothing under way runs at once, in the goroutine of its
// caller; so a key has at most one batch in flight, and an idle one costs
// nothing. A batch begins after its calls: what it reads is no older than they.
type Combiner[K comparable, Q, A any] struct {
	run  func(ctx context.Context, key K, batch []Q) ([]A, error)
	opts Options[K, Q]

	mu     sync.Mutex
	queues map[K]*queue[K, Q, A] // of the keys with a batch under way
	closed bool
	active sync.WaitGroup // counts the lines
}

// Options tune a Combiner.
type Options[K comparable, Q any] struct {
	// OnLost hears of each call that may have taken effect and whose caller won't
	// know: it went away, or got an error. May be nil.
	OnLost     func(key K, q Q)
	Scheduler  *Scheduler[K] // of the Combiners that this one takes turns with; default its own
	NoBatching bool          // every call is a batch of its own, and nobody waits
	Logger     *slog.Logger  // told of what nobody else hears of; default none
}

// New makes a Combiner. run answers a batch: one answer for each call, or an
// error for all. Its context never ends, for it has many callers, and a batch
// that is cut off while it commits leaves everybody guessing; the pool bounds its
// statements. A batch that fails is halved until the call that can't be answered
// fails alone; so run must change nothing when it fails.
func New[K comparable, Q, A any](run func(ctx context.Context, key K, batch []Q) ([]A, error), opts Options[K, Q]) *Combiner[K, Q, A] {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Scheduler == nil {
		opts.Scheduler = NewScheduler[K]()
	}
	return &Combiner[K, Q, A]{run: run, opts: opts, queues: map[K]*queue[K, Q, A]{}}
}

// queue is the calls of a key that wait behind a batch.
type queue[K comparable, Q, A any] struct {
	key     K
	turn    *turn
	waiting []*call[Q, A]
}

// call is one request and, once done is closed, its answer.
type call[Q, A any] struct {
	request   Q
	done      chan struct{}
	answered  bool
	abandoned bool  // nobody waits for the answer
	turn      *turn // that its caller is in
	answer    A
	err       error
}

// Do returns the answer to q, after its batch took effect. A caller whose ctx
// ends leaves at once if its call waits in line; the call is dropped then, or
// lost when its batch was under way already.
func (c *Combiner[K, Q, A]) Do(ctx context.Context, key K, q Q) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, err
	}
	own := &call[Q, A]{request: q, done: make(chan struct{}), turn: c.joinTurn(key)}
	defer c.opts.Scheduler.leave(key, own.turn)
	l, first, err := c.enqueue(key, own)
	if err != nil {
		return none, err
	}
	if first {
		c.process(context.WithoutCancel(ctx), l)
	}
	select {
	case <-own.done:
	case <-ctx.Done():
		if c.abandon(l, own) {
			return none, ctx.Err()
		}
	}
	own.turn.callerResumed()
	if c.opts.OnLost == nil || own.err == nil && ctx.Err() == nil {
		return own.answer, own.err
	}
	c.opts.OnLost(key, q)
	return none, errors.Join(own.err, ctx.Err())
}

// Post runs q for nobody; a failure is logged.
func (c *Combiner[K, Q, A]) Post(key K, q Q) {
	l, first, err := c.enqueue(key, &call[Q, A]{request: q, done: make(chan struct{}), abandoned: true})
	switch {
	case err != nil:
		c.opts.Logger.Warn("call dropped at shutdown", "key", key)
	case first:
		go c.process(context.Background(), l)
	}
}

// Close lets no more calls in, and returns when all that are in are answered. It
// waits no longer than ctx: what is left is an error, and ends with the pool.
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
		return fmt.Errorf("wait for the calls under way: %w", ctx.Err())
	}
}

// Wait returns when nothing is under way.
func (c *Combiner[K, Q, A]) Wait() { c.active.Wait() }

// Waiting is how many calls wait behind the key's batch.
func (c *Combiner[K, Q, A]) Waiting(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.queues[key]; l != nil {
		return len(l.waiting)
	}
	return 0
}

// enqueue puts the call in line. It reports whether it is the first: the one to
// lead whoever is in line with it, and comes meanwhile.
func (c *Combiner[K, Q, A]) enqueue(key K, own *call[Q, A]) (l *queue[K, Q, A], first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, errClosed
	}
	l, busy := c.queues[key]
	if !busy || c.opts.NoBatching {
		l = &queue[K, Q, A]{key: key, turn: c.joinTurn(key)}
		c.queues[key] = l
		c.active.Add(1)
	}
	l.waiting = append(l.waiting, own)
	return l, !busy || c.opts.NoBatching, nil
}

// turn is the one to take turns in. It is left in the end.
func (c *Combiner[K, Q, A]) joinTurn(key K) *turn {
	if c.opts.NoBatching {
		return newTurn()
	}
	return c.opts.Scheduler.join(key)
}

// abandon takes the call of a caller who goes away out of the line. It reports
// false when the answer is there.
func (c *Combiner[K, Q, A]) abandon(l *queue[K, Q, A], own *call[Q, A]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.answered {
		return false
	}
	own.abandoned = true
	if i := slices.Index(l.waiting, own); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return true
}

// process answers the first call, in its caller's goroutine if it is its turn at
// once. The others, and whoever comes meanwhile, are answered by a goroutine that
// lives as long as somebody waits.
func (c *Combiner[K, Q, A]) process(ctx context.Context, l *queue[K, Q, A]) {
	if l.turn.tryAcquire() {
		c.runNext(ctx, l)
	}
	if !c.nextOrRemove(l) {
		return
	}
	go func() { //nolint:gosec // no caller's context: it answers many
		for ok := true; ok; ok = c.nextOrRemove(l) {
			l.turn.acquire()
			c.runNext(context.Background(), l)
		}
	}()
}

// runNext answers the next batch of the line, whose turn it is.
func (c *Combiner[K, Q, A]) runNext(ctx context.Context, l *queue[K, Q, A]) {
	defer l.turn.release()
	if c.queueLength(l) < smallBatch {
		l.turn.waitForCallers()
	}
	if batch := c.nextBatch(l); len(batch) > 0 {
		c.execute(ctx, l.key, batch)
	}
}

func (c *Combiner[K, Q, A]) queueLength(l *queue[K, Q, A]) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(l.waiting)
}

// nextBatch takes the next batch out of the line.
func (c *Combiner[K, Q, A]) nextBatch(l *queue[K, Q, A]) []*call[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(l.waiting), MaxBatch)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// nextOrRemove reports whether somebody waits in the line. If not the key is idle and
// forgotten.
func (c *Combiner[K, Q, A]) nextOrRemove(l *queue[K, Q, A]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.waiting) > 0 {
		return true
	}
	if c.queues[l.key] == l {
		delete(c.queues, l.key)
	}
	c.opts.Scheduler.leave(l.key, l.turn)
	c.active.Done()
	return false
}

// execute runs a batch and tells its callers. When it fails it is halved, the
// earlier half first, until the one that can't be done fails alone.
func (c *Combiner[K, Q, A]) execute(ctx context.Context, key K, batch []*call[Q, A]) {
	answers, err := c.runSafely(ctx, key, batch)
	if pg.IsUnavailable(err) { // it may have taken effect: asking again tells
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

// mayBeOneCall reports whether the failure may be the fault of one call of the
// batch: not of the server, nor of somebody who holds a lock.
func mayBeOneCall(err error) bool {
	_, outage := pg.OutageOf(err)
	return !outage && !errors.Is(err, context.DeadlineExceeded)
}

// runSafely runs a batch; a panic is an error.
func (c *Combiner[K, Q, A]) runSafely(ctx context.Context, key K, batch []*call[Q, A]) (answers []A, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a batch panicked: %v\n%s", p, debug.Stack())
		}
	}()
	questions := make([]Q, len(batch))
	for i, each := range batch {
		questions[i] = each.request
	}
	return c.run(ctx, key, questions)
}

func (c *Combiner[K, Q, A]) deliver(key K, batch []*call[Q, A], answers []A, err error) {
	var lost []Q
	c.mu.Lock()
	for i, each := range batch {
		each.answered, each.err = true, err
		if err == nil {
			each.answer = answers[i]
		}
		if each.abandoned {
			lost = append(lost, each.request)
		} else {
			each.turn.callerAnswered()
		}
	}
	c.mu.Unlock()
	for _, each := range batch {
		close(each.done)
	}
	if len(lost) > 0 && err != nil {
		c.opts.Logger.Error("calls failed after their callers had left", "key", key, "calls", len(lost), "error", err)
	}
	if c.opts.OnLost != nil {
		for _, q := range lost {
			c.opts.OnLost(key, q)
		}
	}
}

// Lookup answers a batch of questions that only read: find is asked once, for the
// distinct ones in order of arrival, and what it leaves out has the zero answer.
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

// Distinct keeps the first of each.
func Distinct[Q comparable](all []Q) []Q {
	seen := make(map[Q]bool, len(all))
	distinct := make([]Q, 0, len(all))
	for _, q := range all {
		if !seen[q] {
			seen[q] = true
			distinct = append(distinct, q)
		}
	}
	return distinct
}
