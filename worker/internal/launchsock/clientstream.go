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
	// maxPrefix limits, in bytes, the search for the method in a message: clients send
	// id, method, params, sessionId. A message whose method comes later, after large
	// params, goes to the browser.
	maxPrefix        = 4 << 10
	maxBuffered      = 64 << 10 // of an undecided message, including frame headers
	maxWorkerMessage = 16 << 10 // maximum size of a message to the worker

	bufferSize           = 64 << 10
	passthroughThreshold = 128 << 10 // the kernel copies the rest of payloads of this size
)

// clientStream forwards the client's frames to the browser unchanged, except for
// messages to the worker. It buffers only as much of a message as it needs to find
// the recipient.
type clientStream struct {
	browser net.Conn
	answer  func(message []byte) error // answers a message to the worker
	onClose func()                     // called for a close frame, before the browser receives it

	head      []byte // of an incomplete header
	frame     wsframe.Header
	offset    int64 // in the frame's payload
	inPayload bool  // the frame's payload is incomplete
	inMessage bool  // a message is incomplete
	recipient recipient
	unmasked  []byte // the beginning of an undecided message, or a complete message to the worker
	buffered  []byte // the same, as received
	control   []byte // a control frame, as received
	out       []byte // bytes for the browser from the last read

	closing atomic.Bool // the client has sent a close frame
}

// process processes the next bytes of the client and forwards the browser's part.
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

// readHeader reads as much of a header as there is and returns the number of bytes
// read.
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

// bufferOrForward buffers bytes of a message or forwards them.
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

// setRecipient sets the recipient of a message. A message that is still undecided at
// the limits goes to the browser.
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

// endFrame handles the end of a frame.
func (b *clientStream) endFrame() error {
	b.inPayload = false
	if b.frame.Control() {
		// The browser has received nothing of a buffered message, so this can go first.
		b.out = append(b.out, b.control...)
		if b.frame.Opcode == wsframe.Close {
			b.closing.Store(true)
			b.onClose()
		}
		return nil
	}
	if b.recipient == undecided && len(b.buffered) >= maxBuffered {
		b.setRecipient(undecided) // too many empty frames
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

// passthrough returns how much of the current payload can be forwarded unread.
func (b *clientStream) passthrough() int64 {
	if !b.inPayload || b.frame.Control() || b.recipient != forBrowser {
		return 0
	}
	return b.frame.Payload - b.offset
}

// run forwards what the client sends until it disconnects.
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
				return fmt.Errorf("%w: %w", errBrowserClosed, err) // or the client closed, which cannot be distinguished here
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
