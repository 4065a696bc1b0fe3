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
	maxPrefix = 4 << 10
	maxHeld   = 64 << 10 // of a message that is being looked into, with its frames' headers
	maxOurs   = 16 << 10 // the longest message to the worker

	bufferSize = 64 << 10
	bulk       = 128 << 10 // from here on the rest of a payload is left to the kernel
)

// inbox is the way from the client: its frames go to the browser unchanged, but
// for the messages to the worker. Of a message only as much is held back as it
// takes to tell whose it is.
type inbox struct {
	browser net.Conn
	answer  func(message []byte) error // takes a message to the worker
	onClose func()                     // is called for a close frame, before the browser gets it

	head    []byte // of a header that has not come whole
	frame   wsframe.Header
	offset  int64 // into the frame's payload
	open    bool  // the frame's payload is not over
	within  bool  // a message has begun that its last frame has not ended
	whose   verdict
	clear   []byte // the beginning of a message, while it is looked into; all of one to the worker
	held    []byte // the same, as it came
	control []byte // a control frame, as it comes
	out     []byte // to the browser, of what was read last

	closing atomic.Bool // the client sent a close frame
}

// take takes the next bytes of the client in and passes on what is the
// browser's.
func (b *inbox) take(p []byte) error {
	b.out = b.out[:0]
	for len(p) > 0 {
		if !b.open {
			n, err := b.header(p)
			if err != nil {
				return err
			}
			p = p[n:]
		}
		if b.open {
			n := min(b.frame.Payload-b.offset, int64(len(p)))
			b.payload(p[:n])
			p = p[n:]
			b.offset += n
			if b.offset == b.frame.Payload {
				if err := b.end(); err != nil {
					return err
				}
			}
		}
	}
	if len(b.out) == 0 {
		return nil
	}
	if _, err := b.browser.Write(b.out); err != nil {
		return fmt.Errorf("%w: %w", errBrowserLeft, err)
	}
	return nil
}

// header takes in as much of a header as there is, and returns how much that is.
func (b *inbox) header(p []byte) (int, error) {
	had := len(b.head)
	b.head = append(b.head, p[:min(len(p), wsframe.MaxHeader-had)]...)
	h, size, err := wsframe.ReadHeader(b.head)
	if err != nil {
		return 0, err
	}
	if size == 0 {
		return len(b.head) - had, nil
	}
	if !h.Masked || !h.Control() && b.within != (h.Opcode == wsframe.Continuation) {
		return 0, wsframe.ErrProtocol
	}
	raw := b.head[:size]
	b.frame, b.offset, b.open = h, 0, true
	b.head = b.head[:0]
	switch {
	case h.Control():
		b.control = append(b.control[:0], raw...)
		return size - had, nil
	case h.Opcode == wsframe.Text:
		b.whose = unsure
	case h.Opcode == wsframe.Binary:
		b.whose = browsers
	}
	b.within = true
	b.keep(raw)
	return size - had, nil
}

// keep holds bytes of a message back, or passes them on.
func (b *inbox) keep(raw []byte) {
	switch b.whose {
	case browsers:
		b.out = append(b.out, raw...)
	case unsure:
		b.held = append(b.held, raw...)
	}
}

func (b *inbox) payload(p []byte) {
	if b.frame.Control() {
		b.control = append(b.control, p...)
		return
	}
	if b.whose != browsers && len(b.clear) <= maxOurs {
		b.clear = b.frame.Unmask(b.clear, p[:min(len(p), maxOurs+1-len(b.clear))], b.offset)
	}
	b.keep(p)
	if b.whose == unsure {
		b.decide(judge(b.clear[:min(len(b.clear), maxPrefix)]))
	}
}

// decide acts on a verdict; what stays unclear beyond the bounds is the
// browser's.
func (b *inbox) decide(v verdict) {
	if v == unsure && (len(b.clear) >= maxPrefix || len(b.held) >= maxHeld) {
		v = browsers
	}
	b.whose = v
	if v == browsers {
		b.out = append(b.out, b.held...)
		b.clear = b.clear[:0]
	}
	if v != unsure {
		b.held = b.held[:0]
	}
}

// end ends a frame.
func (b *inbox) end() error {
	b.open = false
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
	if b.whose == unsure && len(b.held) >= maxHeld {
		b.decide(unsure) // empty frames without end
	}
	if !b.frame.Final {
		return nil
	}
	b.within = false
	var err error
	switch b.whose {
	case unsure:
		b.decide(browsers)
	case workers:
		err = b.answer(b.clear)
		b.clear = b.clear[:0]
	}
	return err
}

// rest is how much of a payload can be passed on unread: the browser's, of a
// frame that is under way.
func (b *inbox) rest() int64 {
	if !b.open || b.frame.Control() || b.whose != browsers {
		return 0
	}
	return b.frame.Payload - b.offset
}

// run passes on what the client has said and says until it ends.
func (b *inbox) run(client *ws.Raw) error {
	if err := b.take(client.Early); err != nil {
		return err
	}
	buffer := make([]byte, bufferSize)
	for {
		if n := b.rest(); n >= bulk {
			moved, err := io.CopyN(b.browser, client.Conn, n)
			b.offset += moved
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: %w", errBrowserLeft, err) // or the client's, which looks the same from here
			}
			if err != nil {
				return err
			}
			if err := b.end(); err != nil {
				return err
			}
		}
		n, err := client.Conn.Read(buffer)
		if failed := b.take(buffer[:n]); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}
