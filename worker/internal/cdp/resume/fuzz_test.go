package resume

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// FuzzAck checks that accepted acknowledgements are acknowledgements according to a
// JSON decoder, and that plain ones are accepted.
func FuzzAck(f *testing.F) {
	for _, text := range []string{
		`{"method":"Svc.ack","params":{"seq":5}}`, `{"id":1,"method":"Svc.ack","params":{"seq":5}}`, `{"method":"Svc.ack"}`, `{"method":"Svc.ack","params":{"seq":-1}}`,
		`{"method":"Svc.ack","params":{"seq":1e3}}`, `{"method":"Svc.ack","params":{"seq":9223372036854775808}}`, `{"method":"Svc.ack","params":[]}`, `{"method":"Svc.ack","params":{"seq":"5"}}`,
		`{"id":null,"method":"Svc.ack"}`, `{"METHOD":"Svc.ack"}`, `[]`, ``, `{"method":"Page.enable"}`, `{"method":"Svc.ack","params":null}`,
	} {
		f.Add([]byte(text), byte(wsframe.Text), false)
		f.Add([]byte(text), byte(wsframe.Binary), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, opcode byte, inParts bool) {
		raw := wsframe.FromClient(opcode&0xF, text)
		if cut := len(text) / 2; inParts && len(text) < 126 {
			raw = append(wsframe.FromClient(opcode&0xF, text[:cut]), wsframe.FromClient(wsframe.Continuation, text[cut:])...)
		}
		seq, ok := ackOf(wsframe.Message{Opcode: opcode & 0xF, Raw: raw})
		var any struct {
			ID     json.RawMessage
			Method string
			Params struct{ Seq *json.Number }
		}
		decodes := json.Unmarshal(text, &any) == nil && any.Method == ackMethod && any.ID == nil && opcode&0xF == wsframe.Text && len(raw) <= maxAck
		if ok && !decodes {
			t.Fatalf("%q was accepted as an acknowledgement of %d", text, seq)
		}
		if !decodes {
			return
		}
		want := int64(0)
		whole := true
		if any.Params.Seq != nil {
			n, err := any.Params.Seq.Int64()
			want, whole = n, err == nil && !strings.ContainsAny(any.Params.Seq.String(), ".eE")
		}
		quoted := bytes.Contains(text, []byte(`:"`)) && bytes.Count(text, []byte(`"`)) > 8 // a json.Number may be a string
		if ok != whole && !quoted || ok && seq != want {
			t.Errorf("%q: %d, %v", text, seq, ok)
		}
	})
}

// FuzzCounters runs random steps on a connection in one goroutine: the browser sends,
// sockets connect with any count, receive, acknowledge any number and disconnect. It
// checks that a client that counts correctly gets every message once and in order, or
// an error, and that the buffer stays within its limit.
func FuzzCounters(f *testing.F) {
	f.Add([]byte{0, 10, 0, 20, 1, 0, 2, 9, 3, 1, 4, 0, 0, 5, 1, 2, 2, 9})
	f.Add([]byte{1, 0, 0, 255, 0, 255, 0, 255, 0, 255, 2, 0, 0, 255, 2, 1, 4, 0, 0, 255, 0, 255, 0, 255, 1, 3})
	f.Add([]byte{0, 1, 1, 200, 1, 1, 3, 255, 2, 1, 3, 0, 4, 0, 1, 0})
	f.Add(bytes.Repeat([]byte{1, 0, 0, 9, 2, 9, 3, 2}, 30))
	f.Add([]byte{0, 10, 1, 201})
	f.Add([]byte{1, 0, 0, 10, 2, 9, 0, 10, 2, 9})
	f.Add([]byte{0, 10, 1, 0, 2, 9, 4, 0, 1, 151, 2, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		const bound = 8 << 10
		watched := 0
		c := newConn(Browser{Watch: func(net.Conn) func() { watched++; return func() { watched-- } }}, Options{ResumeTimeout: time.Hour, Buffer: bound}, new(atomic.Int64))
		defer c.close(nil, closeShutdown)
		m := &model{t: t, conn: c}
		for len(script) >= 2 && !c.hasEnded() {
			m.step(script[0]%5, int64(script[1]))
			script = script[2:]
			if c.buffer.bytes > bound || c.buffer.dropped > c.lastSent && c.socket != nil || c.unsent < 0 || c.buffer.last() != int64(len(m.said)) && !c.hasEnded() {
				t.Fatalf("%d bytes are buffered, messages %d to %d; %d sent, %d bytes unsent", c.buffer.bytes, c.buffer.dropped, c.buffer.last(), c.lastSent, c.unsent)
			}
		}
		if c.close(nil, closeShutdown); watched != 0 {
			t.Errorf("%d clients are counted after the end", watched)
		}
	})
}

