package resume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// drainTimeout limits how long the remaining messages may take to be delivered
// when the connection or the browser has ended.
const drainTimeout = 3 * time.Second

// run moves messages until the connection has ended and the browser's socket is
// closed.
func (c *Conn) run(ctx context.Context) {
	socket := c.browser.Socket.Conn
	defer func() { _ = socket.Close() }()
	defer c.calls.Close()
	defer context.AfterFunc(ctx, func() {
		c.close(nil, closeShutdown)
		_ = socket.Close()
	})()
	var pumps sync.WaitGroup
	defer pumps.Wait()
	pumps.Go(c.writeBrowser)
	pumps.Go(c.readBrowser)
	select {
	case <-c.ctx.Done():
	case <-c.browser.Done:
		c.awaitEnd(false)
		c.closeAfterDelivery()
		<-c.ctx.Done()
	}
	_ = socket.SetDeadline(time.Now().Add(drainTimeout))
}

// closeAfterDelivery closes the connection of an ended browser as soon as its
// client has received everything or is disconnected.
func (c *Conn) closeAfterDelivery() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumeTimeout = 0
	if c.socket == nil {
		c.closeLocked(closeBrowserGone)
		return
	}
	time.AfterFunc(drainTimeout, func() { c.close(nil, closeBrowserGone) })
}

// readBrowser buffers the browser's messages until its socket ends.
func (c *Conn) readBrowser() {
	socket := c.browser.Socket
	frames := wsframe.NewReader(io.MultiReader(bytes.NewReader(socket.Early), socket.Conn), false, c.limit)
	for {
		m, err := frames.Next()
		switch {
		case errors.Is(err, wsframe.ErrTooBig):
			c.close(nil, closeOverBound)
			return
		case err != nil:
			c.awaitEnd(false)
			c.setBrowserClose(closeBrowserGone)
			return
		case m.Opcode == wsframe.Close:
			c.awaitEnd(false)
			c.setBrowserClose(readCloseReason(m))
			return
		case m.Opcode == wsframe.Ping:
			c.pong(m)
		case !m.Control():
			hide, closeAccepted := c.calls.HandleAnswer(m)
			if closeAccepted {
				c.awaitEnd(true)
			}
			if !hide {
				c.bufferMessage(m.Raw)
			}
		}
	}
}

// awaitEnd waits, unless the connection ends, until the client may see that the browser
// has accepted Browser.close, or the end of the browser's side.
func (c *Conn) awaitEnd(closeAccepted bool) {
	if c.browser.BeforeEnd != nil {
		c.browser.BeforeEnd(c.ctx, closeAccepted)
	}
}

// setBrowserClose records the browser's close frame, which follows its messages.
func (c *Conn) setBrowserClose(g closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.browserClose == nil {
		c.browserClose = &g
		c.changed.Broadcast()
	}
}

// writeBrowser sends the client's messages to the browser, and a close frame
// after them.
func (c *Conn) writeBrowser() {
	conn := c.browser.Socket.Conn
	for {
		frames, size := c.nextOutgoing()
		if size == 0 {
			_, _ = conn.Write(wsframe.FromClient(wsframe.Close, wsframe.ClosePayload(wsframe.Normal, "")))
			return
		}
		if _, err := frames.WriteTo(conn); err != nil {
			c.setBrowserClose(closeBrowserGone) // the other direction ends too
			return
		}
		c.mu.Lock()
		c.queued -= size
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// nextOutgoing waits for messages to the browser; it returns none when the
// connection has ended.
func (c *Conn) nextOutgoing() (frames net.Buffers, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 && c.reason == nil && c.browserClose == nil {
		c.changed.Wait()
	}
	frames, c.queue = c.queue, nil
	for _, frame := range frames {
		size += len(frame)
	}
	return frames, size
}
