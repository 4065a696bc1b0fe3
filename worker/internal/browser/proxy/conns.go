package proxy

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// peer is the kind of the remote end of a connection.
type peer int

const (
	browser         peer = iota // a client of the Forwarder
	proxy                       // an upstream; its bytes are counted
	contextUpstream             // an upstream of one browser context
	destination                 // reached directly
)

// connSet tracks every connection of a Forwarder, so that close can end all of them
// and wait for their owners.
type connSet struct {
	policy   *EgressPolicy
	resolver *net.Resolver // nil: the system's
	lookups  lookupCache   // names resolved for proxies on this machine
	upstream transfer      // of upstreams
	usage    usageCounts
	limits   limits // the rules of the launch

	clients, outbound semaphore

	ctx  context.Context // ends with close
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   map[*conn]struct{}
	owners sync.WaitGroup // one for each open connection and each dial in progress
}

func newConnSet(policy *EgressPolicy) *connSet {
	s := &connSet{policy: policy, clients: make(semaphore, maxClients), outbound: make(semaphore, maxOutbound), open: make(map[*conn]struct{})}
	s.usage.hosts = make(map[string]*hostCounts)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// dial connects to host:port. It returns ErrDenied if the policy denies the resolved
// address. close also ends the dial, because a transport continues dialing for a
// canceled request.
func (s *connSet) dial(ctx context.Context, address string, kind peer) (*conn, error) {
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
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		s.outbound.release()
		return nil, err
	}
	dialer := net.Dialer{Resolver: s.resolver, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		remote, err := netip.ParseAddrPort(resolved)
		if err != nil || s.policy.deniesAddress(name, remote) {
			return ErrDenied
		}
		if kind == proxy { // the launch's own
			return nil
		}
		return ruleError(s.limits.rules.Load().ConnectAddress(remote))
	}}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		s.outbound.release()
		return nil, err
	}
	c, err := s.add(raw, kind, s.outbound)
	if err != nil {
		return nil, err
	}
	if kind != destination {
		c.proxy = &address
	}
	c.assign(countsOf(ctx))
	return c, nil
}

// add registers a TCP connection, which holds a slot, until its owner closes it.
// After close it closes the connection and returns net.ErrClosed.
func (s *connSet) add(raw net.Conn, kind peer, slots semaphore) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		slots.release()
		return nil, net.ErrClosed
	}
	c := &conn{Conn: raw, set: s, peer: kind, slots: slots}
	s.open[c] = struct{}{}
	s.owners.Add(1)
	return c, nil
}

// close closes every connection and waits until all owners have released theirs.
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

// closeClients closes the client connections for which keep returns false.
func (s *connSet) closeClients(keep func(net.Conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.peer == browser && !keep(c.Conn) {
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

	proxy  *string // host:port of the upstream; nil: direct
	host   atomic.Pointer[hostCounts]
	kernel kernelBytes
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count(int64(n), 0)
	return n, err
}

// Write implements io.Writer.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count(0, int64(n))
	return n, err
}

// count counts bytes for the host and the upstream, or those of a browser that has a limit.
func (c *conn) count(received, sent int64) {
	if c.peer == browser {
		if c.set.limits.add(received + sent) {
			c.set.closeClients(func(net.Conn) bool { return false })
		}
		return
	}
	if c.peer == proxy {
		c.set.upstream.add(received, sent)
	}
	if host := c.host.Load(); host != nil {
		host.add(received, sent)
		c.set.policy.transferred.add(received, sent)
	}
}

// CloseWrite shuts down the writing side.
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

// Limits of one Forwarder. A browser opens hundreds of connections for each browser
// context, and its client can create any number of contexts.
const (
	maxClients     = 1024                                                      // further clients wait in the kernel's accept queue
	maxIdle        = 128                                                       // idle connections of each outbound
	maxContextIdle = 4                                                         // the same of a ContextProxy
	maxOutbound    = maxClients + 2*maxIdle + MaxContextProxies*maxContextIdle // for two outbounds and those of contexts; includes abandoned dials
)

// MaxDescriptors is the highest number of file descriptors of a Forwarder: the two
// sockets of a tunnel and a pipe for each of its directions, and two sockets of each
// ContextProxy.
const MaxDescriptors = 6*maxClients + 2*maxIdle + MaxContextProxies*(maxContextIdle+2)

// semaphore limits concurrent connections.
type semaphore chan struct{}

// acquire waits for a slot.
func (s semaphore) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) release() { <-s }
