package proxy

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// peer says whom a connection is with.
type peer int

const (
	browser     peer = iota // a client of the Forwarder
	proxy                   // an upstream; its bytes are counted
	destination             // reached straight
)

// conns knows every connection of a Forwarder, so that Close can end them all
// and wait for their owners.
type conns struct {
	wall     *Wall
	resolver *net.Resolver // nil: the system's
	found    lookups       // what it was asked for proxies on this machine
	in, out  atomic.Int64  // bytes from and to upstreams

	clients, outward places

	ctx  context.Context // ends with close
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
	owned  sync.WaitGroup // one per open, and per dial under way
}

func newConns(wall *Wall) *conns {
	s := &conns{wall: wall, clients: make(places, maxClients), outward: make(places, maxOutward), open: make(map[*conn]struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// dial connects to host:port, unless the wall denies what its name leads to:
// that is an ErrDenied. It ends with close too, since a transport keeps dialing
// for a request that was given up.
func (s *conns) dial(ctx context.Context, address string, with peer) (*conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.owned.Add(1)
	s.mu.Unlock()
	defer s.owned.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.outward.take(ctx); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		s.outward.free()
		return nil, err
	}
	dialer := net.Dialer{Resolver: s.resolver, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(resolved); err != nil || s.wall.deniesAddress(host, to) {
			return ErrDenied
		}
		return nil
	}}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		s.outward.free()
		return nil, err
	}
	return s.add(raw, with, s.outward)
}

// add registers a TCP connection, which has its place, until its owner closes
// it; net.ErrClosed, and the connection closed, when all are to end.
func (s *conns) add(raw net.Conn, with peer, of places) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		of.free()
		return nil, net.ErrClosed
	}
	c := &conn{Conn: raw, set: s, with: with, of: of}
	s.open[c] = struct{}{}
	s.owned.Add(1)
	return c, nil
}

// close breaks every connection under its owner and waits until all owners
// have let go.
func (s *conns) close() {
	s.stop()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Conn.Close()
	}
	s.mu.Unlock()
	s.owned.Wait()
}

// breakClients breaks the connections from peers that do not pass.
func (s *conns) breakClients(pass func(net.Conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.with == browser && !pass(c.Conn) {
			c.Conn.Close()
		}
	}
}

func (s *conns) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[c]; open {
		delete(s.open, c)
		c.of.free()
		s.owned.Done()
	}
}

// conn is a registered TCP connection.
type conn struct {
	net.Conn
	set  *conns
	with peer
	of   places
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.with == proxy {
		c.set.in.Add(int64(n))
	}
	return n, err
}

// Write implements io.Writer.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.with == proxy {
		c.set.out.Add(int64(n))
	}
	return n, err
}

// CloseWrite tells the peer that nothing more will come.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close implements io.Closer.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.set.release(c)
	return err
}
