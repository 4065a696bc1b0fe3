package launchsock

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	// maxPrefix is how far into a message its method is looked for, in bytes:
	// clients send id, method, params, sessionId. A message whose method comes
	// later, after big params, is the browser's.
	maxPrefix        = 4 << 10
	maxBuffered      = 64 << 10 // of a message that is being looked into, with its frames' headers
	maxWorkerMessage = 16 << 10 // the longest message to the worker

	bufferSize           = 64 << 10
	passthroughThreshold = 128 << 10 // from here on the rest of a payload is left to the kernel
)

// clientStream is the way from the client: its frames go to the browser unchanged, but
// for the messages to the worker. Of a message only as much is held back as it
// takes to tell whose it is.
type clientStream struct {
	browser net.Conn
	answer  func(message []byte) error // takes a message to the worker
	onClose func()                     // is called for a close frame, before the browser gets it

	head      []byte // of a header that has not come whole
	frame     wsframe.Header
	offset    int64 // into the frame's payload
	inPayload bool  // the frame's payload is not over
	inMessage bool  // a message has begun that its last frame has not ended
	recipient recipient
	unmasked  []byte // the beginning of a message, while it is looked into; all of one to the worker
	buffered  []byte // the same, as it came
	control   []byte // a control frame, as it comes
	out       []byte // to the browser, of what was read last

	closing atomic.Bool // the client sent a close frame
}

// process takes the next bytes of the client in and passes on what is the
// browser's.
func (b *clientStream) process(p []byte) error {
	b.out = b.out[:0]
	for len(p) > 0 {
		if !b.inPayload {
			n, err := b.readHeader(p)
			if err != nil {
				return err
			}
			p = p[n:]
		}
		if b.inPayload {
			n := min(b.frame.Payload-b.offset, int64(len(p)))
			b.readPayload(p[:n])
			p = p[n:]
			b.offset += n
			if b.offset == b.frame.Payload {
				if err := b.endFrame(); err != nil {
					return err
				}
			}
		}
	}
	if len(b.out) == 0 {
		return nil
	}
	if _, err := b.browser.Write(b.out); err != nil {
		return fmt.Errorf("%w: %w", errBrowserClosed, err)
	}
	return nil
}

// readHeader takes in as much of a header as there is, and returns how much that is.
func (b *clientStream) readHeader(p []byte) (int, error) {
	had := len(b.head)
	b.head = append(b.head, p[:min(len(p), wsframe.MaxHeader-had)]...)
	h, size, err := wsframe.ReadHeader(b.head)
	if err != nil {
		return 0, err
	}
	if size == 0 {
		return len(b.head) - had, nil
	}
	if !h.Masked || !h.Control() && b.inMessage != (h.Opcode == wsframe.Continuation) {
		return 0, wsframe.ErrProtocol
	}
	raw := b.head[:size]
	b.frame, b.offset, b.inPayload = h, 0, true
	b.head = b.head[:0]
	switch {
	case h.Control():
		b.control = append(b.control[:0], raw...)
		return size - had, nil
	case h.Opcode == wsframe.Text:
		b.recipient = undecided
	case h.Opcode == wsframe.Binary:
		b.recipient = forBrowser
	}
	b.inMessage = true
	b.bufferOrForward(raw)
	return size - had, nil
}

// bufferOrForward holds bytes of a message back, or passes them on.
func (b *clientStream) bufferOrForward(raw []byte) {
	switch b.recipient {
	case forBrowser:
		b.out = append(b.out, raw...)
	case undecided:
		b.buffered = append(b.buffered, raw...)
	}
}

func (b *clientStream) readPayload(p []byte) {
	if b.frame.Control() {
		b.control = append(b.control, p...)
		return
	}
	if b.recipient != forBrowser && len(b.unmasked) <= maxWorkerMessage {
		b.unmasked = b.frame.Unmask(b.unmasked, p[:min(len(p), maxWorkerMessage+1-len(b.unmasked))], b.offset)
	}
	b.bufferOrForward(p)
	if b.recipient == undecided {
		b.setRecipient(classify(b.unmasked[:min(len(b.unmasked), maxPrefix)]))
	}
}

// setRecipient acts on a verdict; what stays unclear beyond the bounds is the
// browser's.
func (b *clientStream) setRecipient(v recipient) {
	if v == undecided && (len(b.unmasked) >= maxPrefix || len(b.buffered) >= maxBuffered) {
		v = forBrowser
	}
	b.recipient = v
	if v == forBrowser {
		b.out = append(b.out, b.buffered...)
		b.unmasked = b.unmasked[:0]
	}
	if v != undecided {
		b.buffered = b.buffered[:0]
	}
}

// endBrowser ends a frame.
func (b *clientStream) endFrame() error {
	b.inPayload = false
	if b.frame.Control() {
		// Of a message that is held back the browser has nothing yet: this goes
		// first.
		b.out = append(b.out, b.control...)
		if b.frame.Opcode == wsframe.Close {
			b.closing.Store(true)
			b.onClose()
		}
		return nil
	}
	if b.recipient == undecided && len(b.buffered) >= maxBuffered {
		b.setRecipient(undecided) // empty frames without end
	}
	if !b.frame.Final {
		return nil
	}
	b.inMessage = false
	var err error
	switch b.recipient {
	case undecided:
		b.setRecipient(forBrowser)
	case forWorker:
		err = b.answer(b.unmasked)
		b.unmasked = b.unmasked[:0]
	}
	return err
}

// passthrough is how much of a payload can be passed on unread: the browser's, of a
// frame that is under way.
func (b *clientStream) passthrough() int64 {
	if !b.inPayload || b.frame.Control() || b.recipient != forBrowser {
		return 0
	}
	return b.frame.Payload - b.offset
}

// run passes on what the client has said and says until it ends.
func (b *clientStream) run(client *ws.Raw) error {
	if err := b.process(client.Early); err != nil {
		return err
	}
	buffer := make([]byte, bufferSize)
	for {
		if n := b.passthrough(); n >= passthroughThreshold {
			moved, err := io.CopyN(b.browser, client.Conn, n)
			b.offset += moved
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: %w", errBrowserClosed, err) // or the client's, which looks the same from here
			}
			if err != nil {
				return err
			}
			if err := b.endFrame(); err != nil {
				return err
			}
		}
		n, err := client.Conn.Read(buffer)
		if failed := b.process(buffer[:n]); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}
