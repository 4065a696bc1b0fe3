package resume

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	// maxQueued is what waits for the browser to take it, in bytes, unless a
	// single message is bigger.
	maxQueued = 1 << 20

	openTimeout = 10 * time.Second // for the handshake of a connection's first socket
)

// Conn is one CDP connection, with a client's socket or waiting for the next.
type Conn struct {
	browser       Browser
	resumeTimeout time.Duration
	limit         int // of a message, in bytes

	ended chan struct{} // closed with bye

	mu           sync.Mutex
	changed      *sync.Cond
	buffer       ring     // what the browser said
	sent         int64    // the number of the last message that the socket, or the last one, was given whole
	unsent       int      // bytes of the kept messages after it
	received     int64    // how many messages of the client's the browser gets
	queue        [][]byte // those that are on their way to it
	queued       int      // bytes of them
	socket       *socket  // nil while the client is away
	stopWatch    func()   // ends the counting of the client
	resumeTimer  *time.Timer
	browserClose *closeReason // the browser's; its socket has ended, what it said before may wait
	reason       *closeReason // why everything has ended
}

// newConn returns a connection whose client is not there yet. kept counts what
// the connections of its launch keep, in bytes.
func newConn(b Browser, o Options, kept *atomic.Int64) *Conn {
	c := &Conn{browser: b, resumeTimeout: o.ResumeTimeout, limit: o.Buffer - overhead, buffer: ring{maxBytes: o.Buffer, sharedBytes: kept}, ended: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopWatch = func() {}
	c.startResumeTimer(openTimeout)
	return c
}

// startResumeTimer begins a client's absence, which lasts so long at most. The caller holds
// the lock, here and wherever a function says that it is called.
func (c *Conn) startResumeTimer(patience time.Duration) {
	c.watchClient(nil)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.resumeTimer == timer {
			c.closeLocked(closeExpired)
		}
	})
	c.resumeTimer = timer
}

// watchClient counts another client, as one and the same; called.
func (c *Conn) watchClient(s *socket) {
	before := c.stopWatch
	if s == nil {
		c.stopWatch = c.browser.Watch(nil)
	} else {
		c.stopWatch = c.browser.Watch(s.raw.Conn)
	}
	before()
}

// attach gives the connection to a client that has received so many messages.
// It returns what to tell one that can't have it.
func (c *Conn) attach(s *socket, received int64) *closeReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.reason != nil && c.reason.status >= TakenOver:
		return c.reason
	case c.reason != nil:
		return &closeNothing
	case received > c.buffer.last():
		return &closeAhead
	case received < c.buffer.dropped:
		c.closeLocked(closeOverBound)
		return &closeOverBound
	}
	if c.socket != nil {
		c.socket.closeWith(closeTakenOver)
	}
	if c.resumeTimer != nil {
		c.resumeTimer.Stop()
		c.resumeTimer = nil
	}
	c.watchClient(s)
	c.socket, c.sent = s, received
	c.buffer.drop(received)
	c.unsent = c.buffer.bytes
	s.greeting = countsMessage(resumedMethod, c.received, c.buffer.last())
	c.changed.Broadcast()
	return nil
}

// detach parts with a socket, which was cut off or, with a goodbye, gave up.
func (c *Conn) detach(s *socket, g *closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != nil {
		s.closeWith(*g)
	} else { // nobody hears a goodbye, nor the rest
		_ = s.raw.Conn.SetDeadline(time.Now())
	}
	s.disconnected = s.disconnected || g == nil
	c.changed.Broadcast()
	if c.socket != s {
		return
	}
	c.socket = nil
	c.startResumeTimer(c.resumeTimeout)
}

// close ends everything with a goodbye, unless the socket it comes from is not the
// connection's any more. With nil it comes from elsewhere.
func (c *Conn) close(from *socket, g closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from == nil || c.socket == from {
		c.closeLocked(g)
	}
}

// closeLocked ends everything; called.
func (c *Conn) closeLocked(g closeReason) {
	if c.reason != nil {
		return
	}
	c.reason = &g
	close(c.ended)
	if c.socket != nil {
		c.socket.closeWith(g)
		c.socket = nil
	}
	if c.resumeTimer != nil {
		c.resumeTimer.Stop()
		c.resumeTimer = nil
	}
	c.stopWatch()
	c.buffer.drop(c.buffer.last())
	c.changed.Broadcast()
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// closeIfUsed ends a connection whose client has received something, as the same
// client would not begin again. It reports whether nothing is left to resume.
func (c *Conn) closeIfUsed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buffer.dropped > 0 {
		c.closeLocked(closeTakenOver)
	}
	return c.reason != nil
}

// bufferMessage keeps a message of the browser's. While there is no room the browser
// waits for its client; without one everything ends.
func (c *Conn) bufferMessage(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.reason == nil && (c.isBehind(len(message)) || !c.buffer.fits(len(message), c.sent)) {
		if c.socket == nil {
			c.closeLocked(closeOverBound)
			return
		}
		c.changed.Wait()
	}
	if c.reason == nil {
		c.buffer.add(message)
		c.unsent += len(message) + overhead
		c.changed.Broadcast()
	}
}

// isBehind reports whether the client should be given what waits for it before
// one more message of that size is kept: half of the bound is left to messages
// that it was given and that the network may lose; called.
func (c *Conn) isBehind(size int) bool {
	return c.socket != nil && c.unsent > 0 && c.unsent+size > c.buffer.maxBytes/2
}

// addBytes takes a message of the client's, if this is its socket still.
func (c *Conn) queueClientMessage(s *socket, message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.socket == s && c.browserClose == nil && c.queued > 0 && c.queued+len(message) > maxQueued {
		c.changed.Wait()
	}
	if c.socket != s || c.browserClose != nil {
		return
	}
	c.received++
	c.enqueue(message)
}

// enqueue puts frames on their way to the browser; called.
func (c *Conn) enqueue(frames []byte) {
	c.queue = append(c.queue, frames)
	c.queued += len(frames)
	c.changed.Broadcast()
}

// pong answers the browser's ping.
func (c *Conn) pong(ping wsframe.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued < maxQueued {
		c.enqueue(wsframe.FromClient(wsframe.Pong, ping.Payload()))
	}
}

// acknowledge forgets the messages up to a number, which the client has.
func (c *Conn) acknowledge(s *socket, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == s {
		c.buffer.drop(min(seq, c.sent))
		s.acked = true
		c.changed.Broadcast()
	}
}
