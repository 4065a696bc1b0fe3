package intercept

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	// maxPrefix limits, in bytes, the search for the method in a message: clients send
	// id, method, params, sessionId. A message whose method comes later, after large
	// params, goes to the browser.
	maxPrefix    = 16 << 10
	maxUndecided = 64 << 10 // of an undecided message, including frame headers
	maxHandled   = 1 << 20  // of an intercepted message; a longer one goes to the browser
	firstLook    = 128      // bytes of a message that are read first

	// MaxWorkerMessage is the maximum size of a message to the worker, in bytes. Its
	// handler gets one more byte of a longer message.
	MaxWorkerMessage = 16 << 10

	minBuffer, maxBuffer = 4 << 10, 64 << 10 // of reads, in bytes
)

// errTooLong ends the connection of a client whose message is too long to be decoded.
var errTooLong = errors.New("a message is too long for the rules of the launch")

// errBrowserClosed means that the browser accepts no more data.
var errBrowserClosed = errors.New("the browser's socket is closed")

// clientStream forwards the client's frames to the browser unchanged, except for
// messages to the worker and intercepted ones. It buffers only as much of a message as
// it needs to find the recipient.
type clientStream struct {
	browser net.Conn
	calls   *Connection
	answer  func(message []byte) Answer // to a message to the worker; nil: the browser gets these messages
	onClose func()                      // called for a close frame, before the browser receives it; optional

	head      []byte // of an incomplete header
	frame     wsframe.Header
	offset    int64 // in the frame's payload
	inPayload bool  // the frame's payload is incomplete
	inMessage bool  // a message is incomplete
	recipient recipient
	unmasked  []byte // the beginning of an undecided message, or all of one that is not for the browser
	buffered  []byte // an undecided or intercepted message, as received
	nextLook  int    // length of unmasked at which an undecided message is looked at again
	control   []byte // a control frame, as received
	out       []byte // bytes for the browser from the last read
	tapped    messageCopy
	backlog   backlog // what the client has sent during a handover

	hasLeft atomic.Bool // the client has sent a close frame, or what it sends has ended
}

// process processes the next bytes of the client and forwards the browser's part.
func (b *clientStream) process(p []byte) error {
	b.out = b.out[:0]
	for len(p) > 0 {
		if b.atMessageStart() && b.calls.Held() != nil {
			b.backlog.add(p)
			break
		}
		if !b.inPayload {
			n, err := b.readHeader(p)
			if err != nil {
				return err
			}
			p = p[n:]
		}
		if b.inPayload {
			n := min(b.frame.Payload-b.offset, int64(len(p)))
			if err := b.readPayload(p[:n]); err != nil {
				return err
			}
			p = p[n:]
			b.offset += n
			if b.offset == b.frame.Payload {
				if err := b.endFrame(); err != nil {
					return err
				}
			}
		}
	}
	return b.flush()
}

// flush sends the bytes for the browser.
func (b *clientStream) flush() error {
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
		b.recipient, b.nextLook = undecided, 0
	case h.Opcode == wsframe.Binary:
		b.recipient = forBrowser
	}
	if !b.inMessage {
		b.tapped.begin()
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
	case undecided, intercepted:
		b.buffered = append(b.buffered, raw...)
	}
}

func (b *clientStream) readPayload(p []byte) error {
	if b.frame.Control() {
		b.control = append(b.control, p...)
		return nil
	}
	offset := b.offset
	b.tapped.add(&b.frame, p, offset)
	for len(p) > 0 {
		n := b.unmask(p, offset)
		b.bufferOrForward(p[:n])
		p, offset = p[n:], offset+int64(n)
		switch {
		case b.recipient == undecided && len(b.unmasked) >= b.nextLook:
			b.classifyMessage()
		case b.recipient == intercepted && len(b.unmasked) > b.calls.maxDecoded():
			if b.calls.calls.examinesAll() {
				return errTooLong
			}
			b.setRecipient(forBrowser)
		}
	}
	return nil
}

