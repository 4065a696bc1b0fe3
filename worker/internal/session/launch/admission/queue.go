package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// A launch that waits for this machine has a place in a queue in memory, first come, first
// served. The first launch is admitted when a session or a launch ends, or when a sample of
// the machine allows it (queuePoll). A launch that does not wait is refused while others do.
// A client that disconnects leaves the queue at once.

const queuePoll = 200 * time.Millisecond // how often the first in the queue is checked

// DefaultMaxWaiting bounds the queue if Options.MaxWaiting is 0.
const DefaultMaxWaiting = 1000

var errOthersWait = fault.New(fault.Unavailable, "Other launches wait for this worker. Retry later or with waitSeconds.")

// Waiting returns how many launches wait for this machine.
func (c *Controller) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Refused returns a context that ends when waiting launches are refused. Its cause is the
// reason.
func (c *Controller) Refused() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// enqueue adds a launch to the queue. The caller holds the lock, as for the functions below.
func (c *Controller) enqueue(p *Place) error {
	if n := len(c.queue); n >= c.MaxWaiting {
		return fault.New(fault.Unavailable, "Too many launches wait for this worker.", fault.Detail{
			Field: "waitSeconds", Code: fault.Custom, Message: fmt.Sprintf("%d launches wait", n),
			Constraint: map[string]any{"current": n, "limit": c.MaxWaiting},
		})
	}
	p.admitted, p.refused = make(chan struct{}), c.waiting
	c.queue = append(c.queue, p)
	c.scheduleCheck()
	return nil
}

// scheduleCheck checks the queue again later, as long as there is one. It does nothing if a
// check is scheduled.
func (c *Controller) scheduleCheck() {
	if c.checkScheduled || len(c.queue) == 0 {
		return
	}
	c.checkScheduled = true
	time.AfterFunc(queuePoll, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.checkScheduled = false
		c.admitWaiting()
		c.scheduleCheck()
	})
}

// admitWaiting admits launches from the queue while there is capacity.
func (c *Controller) admitWaiting() {
	for len(c.queue) > 0 && c.checkCapacity() == nil {
		first := c.queue[0]
		c.queue = c.queue[1:]
		first.count(&c.launching)
		close(first.admitted)
	}
}

// refuseWaiting refuses all waiting launches while launches are refused.
func (c *Controller) refuseWaiting() {
	if err := c.checkOpen(); err != nil {
		c.queue = nil
		c.refuse(err)
	} else if c.waiting.Err() != nil {
		c.waiting, c.refuse = context.WithCancelCause(context.Background())
	}
}

// await waits until a launch in the queue is admitted. The caller does not hold the lock.
func (c *Controller) await(ctx context.Context, p *Place, wait time.Duration) error {
	if c.Queued != nil {
		defer c.Queued()()
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-p.admitted:
	case <-p.refused.Done():
	case <-over.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(other *Place) bool { return other == p })
	switch {
	case ctx.Err() != nil:
		return Canceled(ctx.Err())
	case p.counter != nil:
		return nil
	case p.refused.Err() != nil:
		return context.Cause(p.refused)
	}
	if err := c.checkCapacity(); err != nil {
		return err
	}
	return errOthersWait
}
