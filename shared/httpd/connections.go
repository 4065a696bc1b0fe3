package httpd

import (
	"container/list"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// limitedListener is a listener with a maximum number of open connections;
// further connections wait in the accept queue. When it is full, connections that
// have waited for a request for some time are closed. An upgraded connection counts
// until its handler returns.
type limitedListener struct {
	net.Listener
	slots     chan struct{} // one entry for each connection; nil for no limit
	closing   chan struct{}
	closeOnce func()
	refuse    func(refusal []byte, client net.Addr) []byte // see conn.Write
	warnFull  func()                                       // logs that the limit is reached

	mu   sync.Mutex
	idle list.List // of *conn that wait for a request, the longest wait first
}

const (
	minIdle      = time.Second            // before a full listener closes a connection without a request
	idleInterval = 100 * time.Millisecond // between two searches for such a connection
)

// boundConnections returns the limit of connections, at most half of the limit of open files:
// the other half is for everything else. 0 is no limit. The Go runtime has raised the soft
// limit to the hard one.
func boundConnections(limit int, logger *slog.Logger) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return limit
	}
	bound := int(min(files.Cur/2, math.MaxInt32))
	switch {
	case limit == 0 && bound == math.MaxInt32, limit > 0 && limit <= bound:
		return limit
	case limit > 0:
		logger.Warn("the limit of open files is too low for the limit of connections: raise it (ulimit -Hn, LimitNOFILE, --ulimit nofile)",
			"files", files.Cur, "connections", limit, "bound", bound)
	}
	return bound
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
		if !l.acquireSlot() {
			return nil, net.ErrClosed
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

// acquireSlot waits for a free slot. It returns false when the listener is closed.
func (l *limitedListener) acquireSlot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
		l.warnFull()
	}
	search := time.NewTicker(idleInterval)
	defer search.Stop()
	for {
		select {
		case l.slots <- struct{}{}:
			return true
		case <-l.closing:
			return false
		case <-search.C:
			l.closeIdle()
		}
	}
}

// closeIdle closes the connections that have waited for a request for at least minIdle.
func (l *limitedListener) closeIdle() {
	limit := time.Now().Add(-minIdle)
	var waiting []*conn
	l.mu.Lock()
	for e := l.idle.Front(); e != nil && !e.Value.(*conn).idleSince.After(limit); e = e.Next() {
		waiting = append(waiting, e.Value.(*conn))
	}
	l.mu.Unlock()
	for _, c := range waiting {
		_ = c.Close()
	}
}

// trackState records which connections wait for a request.
func (l *limitedListener) trackState(accepted net.Conn, state http.ConnState) {
	c, ok := accepted.(*conn)
	if !ok {
		return
	}
	if state == http.StateIdle {
		c.answering.Store(false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.idle != nil {
		l.idle.Remove(c.idle)
		c.idle = nil
	}
	if state == http.StateNew || state == http.StateIdle {
		c.idleSince = time.Now()
		c.idle = l.idle.PushBack(c)
	}
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

	idle      *list.Element // of limitedListener.idle; nil while a request is read or answered
	idleSince time.Time
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
