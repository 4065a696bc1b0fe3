package resume

import (
	"context"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
)

// enqueueOrHold queues a client's message, or holds it while a person has the browser.
// The caller holds the lock.
func (c *Conn) enqueueOrHold(message []byte) {
	held := c.calls.Held()
	if held == nil && len(c.held) == 0 {
		c.enqueue(message)
		return
	}
	c.held = append(c.held, message)
	c.queued += len(message)
	if len(c.held) == 1 {
		context.AfterFunc(held, c.releaseHeld)
	}
}

// releaseHeld queues the held messages after the end of a handover.
func (c *Conn) releaseHeld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.calls.Held(); held != nil { // the next has begun
		context.AfterFunc(held, c.releaseHeld)
		return
	}
	c.queue = append(c.queue, c.held...)
	c.held = nil
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
