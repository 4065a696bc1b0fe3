package resume

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	// parting is how long a socket that has ended may take to say so, and its
	// client to agree.
	parting = time.Second

	batchSize = 256 << 10 // what is written at once, in bytes, unless a single message is bigger
)

// socket is one of a client's, the connection's or one that was.
type socket struct {
	conn *Conn
	raw  *ws.Raw

	read, written atomic.Int64 // bytes

	// Under the connection's lock:
	bye      *goodbye // to say
	gone     bool     // nobody hears a goodbye
	greeting []byte   // the worker's first message, until it is given
	acked    bool     // an acknowledgement is to be answered
	ping     []byte   // the payload of the last one, to be answered
}

// Serve lets a client that has received so many messages go on with the
// connection until its socket ends, which may be at once, with the reason. It
// returns what was moved, in bytes.
func (c *Conn) Serve(client *ws.Raw, received int64) (toBrowser, toClient int64) {
	defer func() { _ = client.Conn.Close() }()
	s := &socket{conn: c, raw: client}
	if g := c.attach(s, received); g != nil {
		part(client.Conn, *g)
		discard(client.Conn)
		return 0, 0
	}
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		s.listen()
	}()
	s.talk()
	<-listened
	return s.read.Load(), s.written.Load()
}

// dismiss makes the socket end with a goodbye; called.
func (s *socket) dismiss(g goodbye) {
	if s.bye == nil {
		s.bye = &g
		_ = s.raw.Conn.SetDeadline(time.Now().Add(parting))
	}
}

// listen takes what the client says until its socket ends.
func (s *socket) listen() {
	frames := wsframe.NewReader(io.MultiReader(bytes.NewReader(s.raw.Early), s.raw.Conn), true, s.conn.limit)
	for {
		m, err := frames.Next()
		if err != nil {
			s.fail(err)
			return
		}
		s.read.Add(int64(len(m.Raw)))
		switch m.Opcode {
		case wsframe.Close:
			if g := goodbyeOf(m); g.meant() {
				s.conn.end(s, g)
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
				s.conn.take(s, m.Raw)
			}
		}
	}
}

// fail ends a socket that nothing more can be read from. What breaks the
// protocol would break it again.
func (s *socket) fail(err error) {
	switch {
	case errors.Is(err, wsframe.ErrProtocol):
		s.conn.end(s, byeProtocol)
		discard(s.raw.Conn)
	case errors.Is(err, wsframe.ErrTooBig):
		s.conn.end(s, byeTooBig)
		discard(s.raw.Conn)
	}
	s.conn.detach(s, nil)
}

// talk gives the client what there is for it, until its socket ends or a goodbye
// is said.
func (s *socket) talk() {
	batch := make([][]byte, 0, 16)
	for {
		frames, upTo := s.conn.next(s, batch[:0])
		if len(frames) == 0 {
			break
		}
		buffers := net.Buffers(frames)
		n, err := buffers.WriteTo(s.raw.Conn)
		batch = frames
		s.written.Add(n)
		if err != nil {
			_ = s.raw.Conn.Close() // within a frame, perhaps
			return
		}
		s.conn.given(s, upTo)
	}
	if g := s.goodbye(); g != nil {
		part(s.raw.Conn, *g)
	} else {
		_ = s.raw.Conn.Close()
	}
}

func (s *socket) goodbye() *goodbye {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.bye
}

// next waits for frames for a socket; none when it is to end. upTo is the number
// of the last of the browser's messages among them.
func (c *Conn) next(s *socket, batch [][]byte) (frames [][]byte, upTo int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !s.gone && s.bye == nil {
		if s.greeting != nil {
			batch = append(batch, s.greeting)
		}
		if s.acked {
			batch = append(batch, counts(ackedMethod, c.received, c.kept.last()))
		}
		if s.ping != nil {
			batch = append(batch, wsframe.FromServer(wsframe.Pong, s.ping))
		}
		s.greeting, s.acked, s.ping = nil, false, nil
		own := len(batch)
		batch = c.kept.after(c.sent, batchSize, batch)
		if len(batch) > 0 {
			return batch, c.sent + int64(len(batch)-own)
		}
		if c.last != nil {
			s.bye = c.last
			break
		}
		c.changed.Wait()
	}
	return nil, 0
}

// given notes what a socket was given.
func (c *Conn) given(s *socket, upTo int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == s && c.bye == nil {
		c.unsent -= c.kept.size(c.sent, upTo)
		c.sent = upTo
		c.changed.Broadcast()
	}
}

// part says goodbye and sends nothing more. What the client sends must be read
// until it agrees: a connection that is closed before is reset, and the goodbye
// lost.
func part(conn net.Conn, g goodbye) {
	_ = conn.SetDeadline(time.Now().Add(parting))
	_, _ = conn.Write(g.frame())
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// discard reads until the client closes or its time is over.
func discard(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