// model records the browser's messages and the client's socket.
type model struct {
	t      *testing.T
	conn   *Conn
	said   [][]byte
	socket *socket
	got    int64 // the last message that this client has received
}

func (m *model) step(kind byte, n int64) {
	c := m.conn
	switch kind {
	case 0: // the browser sends
		message := bytes.Repeat([]byte{byte(len(m.said))}, int(n)*8)
		if c.socket != nil && (c.isBehind(len(message)) || !c.buffer.fits(len(message), c.lastSent)) {
			return // the call would block
		}
		if c.bufferMessage(message); !c.hasEnded() {
			m.said = append(m.said, message)
		} else if c.reason.status != OverBound {
			m.t.Errorf("ended by a message of the browser: %v", *c.reason)
		}
	case 1: // a socket connects with the client's count or an arbitrary one
		received := m.got
		if n > 200 {
			received = n - 200 + int64(len(m.said))
		} else if n > 150 {
			received = n - 151
		}
		m.attach(received)
	case 2: // the socket receives the waiting messages, up to n of them completely
		m.receive(n)
	case 3: // the client acknowledges, possibly a wrong number
		if m.socket != nil {
			c.acknowledge(m.socket, []int64{m.got, n, -n, 1 << 62}[n%4])
		}
	case 4: // the socket disconnects
		if m.socket != nil {
			c.detach(m.socket, nil)
			m.socket = nil
		}
	}
}

func (m *model) attach(received int64) {
	c, dropped, last := m.conn, m.conn.buffer.dropped, m.conn.buffer.last()
	s := &socket{conn: c, raw: &ws.Raw{Conn: nopConn{}}}
	g := c.attach(s, received)
	switch {
	case received > last:
		if g == nil || g.status != Ahead || c.hasEnded() {
			m.t.Fatalf("a client that is ahead by %d: %v", received-last, g)
		}
	case received < dropped:
		if g == nil || g.status != OverBound || !c.hasEnded() {
			m.t.Fatalf("a client that lacks %d: %v", dropped-received, g)
		}
	case g != nil:
		m.t.Fatalf("a client that has %d of %d, from %d: %v", received, last, dropped, *g)
	default:
		m.socket, m.got = s, received
	}
}

func (m *model) receive(n int64) {
	c := m.conn
	if m.socket == nil || m.socket.disconnected || m.socket.reason != nil || m.socket.greeting == nil && !m.socket.acked && c.lastSent == c.buffer.last() {
		return // the call would block
	}
	greeted, acked := m.socket.greeting != nil, m.socket.acked
	frames, upTo := c.next(m.socket, nil)
	own := 0
	for _, does := range []bool{greeted, acked} {
		if does {
			own++
		}
	}
	if int64(len(frames)-own) != upTo-m.got {
		m.t.Fatalf("%d frames after message %d, up to %d", len(frames)-own, m.got, upTo)
	}
	for i, frame := range frames[own:] {
		if !bytes.Equal(frame, m.said[m.got+int64(i)]) {
			m.t.Fatalf("message %d has other content", m.got+int64(i)+1)
		}
	}
	if whole := m.got + min(n, upTo-m.got); whole < upTo { // cut off: the client has received fewer messages than were sent
		c.detach(m.socket, nil)
		m.socket, m.got = nil, whole
		return
	}
	c.markSent(m.socket, upTo)
	m.got = upTo
}

// nopConn is a connection whose methods have no effect.
type nopConn struct{ net.Conn }

func (nopConn) SetDeadline(time.Time) error { return nil }
