package license

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	// batchMost bounds the calls that one batch answers.
	batchMost = 500
	// batchTime bounds one batch. The context of a caller doesn't: a batch has
	// many, and one that is cut off while it commits leaves everybody guessing.
	batchTime = 15 * time.Second
)

var errClosed = fault.New(fault.Unavailable, "The service is shutting down.")

// combiner answers calls of one kind, those of one organization together: what
// comes while a batch is under way waits, and is the next batch, in order of
// arrival. A call that finds nothing under way runs at once, in the goroutine
// of its caller; so an organization has at most one batch in flight, and one
// that is idle costs nothing.
type combiner[Q, A any] struct {
	// run answers a batch: one answer for each call, or an error for all.
	run func(ctx context.Context, orgID uuid.UUID, batch []Q) ([]A, error)
	// lost hears of each call that may have taken effect and whose caller won't
	// know: it went away, or got an error. May be nil.
	lost   func(orgID uuid.UUID, q Q)
	alone  bool // every call is a batch of its own, and nobody waits
	logger *slog.Logger

	mu      sync.Mutex
	waiting map[uuid.UUID][]*call[Q, A] // a line for each organization with a batch under way
	closed  bool
	busy    sync.WaitGroup // counts the lines
}

func newCombiner[Q, A any](
	run func(context.Context, uuid.UUID, []Q) ([]A, error), alone bool, logger *slog.Logger,
) *combiner[Q, A] {
	return &combiner[Q, A]{run: run, alone: alone, logger: logger, waiting: map[uuid.UUID][]*call[Q, A]{}}
}

// call is one request and, once done is closed, its answer.
type call[Q, A any] struct {
	orgID    uuid.UUID
	line     uuid.UUID // where it waits: the organization's, unless every call is alone
	q        Q
	done     chan struct{}
	answered bool
	gone     bool // nobody waits for the answer
	answer   A
	err      error
}

func (c *combiner[Q, A]) newCall(orgID uuid.UUID, q Q) *call[Q, A] {
	own := &call[Q, A]{orgID: orgID, line: orgID, q: q, done: make(chan struct{})}
	if c.alone {
		own.line = uuid.New()
	}
	return own
}

// do returns the answer to q, after its batch took effect. A caller whose ctx
// ends leaves at once if its call waits in line; the call is dropped then, or
// lost when its batch was under way already.
func (c *combiner[Q, A]) do(ctx context.Context, orgID uuid.UUID, q Q) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, err
	}
	own := c.newCall(orgID, q)
	first, err := c.enter(own)
	if err != nil {
		return none, err
	}
	if first {
		c.lead(context.WithoutCancel(ctx), own.line)
	}
	select {
	case <-own.done:
	case <-ctx.Done():
		if c.leave(own) {
			return none, ctx.Err()
		}
	}
	if c.lost == nil || own.err == nil && ctx.Err() == nil {
		return own.answer, own.err
	}
	c.lost(orgID, q)
	return none, errors.Join(own.err, ctx.Err())
}

// post runs q for nobody; a failure is logged.
func (c *combiner[Q, A]) post(orgID uuid.UUID, q Q) {
	own := c.newCall(orgID, q)
	own.gone = true
	first, err := c.enter(own)
	switch {
	case err != nil:
		c.logger.Warn("license call dropped at shutdown", "org", orgID)
	case first:
		go c.lead(context.Background(), own.line)
	}
}

// close lets no more calls in, and returns when all that are in are answered.
func (c *combiner[Q, A]) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.busy.Wait()
}

// enter puts the call in line. It reports whether it is the first: the one to
// lead whoever is in line with it, and comes meanwhile.
func (c *combiner[Q, A]) enter(own *call[Q, A]) (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, errClosed
	}
	line, busy := c.waiting[own.line]
	if !busy {
		c.busy.Add(1)
	}
	c.waiting[own.line] = append(line, own)
	return !busy, nil
}

// leave takes the call of a caller who goes away out of the line. It reports
// false when the answer is there.
func (c *combiner[Q, A]) leave(own *call[Q, A]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.answered {
		return false
	}
	own.gone = true
	line := c.waiting[own.line]
	if i := slices.Index(line, own); i >= 0 {
		c.waiting[own.line] = slices.Delete(line, i, i+1)
	}
	return true
}

// next takes the next batch out of the line. Without one the organization is
// idle and forgotten.
func (c *combiner[Q, A]) next(key uuid.UUID) []*call[Q, A] {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.waiting[key]
	if len(line) == 0 {
		delete(c.waiting, key)
		c.busy.Done()
		return nil
	}
	n := min(len(line), batchMost)
	c.waiting[key] = line[n:]
	return line[:n:n]
}

// lead answers the first call. Whoever comes meanwhile is answered by a
// goroutine that lives as long as somebody waits.
func (c *combiner[Q, A]) lead(ctx context.Context, key uuid.UUID) {
	runtime.Gosched() // whoever is about to call goes along; nobody waits when nobody is
	c.answer(ctx, c.next(key))
	if batch := c.next(key); len(batch) > 0 {
		go func() { //nolint:gosec // no caller's context: it answers many
			for ; len(batch) > 0; batch = c.next(key) {
				c.answer(context.Background(), batch)
			}
		}()
	}
}

func (c *combiner[Q, A]) answer(ctx context.Context, batch []*call[Q, A]) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	c.settle(ctx, batch)
}

// settle runs a batch and tells its callers. When it fails it is halved, the
// earlier half first, until the one that can't be done fails alone.
func (c *combiner[Q, A]) settle(ctx context.Context, batch []*call[Q, A]) {
	answers, err := c.try(ctx, batch)
	if pg.IsUnavailable(err) { // it may have taken effect: asking again tells
		answers, err = c.try(ctx, batch)
	}
	if err == nil || len(batch) == 1 || !ofOneCall(err) {
		c.tell(batch, answers, err)
		return
	}
	half := len(batch) / 2
	c.settle(ctx, batch[:half])
	c.settle(ctx, batch[half:])
}

// ofOneCall reports whether the failure may be the fault of one call of the
// batch: not of the server, nor of somebody who holds a lock.
func ofOneCall(err error) bool {
	return !pg.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded) &&
		pq.As(err, pqerror.LockNotAvailable, pqerror.QueryCanceled) == nil
}

// try runs a batch; a panic is an error.
func (c *combiner[Q, A]) try(ctx context.Context, batch []*call[Q, A]) (answers []A, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a license batch panicked: %v\n%s", p, debug.Stack())
		}
	}()
	questions := make([]Q, len(batch))
	for i, each := range batch {
		questions[i] = each.q
	}
	return c.run(ctx, batch[0].orgID, questions)
}

func (c *combiner[Q, A]) tell(batch []*call[Q, A], answers []A, err error) {
	orgID := batch[0].orgID
	var lost []Q
	c.mu.Lock()
	for i, each := range batch {
		each.answered, each.err = true, err
		if err == nil {
			each.answer = answers[i]
		}
		if each.gone {
			lost = append(lost, each.q)
		}
	}
	c.mu.Unlock()
	for _, each := range batch {
		close(each.done)
	}
	if len(lost) > 0 && err != nil {
		c.logger.Error("license calls failed after their callers had left", "org", orgID, "calls", len(lost), "error", err)
	}
	if c.lost != nil {
		for _, q := range lost {
			c.lost(orgID, q)
		}
	}
}
