package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
)

// MaxContextProxies is how many ContextProxies of a Forwarder can be open at a time.
const MaxContextProxies = 128

// errTooManyContextProxies is an error for the client that asks for one more.
var errTooManyContextProxies = fmt.Errorf("this browser has reached its limit of %d browser contexts with a proxy of their own: dispose of contexts", MaxContextProxies)

// ContextProxy is one more address of a Forwarder, with an upstream of its own, for
// one browser context. It shares the Forwarder's limits and egress policy.
type ContextProxy struct {
	forwarder *Forwarder
	address   netip.AddrPort // as clients connect to it
	routing   *routing
	listener  *listener // nil: the Forwarder's moved listener serves all addresses
	allowPort func()
}

// contextProxies are the open ContextProxies of a Forwarder.
type contextProxies struct {
	mu     sync.RWMutex
	open   map[netip.AddrPort]*ContextProxy
	last   uint32 // number of the last address in the network of a moved listener
	closed bool
}

// ParseContextProxy parses a proxy server as clients give it for a browser context:
// [scheme://][user:password@]host[:port]. Without a scheme it is an HTTP proxy. The
// result is nil for the empty server and for direct://. Errors never repeat the
// server, because it may contain a password.
func ParseContextProxy(server string) (*Upstream, error) {
	server = strings.TrimSpace(server)
	if server == "" || server == "direct://" {
		return nil, nil
	}
	if strings.ContainsAny(server, ",;= ") {
		return nil, errors.New("it must be one proxy server; lists and rules per scheme are not supported")
	}
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	if rest, ok := strings.CutPrefix(server, "socks://"); ok { // Chromium's other name
		server = "socks5://" + rest
	}
	settings := &Upstream{Server: server}
	if u, err := url.Parse(server); err == nil && u.User != nil {
		settings.Username = u.User.Username()
		settings.Password, _ = u.User.Password()
		u.User = nil
		settings.Server = u.String()
	}
	return settings, nil
}

// OpenContextProxy opens a ContextProxy. The upstream is not contacted. Without
// credentials, the browser authenticates itself to an http or https upstream. Errors
// are for the client and never contain the credentials.
func (f *Forwarder) OpenContextProxy(settings Upstream) (*ContextProxy, error) {
	up, err := newUpstream(settings, f.conns)
	if err != nil {
		return nil, err
	}
	if err := ruleError(f.conns.limits.verdict(up.endpoint.name, up.endpoint.port)); err != nil {
		return nil, err
	}
	up.peer, up.relaysAuth = contextUpstream, up.url.Scheme != "socks5" && up.basic == ""
	c := &ContextProxy{forwarder: f, routing: &routing{upstream: f.newRoute(up), bypass: parseBypass(settings.Bypass)}, allowPort: func() {}}
	c.routing.upstream.transport.MaxIdleConns = maxContextIdle
	s := &f.contexts
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("the browser has ended")
	case len(s.open) >= MaxContextProxies:
		return nil, errTooManyContextProxies
	}
	if err := c.listen(); err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = make(map[netip.AddrPort]*ContextProxy)
	}
	s.open[c.address] = c
	return c, nil
}

// listen chooses the address. A moved listener accepts connections at all addresses
// of its loopback network, so that no socket is needed; they are used once, because
// the browser may still have requests for an earlier context. The caller holds the
// lock.
func (c *ContextProxy) listen() error {
	f := c.forwarder
	if moved := f.movedListener.Load(); moved != nil {
		const first, last = 127<<24 + 2, 128<<24 - 2 // 127.0.0.1 is the Forwarder's
		if f.contexts.last >= last-first {
			return errTooManyContextProxies
		}
		ip := binary.BigEndian.AppendUint32(nil, first+f.contexts.last)
		f.contexts.last++
		c.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip)), uint16(moved.port()))
		return nil
	}
	l, err := listen(f.conns, f.log)
	if err != nil {
		return fmt.Errorf("open a proxy address: %w", err)
	}
	allow, err := f.policy.DenyPort(l.port())
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("open a proxy address: %w", err)
	}
	l.uid.Store(f.listener.uid.Load())
	c.listener, c.address, c.allowPort = l, addrPort(l.Addr()), allow
	f.serve(l)
	return nil
}

// Address returns the address for the browser: http://host:port.
func (c *ContextProxy) Address() string { return "http://" + c.address.String() }

// Close closes the address and its connections, including tunnels. It can be called
// again.
func (c *ContextProxy) Close() {
	s := &c.forwarder.contexts
	s.mu.Lock()
	if s.open[c.address] != c {
		s.mu.Unlock()
		return
	}
	delete(s.open, c.address)
	s.mu.Unlock()
	if c.listener != nil {
		_ = c.listener.Close()
	}
	c.allowPort()
	c.forwarder.conns.closeClients(func(client net.Conn) bool { return addrPort(client.LocalAddr()) != c.address })
	c.routing.upstream.closeIdle()
}

// closeAll closes all and refuses new ones.
func (s *contextProxies) closeAll() {
	s.mu.Lock()
	s.closed = true
	var open []*ContextProxy
	for _, c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// routingAt returns the routing of the address to which a request was sent, or nil
// if that is the address of a closed ContextProxy.
func (f *Forwarder) routingAt(ctx context.Context) *routing {
	local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	address := addrPort(local)
	if f.isOwn(address) {
		return f.routing.Load()
	}
	f.contexts.mu.RLock()
	defer f.contexts.mu.RUnlock()
	if c := f.contexts.open[address]; c != nil {
		return c.routing
	}
	return nil
}

// isOwn reports whether an address is the Forwarder's and of no ContextProxy.
func (f *Forwarder) isOwn(address netip.AddrPort) bool {
	if address == addrPort(f.listener.Addr()) {
		return true
	}
	moved := f.movedListener.Load()
	return moved != nil && address == netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(moved.port()))
}
