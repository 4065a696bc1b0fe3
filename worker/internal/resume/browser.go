package resume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// lastWords is how long what was said may take to reach the other side when the
// connection, or the browser, has ended.
const lastWords = 3 * time.Second

// run moves messages until the connection has ended and the browser's socket is
// closed.
func (c *Conn) run(ctx context.Context) {
	socket := c.browser.Socket.Conn
	defer func() { _ = socket.Close() }()
	defer context.AfterFunc(ctx, func() {
		c.end(nil, byeShutdown)
		_ = socket.Close()
	})()
	var pumps sync.WaitGroup
	defer pumps.Wait()
	pumps.Go(c.toBrowser)
	pumps.Go(c.fromBrowser)
	select {
	case <-c.ended:
	case <-c.browser.Done:
		c.hurry()
		<-c.ended
	}
	_ = socket.SetDeadline(time.Now().Add(lastWords))
}

// hurry ends the connection of a browser that has ended as soon as its client
// has heard everything or is away.
func (c *Conn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = 0
	if c.socket == nil {
		c.finish(byeBrowser)
		return
	}
	time.AfterFunc(lastWords, func() { c.end(nil, byeBrowser) })
}

// fromBrowser keeps what the browser says until its socket ends.
func (c *Conn) fromBrowser() {
	from := c.browser.Socket
	frames := wsframe.NewReader(io.MultiReader(bytes.NewReader(from.Early), from.Conn), false, c.limit)
	for {
		m, err := frames.Next()
		switch {
		case errors.Is(err, wsframe.ErrTooBig):
			c.end(nil, byeOver)
			return
		case err != nil:
			c.hear(byeBrowser)
			return
		case m.Opcode == wsframe.Close:
			c.hear(goodbyeOf(m))
			return
		case m.Opcode == wsframe.Ping:
			c.pong(m)
		case !m.Control():
			c.keep(m.Raw)
		}
	}
}

// hear notes the browser's own goodbye, which comes after all that it said.
func (c *Conn) hear(g goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = &g
		c.changed.Broadcast()
	}
}

// toBrowser gives the browser what the client says, and a goodbye after it.
func (c *Conn) toBrowser() {
	to := c.browser.Socket.Conn
	for {
		frames, size := c.outgoing()
		if size == 0 {
			_, _ = to.Write(wsframe.FromClient(wsframe.Close, wsframe.ClosePayload(wsframe.Normal, "")))
			return
		}
		if _, err := frames.WriteTo(to); err != nil {
			c.hear(byeBrowser) // its other direction ends, too
			return
		}
		c.mu.Lock()
		c.queued -= size
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// outgoing waits for something to give the browser; there is nothing more when
// the connection has ended.
func (c *Conn) outgoing() (frames net.Buffers, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 && c.bye == nil && c.last == nil {
		c.changed.Wait()
	}
	frames, c.queue = c.queue, nil
	for _, frame := range frames {
		size += len(frame)
	}
	return frames, size
}