// unmask unmasks as much of p, at this offset of the payload, as is needed next, and
// returns how much of p it has used.
func (b *clientStream) unmask(p []byte, offset int64) int {
	n, limit := len(p), 0
	switch b.recipient {
	case undecided:
		n = min(n, max(firstLook, len(b.unmasked)))
		limit = n
	case intercepted:
		limit = min(n, b.calls.maxDecoded()+1-len(b.unmasked))
	case forWorker, aboutHandover:
		limit = min(n, MaxWorkerMessage+1-len(b.unmasked))
	}
	b.unmasked = b.frame.Unmask(b.unmasked, p[:limit], offset)
	return n
}

// classifyMessage looks for the method of an undecided message. It looks again only when much
// more of the message has arrived.
func (b *clientStream) classifyMessage() {
	b.nextLook = len(b.unmasked) + len(b.unmasked)/8
	v := b.calls.classify(b.unmasked[:min(len(b.unmasked), maxPrefix)])
	if v == undecided && (len(b.unmasked) >= maxPrefix || len(b.buffered) >= maxUndecided) {
		v = forBrowser
		if b.calls.calls.examinesAll() {
			v = intercepted
		}
	}
	b.setRecipient(v)
}

// setRecipient sets the recipient of a message.
func (b *clientStream) setRecipient(v recipient) {
	if v == forWorker && b.answer == nil {
		v = forBrowser
	}
	b.recipient = v
	switch v {
	case forBrowser:
		b.out = append(b.out, b.buffered...)
		b.unmasked, b.buffered = b.unmasked[:0], b.buffered[:0]
	case forWorker, aboutHandover:
		b.buffered = b.buffered[:0]
	}
}

// endFrame handles the end of a frame.
func (b *clientStream) endFrame() error {
	b.inPayload = false
	if b.frame.Control() {
		// The browser has received nothing of a buffered message, so this can go first.
		b.forwardControl(b.frame.Opcode, b.control)
		return nil
	}
	if b.recipient == undecided && (b.frame.Final || len(b.buffered) >= maxUndecided) { // or too many empty frames
		b.classifyMessage()
	}
	if !b.frame.Final {
		return nil
	}
	b.inMessage = false
	b.tapped.end()
	return b.endMessage()
}

// endMessage handles the end of a message.
func (b *clientStream) endMessage() (err error) {
	switch b.recipient {
	case undecided:
		if b.calls.calls.examinesAll() {
			return b.calls.send(b.calls.refuseUnclear())
		}
		b.setRecipient(forBrowser)
	case forWorker:
		err = b.calls.reply(b.answer(b.unmasked))
	case aboutHandover:
		err = b.calls.answerHandover(b.unmasked)
	case intercepted:
		forward, answer := b.calls.handle(b.unmasked)
		switch {
		case answer != nil:
			err = b.calls.send(answer)
		case forward != nil:
			b.out = append(b.out, wsframe.FromClient(wsframe.Text, forward)...)
		default:
			b.out = append(b.out, b.buffered...)
		}
	}
	b.unmasked, b.buffered = b.unmasked[:0], b.buffered[:0]
	return err
}

// Run forwards what the client sends until it disconnects, and returns why it ended:
// io.EOF, errBrowserClosed, wsframe.ErrProtocol or another error of a connection.
func (b *clientStream) Run(client *ws.Raw) error {
	if err := b.process(client.Early); err != nil {
		return err
	}
	for buffer := newBuffer(); ; {
		if !b.backlog.empty() {
			if err := b.hold(client.Conn, buffer); err != nil {
				return err
			}
			continue
		}
		n, err := client.Conn.Read(buffer)
		if failed := b.process(buffer[:n]); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
		buffer = grow(buffer, n)
	}
}

func newBuffer() []byte { return make([]byte, minBuffer) }

// grow returns a larger buffer if a read of n bytes has filled it: most connections carry
// only short messages.
func grow(buffer []byte, n int) []byte {
	if n < len(buffer) || n >= maxBuffer {
		return buffer
	}
	return make([]byte, 2*n)
}
