package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rules say what a EgressPolicy denies.
type Rules struct {
	Denylist Denylist
	// DeniedEndpoints are host:port each, denied by name and at every address that the name
	// leads to. One on this machine is denied at all addresses of the machine.
	DeniedEndpoints []string
	// AllowLocal opens this machine's own addresses, which are denied otherwise.
	AllowLocal bool
	// Allowlist is what of them may be reached nevertheless.
	Allowlist Allowlist
}

// EgressPolicy stands around all browsers of a worker. It denies what its Rules do and,
// whatever they say, the ports on this machine's loopback that belong to launches,
// of this worker or of another: pages have no business with the debug ports of
// browsers, nor with Forwarders. It is safe for concurrent use.
type EgressPolicy struct {
	rules     Rules
	endpoints []*endpoint
	local     localAddresses

	mu          sync.RWMutex
	deniedPorts map[uint16]int // how often each is hidden
}

// NewEgressPolicy returns a EgressPolicy. It fails when a place is none.
func NewEgressPolicy(rules Rules) (*EgressPolicy, error) {
	w := &EgressPolicy{rules: rules, deniedPorts: make(map[uint16]int)}
	for _, address := range rules.DeniedEndpoints {
		host, port, err := splitTarget(address)
		if err != nil {
			return nil, fmt.Errorf("a place to deny: %w", err)
		}
		w.endpoints = append(w.endpoints, &endpoint{name: normalizeHost(host), port: port})
	}
	return w, nil
}

// DenyPort denies a port of this machine's loopback, here and to the browsers of the
// machine's other workers, until the returned function is called, which is to be
// called once.
func (w *EgressPolicy) DenyPort(port int) (reveal func(), err error) {
	withdraw, err := announce(launchPortPrefix, uint16(port))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deniedPorts[uint16(port)]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.deniedPorts[uint16(port)]--; w.deniedPorts[uint16(port)] == 0 {
			delete(w.deniedPorts, uint16(port))
		}
		withdraw()
	}, nil
}

// AnnounceAPIPort tells the other workers of this machine at which port this one
// serves its API, until the returned function is called, which is to be called
// once. Their browsers are denied it, unless their Rules open this machine.
func (*EgressPolicy) AnnounceAPIPort(port int) (withdraw func(), err error) {
	return announce(apiPortPrefix, uint16(port))
}

// denies judges a destination by what it is called. Where a name leads to is
// seen when it is connected to, or is an upstream's to know.
func (w *EgressPolicy) denies(host string, port uint16) bool {
	if w.rules.Denylist.Denies(host) {
		return true
	}
	host = normalizeHost(host)
	if slices.ContainsFunc(w.endpoints, func(p *endpoint) bool { return p.port == port && p.name == host }) {
		return true
	}
	addresses := literalAddresses(host)
	allowed := func(a netip.Addr) bool { return !w.deniesEndpoint(host, a, port) }
	if isLocalhost(host) { // each of its addresses is judged again when it is connected to
		return !slices.ContainsFunc(addresses, allowed)
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !allowed(a) })
}

// deniesAddress judges what is about to be connected to for somebody who asked
// for host.
func (w *EgressPolicy) deniesAddress(host string, to netip.AddrPort) bool {
	return w.rules.Denylist.Denies(to.Addr().String()) || w.deniesEndpoint(normalizeHost(host), to.Addr(), to.Port())
}

func (w *EgressPolicy) deniesEndpoint(host string, a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(withEmbeddedIPv4(a.WithZone("")), func(a netip.Addr) bool {
		switch {
		case slices.ContainsFunc(w.endpoints, func(p *endpoint) bool { return p.port == port && p.matches(a, &w.local) }):
			return true
		case !w.local.contains(a):
			return false
		case (a.IsLoopback() || a.IsUnspecified()) && w.deniesPort(port):
			return true
		case w.rules.AllowLocal:
			return isAnnounced(port, launchPortPrefix)
		default:
			return !w.rules.Allowlist.allows(host, a, port) || isAnnounced(port, launchPortPrefix, apiPortPrefix)
		}
	})
}

func (w *EgressPolicy) deniesPort(port uint16) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.deniedPorts[port] > 0
}

const (
	endpointTTL   = time.Minute     // how long it is believed where a place is
	lookupTimeout = 2 * time.Second // to find out; what was known before holds on
)

// endpoint is a host and a port that browsers are kept from.
type endpoint struct {
	name     string
	port     uint16
	resolver *net.Resolver // nil: the system's

	mu         sync.Mutex
	resolvedAt time.Time
	addresses  []netip.Addr
}

func (p *endpoint) matches(a netip.Addr, own *localAddresses) bool {
	known := p.resolve()
	return slices.Contains(known, a) || slices.ContainsFunc(known, own.contains) && own.contains(a)
}

func (p *endpoint) resolve() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.resolvedAt.IsZero() && time.Since(p.resolvedAt) < endpointTTL {
		return p.addresses
	}
	found := literalAddresses(p.name)
	if len(found) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		found = lookupHost(ctx, p.resolver, p.name)
	}
	if p.resolvedAt = time.Now(); len(found) > 0 {
		p.addresses = nil
		for _, a := range found {
			p.addresses = append(p.addresses, a.Unmap().WithZone(""))
		}
	}
	return p.addresses
}

// lookupHost finds the addresses of a name; a nil resolver is the system's.
func lookupHost(ctx context.Context, by *net.Resolver, name string) []netip.Addr {
	if by == nil {
		by = net.DefaultResolver
	}
	found, _ := by.LookupNetIP(ctx, "ip", name)
	return found
}

// normalizeHost is a host in lower case, without brackets and the dot at its end.
func normalizeHost(host string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(host), "["), "]"), ".")
}

// literalAddresses are those that a host (a normalizeHost) is by itself: an address in
// any spelling, or localhost. Of other names there are none.
func literalAddresses(host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.WithZone("")}
	}
	if isLocalhost(host) {
		return []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return parseLooseIPv4(host)
}

// isLocalhost reports whether a normalizeHost means this machine wherever it is
// said (RFC 6761, 6.3).
func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// splitTarget takes host:port apart.
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
