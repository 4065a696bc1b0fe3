package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// Rules configures an EgressPolicy.
type Rules struct {
	Denylist Denylist
	// DeniedEndpoints (host:port) are denied by name and at every address that the name
	// resolves to. One on this machine is denied at all addresses of the machine.
	DeniedEndpoints []string
	// AllowLocal allows this machine's own addresses, which are denied otherwise.
	AllowLocal bool
	// Allowlist allows some of this machine's addresses.
	Allowlist Allowlist
}

// EgressPolicy decides which destinations the browsers of a worker may reach. It
// applies its Rules and always denies the loopback ports of launches, of this worker
// and of others on the machine: pages must not reach debug ports or Forwarders. It
// is safe for concurrent use.
type EgressPolicy struct {
	rules     Rules
	endpoints []*endpoint
	local     localAddresses

	mu          sync.RWMutex
	deniedPorts map[uint16]int // reference counts

	denied      struct{ requested, resolved, byRule atomic.Int64 } // requests of all Forwarders
	transferred transfer                                           // by their connections
}

// NewEgressPolicy returns an EgressPolicy. It fails if an endpoint is invalid.
func NewEgressPolicy(rules Rules) (*EgressPolicy, error) {
	p := &EgressPolicy{rules: rules, deniedPorts: make(map[uint16]int)}
	for _, address := range rules.DeniedEndpoints {
		host, port, err := splitTarget(address)
		if err != nil {
			return nil, fmt.Errorf("denied endpoint: %w", err)
		}
		p.endpoints = append(p.endpoints, &endpoint{name: netrules.NormalizeHost(host), port: port})
	}
	return p, nil
}

// Denied returns the numbers of denied requests so far: those whose host is denied as
// requested, those whose name resolves to a denied address, and those that a rule of a
// launch denied.
func (p *EgressPolicy) Denied() (requested, resolved, byRule int64) {
	return p.denied.requested.Load(), p.denied.resolved.Load(), p.denied.byRule.Load()
}

// Transferred returns the bytes of all browsers so far. Those of a direct tunnel are
// added at its end, or when its usage is read.
func (p *EgressPolicy) Transferred() (received, sent int64) {
	return p.transferred.received.Load(), p.transferred.sent.Load()
}

// DenyPort denies a port of this machine's loopback, to the browsers of all workers
// of the machine, until allow is called. Call allow once.
func (p *EgressPolicy) DenyPort(port int) (allow func(), err error) {
	withdraw, err := announce(launchPortPrefix, uint16(port))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deniedPorts[uint16(port)]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.deniedPorts[uint16(port)]--; p.deniedPorts[uint16(port)] == 0 {
			delete(p.deniedPorts, uint16(port))
		}
		withdraw()
	}, nil
}

// AnnounceAPIPort announces the API port of this worker to the other workers of the
// machine until withdraw is called. Call withdraw once. Their browsers are denied
// the port, unless their Rules set AllowLocal.
func (*EgressPolicy) AnnounceAPIPort(port int) (withdraw func(), err error) {
	return announce(apiPortPrefix, uint16(port))
}

// denies checks a destination by its host. Resolved addresses are checked when they
// are dialed, or by the upstream.
func (p *EgressPolicy) denies(host string, port uint16) bool {
	if p.rules.Denylist.Denies(host) {
		return true
	}
	host = netrules.NormalizeHost(host)
	if slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return e.port == port && e.name == host }) {
		return true
	}
	addresses := netrules.LiteralAddresses(host)
	allowed := func(a netip.Addr) bool { return !p.deniesEndpoint(host, a, port) }
	if netrules.IsLocalhost(host) { // each address is checked again when it is dialed
		return !slices.ContainsFunc(addresses, allowed)
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !allowed(a) })
}

// deniesAddress checks an address that is about to be dialed for host.
func (p *EgressPolicy) deniesAddress(host string, remote netip.AddrPort) bool {
	return p.rules.Denylist.Denies(remote.Addr().String()) || p.deniesEndpoint(netrules.NormalizeHost(host), remote.Addr(), remote.Port())
}

func (p *EgressPolicy) deniesEndpoint(host string, a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(netrules.WithEmbeddedIPv4(a.WithZone("")), func(a netip.Addr) bool {
		switch {
		case slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return e.port == port && e.matches(a, &p.local) }):
			return true
		case !p.local.contains(a):
			return false
		case (a.IsLoopback() || a.IsUnspecified()) && p.deniesPort(port):
			return true
		case p.rules.AllowLocal:
			return isAnnounced(port, launchPortPrefix)
		default:
			return !p.rules.Allowlist.allows(host, a, port) || isAnnounced(port, launchPortPrefix, apiPortPrefix)
		}
	})
}

func (p *EgressPolicy) deniesPort(port uint16) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.deniedPorts[port] > 0
}

const (
	endpointTTL   = time.Minute     // how long resolved addresses are cached
	lookupTimeout = 2 * time.Second // for resolving; on failure the cached addresses are kept
)

// endpoint is a denied host and port.
type endpoint struct {
	name     string
	port     uint16
	resolver *net.Resolver // nil: the system's

	lookup sync.Mutex // held by the caller that resolves the name
	last   atomic.Pointer[resolution]
}

// resolution is what a name was resolved to.
type resolution struct {
	time      time.Time
	addresses []netip.Addr
}

func (e *endpoint) matches(a netip.Addr, local *localAddresses) bool {
	addresses := e.resolve()
	return slices.Contains(addresses, a) || slices.ContainsFunc(addresses, local.contains) && local.contains(a)
}

// resolve returns the addresses of the endpoint. Only the first callers wait for a lookup; during a later one, the others
// use the earlier addresses.
func (e *endpoint) resolve() []netip.Addr {
	if e.last.Load() == nil {
		e.lookup.Lock()
	} else if e.isFresh() || !e.lookup.TryLock() {
		return e.last.Load().addresses
	}
	defer e.lookup.Unlock()
	if e.isFresh() { // another caller has resolved the name
		return e.last.Load().addresses
	}
	found := netrules.LiteralAddresses(e.name)
	if len(found) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		found = lookupHost(ctx, e.resolver, e.name)
	}
	next := &resolution{time: time.Now()}
	for _, a := range found {
		next.addresses = append(next.addresses, a.Unmap().WithZone(""))
	}
	if last := e.last.Load(); last != nil && len(found) == 0 { // the lookup has failed
		next.addresses = last.addresses
	}
	e.last.Store(next)
	return next.addresses
}

func (e *endpoint) isFresh() bool {
	last := e.last.Load()
	return last != nil && time.Since(last.time) < endpointTTL
}

// lookupHost resolves a name; a nil resolver means the system resolver.
func lookupHost(ctx context.Context, resolver *net.Resolver, name string) []netip.Addr {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, _ := resolver.LookupNetIP(ctx, "ip", name)
	return found
}

// splitTarget splits host:port.
func splitTarget(address string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port: %w", err)
	}
	if host == "" || n == 0 {
		return "", 0, fmt.Errorf("%q has no host or no port", address)
	}
	return host, uint16(n), nil
}
