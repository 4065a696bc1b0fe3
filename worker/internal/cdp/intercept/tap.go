package intercept

import (
	"bytes"

	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// The beginning of messages that an observer gets, in bytes.
const (
	maxTappedCommand = 32 << 10
	maxTappedAnswer  = 4 << 10
	tapLook          = 40 // shows whether a message of the browser is for the observer
)

// Chromium writes the members of its messages in this order.
var (
	answerStart   = []byte(`{"id":`)
	attachedStart = []byte(`{"method":"Target.attachedToTarget"`)
)

// Tap returns the place where an observer gets the commands of clients.
func (c *Calls) Tap() *tap.Tap {
	if c == nil {
		return nil
	}
	return &c.tapped
}

// messageCopy copies the beginning of each message of one direction for the observer.
type messageCopy struct {
	connection *Connection
	kind       tap.Kind // Command for the client's messages, Answer for the browser's
	active     bool
	data       []byte
	size       int
}

// begin begins a message.
func (m *messageCopy) begin() {
	m.active = m.connection != nil && m.connection.Client != nil && m.connection.calls.Tap().Active()
	m.data, m.size = nil, 0
}

// add adds a part of a payload. h is the header of a masked frame, or nil.
func (m *messageCopy) add(h *wsframe.Header, p []byte, offset int64) {
	if !m.active {
		return
	}
	limit := maxTappedCommand
	if m.kind == tap.Answer {
		limit = maxTappedAnswer
	}
	part := p[:min(len(p), max(limit-len(m.data), 0))]
	if h != nil {
		m.data = h.Unmask(m.data, part, offset)
	} else {
		m.data = append(m.data, part...)
	}
	if m.size += len(p); m.kind == tap.Answer && m.size >= tapLook && m.kindOf() == tap.Command {
		m.active, m.data = false, nil
	}
}

// kindOf returns the kind of a message of the browser; Command for one that the observer does not get.
func (m *messageCopy) kindOf() tap.Kind {
	switch {
	case bytes.HasPrefix(m.data, answerStart):
		return tap.Answer
	case bytes.HasPrefix(m.data, attachedStart):
		return tap.Event
	}
	return tap.Command
}

// end sends the message.
func (m *messageCopy) end() {
	if !m.active {
		return
	}
	m.active = false
	kind := m.kind
	if kind == tap.Answer {
		if kind = m.kindOf(); kind == tap.Command {
			return
		}
	}
	m.connection.calls.Tap().Send(tap.Record{Client: m.connection.Client, Kind: kind, Data: m.data, Size: m.size})
	m.data = nil
}

// send sends an answer of the worker to the client.
func (n *Connection) send(answer []byte) error {
	n.observeMessage(tap.Answer, func() []byte { return answer })
	return n.Reply(answer)
}

// observeMessage gives a complete message to the observer.
func (n *Connection) observeMessage(kind tap.Kind, payload func() []byte) {
	m := messageCopy{connection: n, kind: kind}
	if m.begin(); m.active {
		m.add(nil, payload(), 0)
		m.end()
	}
}
