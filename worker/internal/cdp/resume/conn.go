package resume

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	// maxQueued limits the bytes queued for the browser, unless a single message is
	// bigger.
	maxQueued = 1 << 20

	openTimeout = 10 * time.Second // for the handshake of the first socket
)

// Conn is one CDP connection, with or without a client's socket.
type Conn struct {
	browser       Browser
	calls         *intercept.Connection
	resumeTimeout time.Duration
	limit         int // of a message, in bytes

	results *results // may be nil

	ctx context.Context // ends together with setting reason
	end context.CancelFunc

	mu           sync.Mutex
	changed      *sync.Cond
	buffer       ring     // messages of the browser
	lastSent     int64    // number of the last message that was sent completely to the current or last socket
	unsent       int      // buffered bytes after lastSent
	received     int64    // number of the client's messages accepted
	queue        [][]byte // client messages on their way to the browser
	backlog      [][]byte // client messages that follow those of queue after a handover
	queued       int      // bytes in queue and backlog
	socket       *socket  // nil while the client is disconnected
	attached     bool     // a client has had the connection
	stopWatch    func()   // stops counting the client
	resumeTimer  *time.Timer
	browserClose *closeReason // the browser's close reason; earlier messages may still be buffered
	reason       *closeReason // why the connection has ended; nil while open
}

// newConn returns a connection that waits for its client. bufferedBytes
// is the sum of all connections of the launch.
func newConn(b Browser, o Options, bufferedBytes *atomic.Int64) *Conn {
	c := &Conn{browser: b, calls: b.Calls.Connect(), resumeTimeout: o.ResumeTimeout, limit: o.Buffer - overhead, buffer: ring{maxBytes: o.Buffer, sharedBytes: bufferedBytes}}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.changed = sync.NewCond(&c.mu)
	c.calls.Client = b.Client
	c.calls.Reply = func(answer []byte) error {
		c.bufferMessage(wsframe.FromServer(wsframe.Text, answer))
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopWatch = func() {}
	c.startResumeTimer(openTimeout)
	return c
}

// startResumeTimer closes the connection unless the client returns in time. The
// caller holds the lock.
func (c *Conn) startResumeTimer(timeout time.Duration) {
	c.watchClient(nil)
	var timer *time.Timer
	timer = time.AfterFunc(timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.resumeTimer == timer {
			c.closeLocked(closeExpired)
		}
	})
	c.resumeTimer = timer
}

// watchClient counts the client's new connection, or its absence with nil, and
// stops counting the previous one. The caller holds the lock.
func (c *Conn) watchClient(s *socket) {
	before := c.stopWatch
	if s == nil {
		c.stopWatch = c.browser.Watch(nil)
	} else {
		c.stopWatch = c.browser.Watch(s.raw.Conn)
	}
	before()
}

// attach gives the connection to a client that has received this many messages.
// It returns why a client cannot have it.
func (c *Conn) attach(s *socket, received int64) (refused *closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		switch {
		case refused != nil:
			c.results.count(refused.status)
		case c.attached:
			c.results.count(succeeded)
		}
		c.attached = true
	}()
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
	c.socket, c.lastSent = s, received
	c.buffer.drop(received)
	c.unsent = c.buffer.bytes
	s.greeting = countsMessage(resumedMethod, c.received, c.buffer.last())
	c.changed.Broadcast()
	return nil
}

// detach removes a socket that was cut off or, with a reason, closed.
func (c *Conn) detach(s *socket, g *closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachLocked(s, g)
}

// detachLocked is detach. The caller holds the lock.
func (c *Conn) detachLocked(s *socket, g *closeReason) {
	if g != nil {
		s.closeWith(*g)
	} else { // the peer receives nothing more
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

// close closes the connection, unless it comes from a socket that is no longer
// the connection's. source is nil if no socket caused it.
func (c *Conn) close(source *socket, g closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if source == nil || c.socket == source {
		c.closeLocked(g)
	}
}

// closeLocked closes the connection. The caller holds the lock.
func (c *Conn) closeLocked(g closeReason) {
	if c.reason != nil {
		return
	}
	c.reason = &g
	c.end()
	if c.socket != nil {
		c.socket.closeWith(g)
		c.socket = nil
	}
	if c.resumeTimer != nil {
		c.resumeTimer.Stop()
		c.resumeTimer = nil
	}
	c.stopWatch()
	c.backlog = nil
	c.buffer.drop(c.buffer.last())
	c.changed.Broadcast()
}

func (c *Conn) hasEnded() bool { return c.ctx.Err() != nil }

// closeIfUsed closes a connection whose client has received something, because
// that client would not start over. It reports whether the connection has ended.
func (c *Conn) closeIfUsed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buffer.dropped > 0 {
		c.closeLocked(closeTakenOver)
	}
	return c.reason != nil
}

// bufferMessage buffers a message of the browser. While the buffer is full it
// waits for the client; without a client it closes the connection.
func (c *Conn) bufferMessage(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.reason == nil && (c.isBehind(len(message)) || !c.buffer.fits(len(message), c.lastSent)) {
		if c.socket == nil {
			c.closeLocked(closeOverBound)
			return
		}
		c.awaitChange()
	}
	if c.reason == nil {
		c.buffer.add(message)
		c.unsent += len(message) + overhead
		c.changed.Broadcast()
	}
}

// isBehind reports whether the client must receive waiting messages before
// another of that size is buffered: half of the buffer is reserved for messages
// that were sent and may be lost. The caller holds the lock.
func (c *Conn) isBehind(size int) bool {
	return c.socket != nil && c.unsent > 0 && c.unsent+size > c.buffer.maxBytes/2
}

// acceptClientMessage counts a client's message and queues it for the browser, if it
// is not empty. It returns false if the socket is no longer the connection's.
func (c *Conn) acceptClientMessage(s *socket, message []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.socket == s && c.browserClose == nil && c.queued > 0 && c.queued+len(message) > maxQueued {
		c.awaitChange()
	}
	if c.socket != s || c.browserClose != nil {
		return false
	}
	c.received++
	if message != nil {
		c.enqueueOrHold(message)
	}
	return true
}

// enqueue queues frames for the browser. The caller holds the lock.
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

// acknowledge drops the messages up to a number, which the client has received.
func (c *Conn) acknowledge(s *socket, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == s {
		c.buffer.drop(min(seq, c.lastSent))
		s.acked = true
		c.changed.Broadcast()
	}
}
