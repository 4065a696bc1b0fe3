package intercept

import (
	"bytes"
	"slices"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// backlog keeps the frames that a client sends during a handover, unchanged and in
// order. It begins at the start of a message.
type backlog struct {
	raw       []byte
	message   int  // offset of the message that next belongs to
	next      int  // offset of the first frame that was not looked at
	inMessage bool // next continues a message
}

func (l *backlog) empty() bool  { return len(l.raw) == 0 }
func (l *backlog) add(p []byte) { l.raw = append(l.raw, p...) }

// take removes and returns everything.
func (l *backlog) take() []byte {
	raw := l.raw
	*l = backlog{}
	return raw
}

// pop removes and returns the next complete control frame or message to the worker.
func (l *backlog) pop() (m wsframe.Message, found recipient, err error) {
	for {
		h, size, err := wsframe.ReadHeader(l.raw[l.next:])
		if err != nil || size == 0 || h.Payload > int64(len(l.raw)-l.next-size) {
			return wsframe.Message{}, undecided, err
		}
		if !h.Masked || !h.Control() && l.inMessage != (h.Opcode == wsframe.Continuation) {
			return wsframe.Message{}, undecided, wsframe.ErrProtocol
		}
		end := l.next + size + int(h.Payload)
		if h.Control() {
			return wsframe.Message{Opcode: h.Opcode, Raw: l.cut(l.next, end)}, forBrowser, nil
		}
		if !l.inMessage {
			l.message = l.next
		}
		l.next, l.inMessage = end, !h.Final
		if l.inMessage {
			continue
		}
		if found := recipientOfMessage(l.raw[l.message:end]); found != forBrowser {
			l.next = l.message
			return wsframe.Message{Opcode: wsframe.Text, Raw: l.cut(l.message, end)}, found, nil
		}
	}
}

// cut removes and returns a part.
func (l *backlog) cut(start, end int) []byte {
	part := bytes.Clone(l.raw[start:end])
	l.raw = slices.Delete(l.raw, start, end)
	return part
}

// recipientOfMessage returns forWorker or aboutHandover for the frames of a message to
// the worker, and forBrowser for others.
func recipientOfMessage(raw []byte) recipient {
	if raw[0]&0x0F != wsframe.Text || len(raw) > 2*MaxWorkerMessage {
		return forBrowser
	}
	payload := wsframe.Message{Raw: raw}.Payload()
	if v := classify(payload[:min(len(payload), maxPrefix)]); v == forWorker || v == aboutHandover {
		return v
	}
	return forBrowser
}
