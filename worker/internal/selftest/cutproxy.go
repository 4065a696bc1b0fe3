package selftest

import (
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// cutProxy is a TCP proxy to the worker that can cut connections in the middle
// of a message.
type cutProxy struct {
	listener   net.Listener
	worker     string // host:port
	forwarding sync.WaitGroup

	mu        sync.Mutex
	conns     []*net.TCPConn
	remaining [2]int64 // bytes that may still pass in each direction; negative is unlimited
	closed    bool
}

// direction is a direction of a cutProxy's traffic.
type direction int

const (
	fromClient direction = iota
	fromWorker
)

func openCutProxy(worker string) (*cutProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	l := &cutProxy{listener: listener, worker: strings.TrimPrefix(worker, "http://"), remaining: [2]int64{-1, -1}}
	l.forwarding.Go(l.accept)
	return l, nil
}

// rewriteURL changes a URL of the worker so that it uses this proxy.
func (l *cutProxy) rewriteURL(address string) string {
	return strings.Replace(address, l.worker, l.listener.Addr().String(), 1)
}

func (l *cutProxy) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.DialTimeout("tcp", l.worker, 10*time.Second) //nolint:noctx // has a timeout
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client.(*net.TCPConn), up.(*net.TCPConn))
		if l.closed {
			l.resetConns()
		}
		l.mu.Unlock()
		l.forwarding.Go(func() { l.forward(up, client, fromClient); _ = up.(*net.TCPConn).CloseWrite() })
		l.forwarding.Go(func() { l.forward(client, up, fromWorker); _ = client.(*net.TCPConn).CloseWrite() })
	}
}

// forward copies bytes until either side ends or the limit is reached.
func (l *cutProxy) forward(to io.Writer, from io.Reader, d direction) {
	buffer := make([]byte, 4<<10)
	for {
		n, err := from.Read(buffer)
		n, full := l.allow(d, n)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if full {
			l.mu.Lock()
			l.resetConns()
			l.mu.Unlock()
		}
		if err != nil || full {
			return
		}
	}
}

// allow returns how many of n bytes may pass, and whether the limit is reached.
func (l *cutProxy) allow(d direction, n int) (passing int, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.remaining[d] < 0 {
		return n, false
	}
	n = int(min(int64(n), l.remaining[d]))
	l.remaining[d] -= int64(n)
	return n, l.remaining[d] == 0
}

// cutAfter resets the connections after this many more bytes in one direction.
func (l *cutProxy) cutAfter(d direction, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remaining[d] = n
}

// resetConns resets open connections with RST. The caller holds the lock.
func (l *cutProxy) resetConns() {
	for _, conn := range l.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// close resets the connections and stops the proxy.
func (l *cutProxy) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.resetConns()
	l.mu.Unlock()
	l.forwarding.Wait()
}
