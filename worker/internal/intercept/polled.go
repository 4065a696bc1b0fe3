package intercept

import (
	"bytes"
	"fmt"
	"net"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// Polled is a connection of an event loop (package eventloop). Small messages are forwarded
// on its thread, without a switch of goroutines. What may take time is done as for other
// connections: calls that the worker handles, and waiting for a slow reader.
type Polled interface {
	net.Conn
	// Poll calls handle, which must not block, on the thread with what was read. handle
	// returns how much of it was handled. Poll returns the rest when handle wants no more.
	Poll(handle func(p []byte) (handled int, more bool)) (rest []byte, err error)
	// TryWrite writes as much as is possible without waiting.
	TryWrite(p []byte) (int, error)
}

func polled(from, to net.Conn) (polledFrom, polledTo Polled, ok bool) {
	polledFrom, fromOK := from.(Polled)
	polledTo, toOK := to.(Polled)
	return polledFrom, polledTo, fromOK && toOK
}

// runPolled is Run for connections of an event loop.
func (b *ClientStream) runPolled(client, browser Polled) error {
	var buffer []byte
	for {
		if !b.held.empty() {
			if buffer == nil {
				buffer = make([]byte, bufferSize)
			}
			if err := b.hold(client, buffer); err != nil {
				return err
			}
			continue
		}
		var partial bool
		var failed error
		rest, err := client.Poll(func(p []byte) (int, bool) {
			if !b.areForBrowser(p) {
				return 0, false
			}
			n, err := browser.TryWrite(p)
			failed, partial = err, n < len(p)
			return n, n == len(p) && err == nil
		})
		switch {
		case failed != nil:
			return fmt.Errorf("%w: %w", ErrBrowserClosed, failed)
		case partial:
			b.out = append(b.out[:0], rest...)
			failed = b.flush()
		default:
			failed = b.process(rest)
		}
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}

// areForBrowser reports whether these are complete messages for the browser, and no other
// is incomplete.
func (b *ClientStream) areForBrowser(p []byte) bool {
	if !b.atMessageStart() || b.calls.Held() != nil {
		return false
	}
	for len(p) > 0 {
		h, size, err := wsframe.ReadHeader(p)
		if err != nil || size == 0 || !h.Masked || !h.Final || h.Opcode != wsframe.Text || h.Payload > int64(len(p)-size) {
			return false
		}
		end := size + int(h.Payload)
		first := h.Unmask(b.unmasked[:0], p[size:min(end, size+firstLook)], 0)
		b.unmasked = first[:0]
		if b.calls.classify(first) != forBrowser {
			return false
		}
		p = p[end:]
	}
	return true
}

// runPolled is Run for connections of an event loop.
func (o *BrowserStream) runPolled(browser, client Polled) error {
	for {
		var failed error
		rest, err := browser.Poll(func(p []byte) (handled int, more bool) {
			handled, more, failed = o.tryForward(client, p)
			return handled, more
		})
		if failed == nil {
			failed = o.forward(rest)
		}
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}

// tryForward forwards bytes of the browser. If that may take time, it handles none or leaves
// their end in unsent, and wants no more.
func (o *BrowserStream) tryForward(client Polled, p []byte) (handled int, more bool, err error) {
	if !o.mu.TryLock() {
		return 0, false, nil
	}
	defer o.mu.Unlock()
	if len(o.pending) > 0 || len(o.unsent) > 0 || o.frames.observes() {
		return 0, false, nil
	}
	if _, err := o.frames.process(p); err != nil {
		return 0, false, err
	}
	if o.mustAwaitEnd() {
		o.unsent = bytes.Clone(p)
		return len(p), false, nil
	}
	n, err := client.TryWrite(p)
	if n < len(p) {
		o.unsent = bytes.Clone(p[n:])
	}
	o.closed = o.closed || err != nil
	return len(p), n == len(p) && err == nil, err
}
