package license

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// pollInterval is how often a replica looks for launches whose turn it is.
	pollInterval = 50 * time.Millisecond
	// pollTimeout bounds one look, and pollPause is the pause after a failed one.
	pollTimeout = 10 * time.Second
	pollPause   = time.Second
	// queueReclaim is the interval at which a replica searches for expired slots while
	// launches wait.
	queueReclaim = time.Second
)

// loss is why a request is no longer in the queue.
type loss int

const (
	notLost    loss = iota
	superseded      // a later request of the session took over its place
	leaseOver       // the row was deleted or its lease is over
)

// waiter is a waiting call.
type waiter struct {
	entry
	orgID uuid.UUID
	wake  chan struct{} // it may be its turn

	mu     sync.Mutex
	queued bool // it has a row
	loss   loss
}

func newWaiter(orgID, sessionID uuid.UUID) *waiter {
	return &waiter{entry: entry{sessionID, uuid.New()}, orgID: orgID, wake: make(chan struct{}, 1)}
}

func (w *waiter) signal(reason loss) {
	w.mu.Lock()
	if reason != notLost {
		w.loss, w.queued = reason, false
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiter) takeLoss() loss {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := w.loss
	w.loss = notLost
	return reason
}

func (w *waiter) isQueued() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued
}

func (w *waiter) setQueued(queued bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = queued
}

// queuePoller wakes the waiting calls of this replica. Its goroutine runs while there
// are any.
type queuePoller struct {
	s       *Service
	kicked  chan struct{} // a slot was released at this replica
	stopped chan struct{} // closed by stop

	mu      sync.Mutex
	waiters map[uuid.UUID]*waiter // by call
	running bool
	closed  bool
	active  sync.WaitGroup
}

func newQueuePoller(s *Service) *queuePoller {
	return &queuePoller{s: s, kicked: make(chan struct{}, 1), stopped: make(chan struct{}), waiters: map[uuid.UUID]*waiter{}}
}

// add registers a call. It returns false after stop.
func (q *queuePoller) add(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiters[w.callID] = w
	if !q.running {
		q.running = true
		q.active.Go(q.run)
	}
	return true
}

func (q *queuePoller) remove(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiters, w.callID)
}

func (q *queuePoller) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters)
}

// kick looks at once. Without waiting calls it does nothing.
func (q *queuePoller) kick() {
	if q.length() == 0 {
		return
	}
	select {
	case q.kicked <- struct{}{}:
	default:
	}
}

// close is stop. It returns when no call waits.
func (q *queuePoller) close(ctx context.Context) error {
	q.stop()
	ended := make(chan struct{})
	go func() {
		q.active.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for waiting launches: %w", ctx.Err())
	}
}

func (q *queuePoller) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.stopped)
	}
}

// all returns the waiting calls. If there are none, the goroutine must end.
func (q *queuePoller) all() []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*waiter, 0, len(q.waiters))
	for _, w := range q.waiters {
		all = append(all, w)
	}
	q.running = len(all) > 0
	return all
}

func (q *queuePoller) run() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var reclaiming sync.WaitGroup
	defer reclaiming.Wait()
	renewed, reclaimed := time.Now(), time.Now()
	for all := q.all(); len(all) > 0; all = q.all() {
		err := q.poll(all)
		if err == nil && time.Since(renewed) >= queueRenewal {
			renewed = time.Now()
			err = q.renew(all)
		}
		if time.Since(reclaimed) >= queueReclaim {
			reclaimed = time.Now()
			reclaiming.Wait()
			reclaiming.Go(func() { q.reclaim(all) })
		}
		if err != nil {
			q.s.logger.Error("failed to look at the queue", "waiting", len(all), "error", err)
			time.Sleep(pollPause)
		}
		select {
		case <-ticker.C:
		case <-q.kicked:
		}
	}
}

// poll wakes the calls whose turn it is.
func (q *queuePoller) poll(all []*waiter) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	turns, err := q.s.findTurns(ctx, organizationsOf(all))
	if err != nil {
		return err
	}
	for _, w := range all {
		if turns[w.callID] {
			w.signal(notLost)
		}
	}
	return nil
}

// renew extends the leases, and wakes the calls that have lost their place.
func (q *queuePoller) renew(all []*waiter) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	var orgs []uuid.UUID
	var entries []entry
	byCall := make(map[uuid.UUID]*waiter, len(all))
	for _, w := range all {
		if w.isQueued() {
			orgs, entries = append(orgs, w.orgID), append(entries, w.entry)
			byCall[w.callID] = w
		}
	}
	var losses []struct {
		Call   uuid.UUID  `db:"call_id"`
		Holder *uuid.UUID `db:"holder"`
	}
	sessions, calls := entryArrays(entries)
	if err := q.s.batch.renewQueue.SelectContext(ctx, &losses, uuidArray(orgs), sessions, calls, queueTTL.Seconds()); err != nil {
		return fmt.Errorf("extend the leases of the queue: %w", err)
	}
	for _, l := range losses {
		why := leaseOver
		if l.Holder != nil && *l.Holder != l.Call {
			why = superseded
		}
		byCall[l.Call].signal(why)
	}
	return nil
}

// reclaim reclaims for the organizations with waiting calls.
func (q *queuePoller) reclaim(all []*waiter) {
	ctx, cancel := context.WithTimeout(context.Background(), passTimeout)
	defer cancel()
	for _, orgID := range organizationsOf(all) {
		freed, err := q.s.reclaimForLaunch(ctx, orgID)
		if err != nil {
			q.s.logger.ErrorContext(ctx, "failed to reclaim for waiting launches", "org", orgID, "error", err)
		}
		if freed {
			q.kick()
		}
	}
}

func organizationsOf(all []*waiter) []uuid.UUID {
	visited := map[uuid.UUID]bool{}
	var orgs []uuid.UUID
	for _, w := range all {
		if !visited[w.orgID] {
			visited[w.orgID] = true
			orgs = append(orgs, w.orgID)
		}
	}
	return orgs
}
