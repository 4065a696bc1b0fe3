package resume

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	// closeTimeout limits how long a close handshake may take.
	closeTimeout = time.Second

	batchSize = 256 << 10 // limit of one write in bytes, unless a single message is bigger
)

// socket is a client's current or earlier socket.
type socket struct {
	conn *Conn
	raw  *ws.Raw

	// Under the connection's lock:
	reason       *closeReason // to send
	disconnected bool         // the peer has disconnected
	greeting     []byte       // the worker's first message, until sent
	acked        bool         // an acknowledgement must be answered
	ping         []byte       // payload of the last ping to answer
}

// Serve connects a client that has received this many messages until its socket
// ends, at once if the client cannot resume.
func (c *Conn) Serve(client *ws.Raw, received int64) {
	defer func() { _ = client.Conn.Close() }()
	s := &socket{conn: c, raw: client}
	if g := c.attach(s, received); g != nil {
		writeClose(client.Conn, *g)
		discard(client.Conn)
		return
	}
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		s.readClient()
	}()
	s.writeClient()
	<-listened
}

// closeWith closes the socket with a reason. The caller holds the lock.
func (s *socket) closeWith(g closeReason) {
	if s.reason == nil {
		s.reason = &g
		_ = s.raw.Conn.SetDeadline(time.Now().Add(closeTimeout))
	}
}

// readClient reads the client's messages until its socket ends.
func (s *socket) readClient() {
	frames := wsframe.NewReader(io.MultiReader(bytes.NewReader(s.raw.Early), s.raw.Conn), true, s.conn.limit)
	for {
		m, err := frames.Next()
		if err != nil {
			s.handleReadError(err)
			return
		}
		switch m.Opcode {
		case wsframe.Close:
			if g := readCloseReason(m); g.isIntentional() {
				s.conn.close(s, g)
			} else {
				s.conn.detach(s, &g)
			}
			discard(s.raw.Conn)
			s.conn.detach(s, nil)
			return
		case wsframe.Ping:
			s.conn.mu.Lock()
			s.ping = m.Payload()
			s.conn.changed.Broadcast()
			s.conn.mu.Unlock()
		case wsframe.Pong:
		default:
			if seq, ok := ackOf(m); ok {
				s.conn.acknowledge(s, seq)
			} else {
				s.handleCall(m)
			}
		}
	}
}

// handleCall sends a client's message to the browser, or answers it.
func (s *socket) handleCall(m wsframe.Message) {
	forward, answer := s.conn.calls.HandleMessage(m)
	if forward == nil && answer == nil { // executed once: after it is accepted
		if s.conn.acceptClientMessage(s, nil) {
			s.conn.calls.HandleHandover(m)
		}
		return
	}
	if s.conn.acceptClientMessage(s, forward) && answer != nil {
		s.conn.bufferMessage(wsframe.FromServer(wsframe.Text, answer))
	}
}

// handleReadError handles the end of reading. Protocol errors end the
// connection, because they would occur again.
func (s *socket) handleReadError(err error) {
	switch {
	case errors.Is(err, wsframe.ErrProtocol):
		s.conn.close(s, closeProtocolError)
		discard(s.raw.Conn)
	case errors.Is(err, wsframe.ErrTooBig):
		s.conn.close(s, closeTooBig)
		discard(s.raw.Conn)
	}
	s.conn.detach(s, nil)
}

// writeClient sends messages to the client until its socket ends or is closed.
func (s *socket) writeClient() {
	batch := make([][]byte, 0, 16)
	for {
		frames, upTo := s.conn.next(s, batch[:0])
		if len(frames) == 0 {
			break
		}
		buffers := net.Buffers(frames)
		_, err := buffers.WriteTo(s.raw.Conn)
		batch = frames
		if err != nil {
			_ = s.raw.Conn.Close() // may be in the middle of a frame
			s.conn.detach(s, nil)  // readClient may be waiting for this client to read
			return
		}
		s.conn.markSent(s, upTo)
	}
	if g := s.closeReason(); g != nil {
		writeClose(s.raw.Conn, *g)
	} else {
		_ = s.raw.Conn.Close()
	}
}

func (s *socket) closeReason() *closeReason {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.reason
}

// next waits for frames for a socket; none if the socket must end. upTo is the
// number of the last browser message among them.
func (c *Conn) next(s *socket, batch [][]byte) (frames [][]byte, upTo int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !s.disconnected && s.reason == nil {
		if s.greeting != nil {
			batch = append(batch, s.greeting)
		}
		if s.acked {
			batch = append(batch, countsMessage(ackedMethod, c.received, c.buffer.last()))
		}
		if s.ping != nil {
			batch = append(batch, wsframe.FromServer(wsframe.Pong, s.ping))
		}
		s.greeting, s.acked, s.ping = nil, false, nil
		own := len(batch)
		batch = c.buffer.appendAfter(c.lastSent, batchSize, batch)
		if len(batch) > 0 {
			return batch, c.lastSent + int64(len(batch)-own)
		}
		if c.browserClose != nil {
			s.reason = c.browserClose
			break
		}
		c.changed.Wait()
	}
	return nil, 0
}

// markSent records what was sent to a socket.
func (c *Conn) markSent(s *socket, upTo int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == s && c.reason == nil {
		c.unsent -= c.buffer.size(c.lastSent, upTo)
		c.lastSent = upTo
		c.changed.Broadcast()
	}
}

// writeClose sends a close frame and nothing more. The caller must read until
// the client closes: closing earlier would reset the connection and lose the
// frame.
func writeClose(conn net.Conn, g closeReason) {
	_ = conn.SetDeadline(time.Now().Add(closeTimeout))
	_, _ = conn.Write(g.frame())
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// discard reads until the client closes or the deadline passes.
func discard(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
