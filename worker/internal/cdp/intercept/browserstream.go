package intercept

import (
	"errors"
	"net"
	"sync"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// maxPending limits the answers, in bytes, that wait for the end of a browser message.
const maxPending = 1 << 20

// errTooManyAnswers is returned to a client that calls the worker without reading.
var errTooManyAnswers = errors.New("too many pending answers")

// browserStream forwards the browser's frames to the client unchanged, and inserts
// the worker's messages between the browser's messages.
type browserStream struct {
	// beforeEnd is called once, before the client gets the browser's close frame, or its
	// answer to Browser.close if it has accepted that. Until it returns, the client gets
	// nothing. Optional.
	beforeEnd func(closeAccepted bool)

	conn net.Conn

	mu            sync.Mutex
	frames        frameTracker
	held          []byte // of the browser's current message, if the client may not get it
	pending       []byte // frames to send after the browser's current message
	closed        bool   // a close frame was sent
	closeAccepted bool   // by the browser
	endAwaited    bool   // beforeEnd was called
}

// forward forwards bytes of the browser.
func (o *browserStream) forward(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) > 0 || o.frames.awaited != nil && o.frames.awaited() {
		return o.screen(p)
	}
	free, err := o.frames.process(p)
	if err != nil {
		return err
	}
	if len(o.pending) == 0 || free < 0 {
		err = o.write(p)
	} else {
		err = o.write(p[:free], o.pending, p[free:])
		o.pending = nil
	}
	o.closed = o.closed || err != nil // the error may be within a frame
	return err
}

// screen is forward without the messages that the client must not get. The caller holds the
// lock.
func (o *browserStream) screen(p []byte) (err error) {
	for len(p) > 0 && err == nil {
		var n int
		if n, err = o.frames.step(p); err != nil {
			return err
		}
		o.held, p = append(o.held, p[:n]...), p[n:]
		if o.frames.isUndecided() {
			continue
		}
		if o.frames.hidden {
			o.held = nil
		}
		if o.frames.atMessageBoundary() {
			o.held, o.pending = append(o.held, o.pending...), nil
		}
		if len(o.held) > 0 {
			err = o.write(o.held)
		}
		o.held = nil
	}
	o.closed = o.closed || err != nil // the error may be within a frame
	return err
}

// mustAwaitEnd reports whether beforeEnd must be called.
func (o *browserStream) mustAwaitEnd() bool {
	return o.beforeEnd != nil && !o.endAwaited && (o.closeAccepted || o.frames.closing)
}

// write writes to the client. The caller holds the lock.
func (o *browserStream) write(parts ...[]byte) (err error) {
	if o.mustAwaitEnd() {
		o.endAwaited = true
		o.beforeEnd(o.closeAccepted)
	}
	if len(parts) == 1 {
		_, err = o.conn.Write(parts[0])
		return err
	}
	all := net.Buffers(parts)
	_, err = all.WriteTo(o.conn)
	return err
}

// Send sends a message of the worker, immediately or after the browser's current
// message.
func (o *browserStream) Send(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.frames.closing || o.closed {
		return nil
	}
	if !o.frames.atMessageBoundary() {
		if len(o.pending)+len(message) > maxPending {
			return errTooManyAnswers
		}
		o.pending = append(o.pending, wsframe.FromServer(wsframe.Text, message)...)
		return nil
	}
	return o.write(wsframe.FromServer(wsframe.Text, message))
}

// sendClose sends a close frame, unless one was sent or the browser stopped within a
// frame. The write deadline also ends a write that holds the lock.
func (o *browserStream) sendClose(status uint16, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.frames.closing || !o.frames.atFrameBoundary() {
		return
	}
	o.closed = true
	_ = o.write(wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(status, reason)))
}

// Run forwards what the browser sends until it disconnects.
func (o *browserStream) Run(up *ws.Raw) error {
	if err := o.forward(up.Early); err != nil {
		return err
	}
	for buffer := newBuffer(); ; {
		n, err := up.Conn.Read(buffer)
		if n > 0 {
			if failed := o.forward(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
		buffer = grow(buffer, n)
	}
}
