package launchsock

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

// maxPending bounds the answers that wait for the browser to finish a message,
// in bytes.
const maxPending = 1 << 20

var errTooManyAnswers = errors.New("too many answers wait")

// browserStream is the way to the client: the browser's frames, unchanged, and between
// its messages the worker's own.
type browserStream struct {
	conn net.Conn

	mu      sync.Mutex
	frames  frameTracker
	pending []byte // frames that wait for the end of the browser's message
	closed  bool   // a close frame has been sent
}

// forward passes bytes of the browser on.
func (o *browserStream) forward(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	free, err := o.frames.process(p)
	if err != nil {
		return err
	}
	if len(o.pending) == 0 || free < 0 {
		_, err = o.conn.Write(p)
	} else {
		parts := net.Buffers{p[:free], o.pending, p[free:]}
		_, err = parts.WriteTo(o.conn)
		o.pending = nil
	}
	o.closed = o.closed || err != nil // inMessage a frame, perhaps
	return err
}

// remaining is how much of the frame under way is still to come.
func (o *browserStream) remaining() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.frames.remaining
}

// forwardPayload passes n bytes of the payload under way on, which the kernel moves.
// Nothing can be put in meanwhile.
func (o *browserStream) forwardPayload(from io.Reader, n int64) error {
	moved, err := io.CopyN(o.conn, from, n)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames.skip(moved)
	o.closed = o.closed || err != nil
	if err == nil && o.frames.atMessageBoundary() && len(o.pending) > 0 {
		_, err = o.conn.Write(o.pending)
		o.pending = nil
	}
	return err
}

// send sends a message of the worker's own, at once or as soon as the browser's
// message under way is over.
func (o *browserStream) send(message []byte) error {
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
	_, err := o.conn.Write(wsframe.FromServer(wsframe.Text, message))
	return err
}

// sendClose sends a close frame, unless one was sent or the browser broke off
// within a frame.
func (o *browserStream) sendClose(status uint16, reason string) {
	_ = o.conn.SetWriteDeadline(time.Now().Add(closeTimeout)) // also of a write that holds the lock
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.frames.closing || !o.frames.atFrameBoundary() {
		return
	}
	o.closed = true
	_, _ = o.conn.Write(wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(status, reason)))
}
