package httpd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// limitedListener is a listener with a maximum number of open connections;
// further connections wait in the accept queue. An upgraded connection counts
// until its handler returns.
type limitedListener struct {
	net.Listener
	slots     chan struct{} // one entry for each connection; nil for no limit
	closing   chan struct{}
	closeOnce func()
	refuse    func(refusal []byte, client net.Addr) []byte // see conn.Write
	warnFull  func()                                       // logs that the limit is reached
}

// warnInterval is the minimum time between two warnings about the limit.
const warnInterval = time.Minute

func newLimitedListener(ln net.Listener, limit int, logger *slog.Logger, refuse func([]byte, net.Addr) []byte) *limitedListener {
	l := &limitedListener{Listener: ln, closing: make(chan struct{}), refuse: refuse}
	l.closeOnce = sync.OnceFunc(func() { close(l.closing) })
	if limit > 0 {
		l.slots = make(chan struct{}, limit)
	}
	var last time.Time // used by the accepting goroutine only
	l.warnFull = func() {
		if now := time.Now(); now.Sub(last) >= warnInterval {
			last = now
			logger.Warn("connection limit reached", "limit", limit)
		}
	}
	return l
}

// Accept implements net.Listener. It waits for a free slot first.
func (l *limitedListener) Accept() (net.Conn, error) {
	release := func() {}
	if l.slots != nil {
		select {
		case l.slots <- struct{}{}:
		default:
			l.warnFull()
			select {
			case l.slots <- struct{}{}:
			case <-l.closing:
				return nil, net.ErrClosed
			}
		}
		release = sync.OnceFunc(func() { <-l.slots })
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return &conn{Conn: accepted, release: release, refuse: l.refuse}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.closeOnce()
	return l.Listener.Close()
}

// conn is one counted connection.
type conn struct {
	net.Conn
	release   func() // frees its slot, once
	refuse    func(refusal []byte, client net.Addr) []byte
	answering atomic.Bool // from the start of the handler until the response is sent
	hijacked  atomic.Bool
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// Write implements net.Conn. Anything written before a handler starts is
// net/http's error response to a malformed request, which Write replaces with the
// failure envelope.
func (c *conn) Write(p []byte) (int, error) {
	if !c.answering.Load() {
		if envelope := c.refuse(p, c.RemoteAddr()); envelope != nil {
			if _, err := c.Conn.Write(envelope); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that files are still sent with sendfile.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if writer, ok := c.Conn.(io.ReaderFrom); ok {
		return writer.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// CloseWrite lets net/http half-close the connection, so that the client can
// still read the last response.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// markIdle marks a connection that waits for its next request.
func markIdle(c net.Conn, state http.ConnState) {
	if counted, ok := c.(*conn); ok && state == http.StateIdle {
		counted.answering.Store(false)
	}
}

// trackHandlers marks connections while a handler runs, and frees the slots of
// hijacked connections when their handler returns.
func trackHandlers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.answering.Store(true)
			defer func() {
				if c.hijacked.Load() {
					c.release()
				}
			}()
		}
		next.ServeHTTP(w, r)
	})
}
