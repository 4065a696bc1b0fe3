package browser

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// egressHeader limits how long a connection may take to show what it is for.
const egressHeader = 30 * time.Second

// egressListener accepts the connections of a server to the browser's debugging server.
// Others on the same port are for the browser's proxy: requests with an absolute URL, and
// CONNECT. They are connected with the proxy inside the browser's network.
type egressListener struct {
	net.Listener
	b        *Browser
	accepted chan net.Conn
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

func newEgressListener(listener net.Listener, b *Browser) *egressListener {
	l := &egressListener{Listener: listener, b: b, accepted: make(chan net.Conn)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(l.accept)
	return l
}

// Accept implements net.Listener.
func (l *egressListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It waits for the end of all connections with the proxy.
func (l *egressListener) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.work.Wait()
	return err
}

func (l *egressListener) accept() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.cancel()
			return
		}
		l.work.Go(func() { l.assign(conn) })
	}
}

// assign gives a connection to the debugging server or to the proxy.
func (l *egressListener) assign(conn net.Conn) {
	defer context.AfterFunc(l.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	_ = conn.SetReadDeadline(time.Now().Add(egressHeader))
	r := bufio.NewReaderSize(conn, 4<<10)
	start, err := r.Peek(len("GET /"))
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	known := &peekedConn{Conn: conn, r: r}
	if string(start) != "GET /" {
		l.splice(known)
		return
	}
	select {
	case l.accepted <- known:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}

// splice connects a client with the browser's proxy until either side has ended.
func (l *egressListener) splice(client net.Conn) {
	defer client.Close()
	port := proxyPort(l.b.spec.ProxyServer)
	if port == 0 {
		return
	}
	upstream, err := l.b.sandbox.Dial(port, l.b.Hold())
	if err != nil {
		l.b.l.log.Warn("failed to connect with the proxy of a browser", "launchId", l.b.LaunchID, "error", err)
		return
	}
	defer upstream.Close()
	defer context.AfterFunc(l.ctx, func() { _ = upstream.SetDeadline(time.Unix(1, 0)) })()
	var copying sync.WaitGroup
	copying.Go(func() { pipe(upstream, client) })
	copying.Go(func() { pipe(client, upstream) })
	copying.Wait()
}

// pipe copies until the end of what the source sends, and passes that end on. After an
// error it ends both connections.
func pipe(target, source net.Conn) {
	_, err := io.Copy(target, source)
	half, ok := target.(interface{ CloseWrite() error })
	if !ok || err != nil || errors.Is(half.CloseWrite(), net.ErrClosed) {
		_, _ = target.SetDeadline(time.Unix(1, 0)), source.SetDeadline(time.Unix(1, 0))
	}
}

// peekedConn is a connection whose first bytes are in a buffer.
type peekedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *peekedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite ends what is sent to the peer.
func (c *peekedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
