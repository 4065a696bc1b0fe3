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

	opening = 10 * time.Second // for the handshake of a connection's first socket
)

// Conn is one CDP connection, with a client's socket or waiting for the next.
type Conn struct {
	browser  Browser
	patience time.Duration
	limit    int // of a message, in bytes

	ended chan struct{} // closed with bye

	mu       sync.Mutex
	changed  *sync.Cond
	kept     ring     // what the browser said
	sent     int64    // the number of the last message that the socket, or the last one, was given whole
	unsent   int      // bytes of the kept messages after it
	received int64    // how many messages of the client's the browser gets
	queue    [][]byte // those that are on their way to it
	queued   int      // bytes of them
	socket   *socket  // nil while the client is away
	leave    func()   // ends the counting of the client
	away     *time.Timer
	last     *goodbye // the browser's; its socket has ended, what it said before may wait
	bye      *goodbye // why everything has ended
}

// newConn returns a connection whose client is not there yet. kept counts what
// the connections of its launch keep, in bytes.
func newConn(b Browser, o Options, kept *atomic.Int64) *Conn {
	c := &Conn{browser: b, patience: o.Patience, limit: o.Buffer - overhead, kept: ring{most: o.Buffer, together: kept}, ended: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave = func() {}
	c.wait(opening)
	return c
}

// wait begins a client's absence, which lasts so long at most. The caller holds
// the lock, here and wherever a function says that it is called.
func (c *Conn) wait(patience time.Duration) {
	c.count(nil)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.away == timer {
			c.finish(byeExpired)
		}
	})
	c.away = timer
}

// count counts another client, as one and the same; called.
func (c *Conn) count(s *socket) {
	before := c.leave
	if s == nil {
		c.leave = c.browser.Watch(nil)
	} else {
		c.leave = c.browser.Watch(s.raw.Conn)
	}
	before()
}

// attach gives the connection to a client that has received so many messages.
// It returns what to tell one that can't have it.
func (c *Conn) attach(s *socket, received int64) *goodbye {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.bye != nil && c.bye.status >= TakenOver:
		return c.bye
	case c.bye != nil:
		return &byeNothing
	case received > c.kept.last():
		return &byeAhead
	case received < c.kept.dropped:
		c.finish(byeOver)
		return &byeOver
	}
	if c.socket != nil {
		c.socket.dismiss(byeTaken)
	}
	if c.away != nil {
		c.away.Stop()
		c.away = nil
	}
	c.count(s)
	c.socket, c.sent = s, received
	c.kept.drop(received)
	c.unsent = c.kept.bytes
	s.greeting = counts(resumedMethod, c.received, c.kept.last())
	c.changed.Broadcast()
	return nil
}

// detach parts with a socket, which was cut off or, with a goodbye, gave up.
func (c *Conn) detach(s *socket, g *goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g != nil {
		s.dismiss(*g)
	} else { // nobody hears a goodbye, nor the rest
		_ = s.raw.Conn.SetDeadline(time.Now())
	}
	s.gone = s.gone || g == nil
	c.changed.Broadcast()
	if c.socket != s {
		return
	}
	c.socket = nil
	c.wait(c.patience)
}

// end ends everything with a goodbye, unless the socket it comes from is not the
// connection's any more. With nil it comes from elsewhere.
func (c *Conn) end(from *socket, g goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from == nil || c.socket == from {
		c.finish(g)
	}
}

// finish ends everything; called.
func (c *Conn) finish(g goodbye) {
	if c.bye != nil {
		return
	}
	c.bye = &g
	close(c.ended)
	if c.socket != nil {
		c.socket.dismiss(g)
		c.socket = nil
	}
	if c.away != nil {
		c.away.Stop()
		c.away = nil
	}
	c.leave()
	c.kept.drop(c.kept.last())
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

// yields ends a connection whose client has received something, as the same
// client would not begin again. It reports whether nothing is left to resume.
func (c *Conn) yields() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept.dropped > 0 {
		c.finish(byeTaken)
	}
	return c.bye != nil
}

// keep keeps a message of the browser's. While there is no room the browser
// waits for its client; without one everything ends.
func (c *Conn) keep(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bye == nil && (c.isBehind(len(message)) || !c.kept.fits(len(message), c.sent)) {
		if c.socket == nil {
			c.finish(byeOver)
			return
		}
		c.changed.Wait()
	}
	if c.bye == nil {
		c.kept.add(message)
		c.unsent += len(message) + overhead
		c.changed.Broadcast()
	}
}

// isBehind reports whether the client should be given what waits for it before
// one more message of that size is kept: half of the bound is left to messages
// that it was given and that the network may lose; called.
func (c *Conn) isBehind(size int) bool {
	return c.socket != nil && c.unsent > 0 && c.unsent+size > c.kept.most/2
}

// take takes a message of the client's, if this is its socket still.
func (c *Conn) take(s *socket, message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.socket == s && c.last == nil && c.queued > 0 && c.queued+len(message) > maxQueued {
		c.changed.Wait()
	}
	if c.socket != s || c.last != nil {
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
		c.kept.drop(min(seq, c.sent))
		s.acked = true
		c.changed.Broadcast()
	}
}
