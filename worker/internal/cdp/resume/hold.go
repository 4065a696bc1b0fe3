package resume

import (
	"context"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
)

// enqueueOrHold queues a client's message, or holds it while a person has the browser.
// The caller holds the lock.
func (c *Conn) enqueueOrHold(message []byte) {
	handoverCtx := c.calls.Held()
	if handoverCtx == nil && len(c.backlog) == 0 {
		c.enqueue(message)
		return
	}
	c.backlog = append(c.backlog, message)
	c.queued += len(message)
	if len(c.backlog) == 1 {
		context.AfterFunc(handoverCtx, c.releaseHeld)
	}
}

// releaseHeld queues the held messages after the end of a handover.
func (c *Conn) releaseHeld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if handoverCtx := c.calls.Held(); handoverCtx != nil { // another handover has started
		context.AfterFunc(handoverCtx, c.releaseHeld)
		return
	}
	c.queue = append(c.queue, c.backlog...)
	c.backlog = nil
	c.changed.Broadcast()
}

// awaitChange waits for a change, such as space in a buffer. That may take long: meanwhile
// it notices that the client has closed its socket, which nobody may be reading. The
// caller holds the lock.
func (c *Conn) awaitChange() {
	wake := time.AfterFunc(intercept.ClosedPoll, c.changed.Broadcast)
	c.changed.Wait()
	wake.Stop()
	if s := c.socket; s != nil && intercept.IsClosed(s.raw.Conn) {
		c.detachLocked(s, nil)
	}
}
