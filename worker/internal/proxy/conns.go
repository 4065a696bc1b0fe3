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

// connSet knows every connection of a Forwarder, so that Close can end them all
// and wait for their owners.
type connSet struct {
	policy   *EgressPolicy
	resolver *net.Resolver // nil: the system's
	lookups  lookupCache   // what it was asked for proxies on this machine
	in, out  atomic.Int64  // bytes from and to upstreams

	clients, outbound semaphore

	ctx  context.Context // ends with close
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
	owners sync.WaitGroup // one per open, and per dial under way
}

func newConnSet(wall *EgressPolicy) *connSet {
	s := &connSet{policy: wall, clients: make(semaphore, maxClients), outbound: make(semaphore, maxOutbound), open: make(map[*conn]struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// dial connects to host:port, unless the wall denies what its name leads to:
// that is an ErrDenied. It ends with close too, since a transport keeps dialing
// for a request that was given up.
func (s *connSet) dial(ctx context.Context, address string, with peer) (*conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.owners.Add(1)
	s.mu.Unlock()
	defer s.owners.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.outbound.acquire(ctx); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		s.outbound.release()
		return nil, err
	}
	dialer := net.Dialer{Resolver: s.resolver, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(resolved); err != nil || s.policy.deniesAddress(host, to) {
			return ErrDenied
		}
		return nil
	}}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		s.outbound.release()
		return nil, err
	}
	return s.add(raw, with, s.outbound)
}

// add registers a TCP connection, which has its place, until its owner closes
// it; net.ErrClosed, and the connection closed, when all are to end.
func (s *connSet) add(raw net.Conn, with peer, of semaphore) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		of.release()
		return nil, net.ErrClosed
	}
	c := &conn{Conn: raw, set: s, peer: with, slots: of}
	s.open[c] = struct{}{}
	s.owners.Add(1)
	return c, nil
}

// close breaks every connection under its owner and waits until all owners
// have let go.
func (s *connSet) close() {
	s.stop()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Conn.Close()
	}
	s.mu.Unlock()
	s.owners.Wait()
}

// closeClients breaks the connections from peers that do not pass.
func (s *connSet) closeClients(pass func(net.Conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.peer == browser && !pass(c.Conn) {
			c.Conn.Close()
		}
	}
}

func (s *connSet) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[c]; open {
		delete(s.open, c)
		c.slots.release()
		s.owners.Done()
	}
}

// conn is a registered TCP connection.
type conn struct {
	net.Conn
	set   *connSet
	peer  peer
	slots semaphore
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.peer == proxy {
		c.set.in.Add(int64(n))
	}
	return n, err
}

// Write implements io.Writer.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.peer == proxy {
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

// Bounds of one Forwarder: a browser opens hundreds of connections for each of
// its contexts, of which its client may have any number.
const (
	maxClients  = 1024                   // the kernel's queue holds back who comes after
	maxIdle     = 128                    // slots each way out, to be used again
	maxOutbound = maxClients + 2*maxIdle // for two ways; dials that were given up are among them
)

// MaxDescriptors is how many a Forwarder takes at most: a tunnel's two sockets, and
// a pipe for each of its directions.
const MaxDescriptors = 6*maxClients + 2*maxIdle

// semaphore bound how many connections there are at once.
type semaphore chan struct{}

// acquire waits for one.
func (p semaphore) acquire(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p semaphore) release() { <-p }
