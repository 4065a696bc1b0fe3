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

// Rules say what a Wall denies.
type Rules struct {
	Denied Policy
	// Places are host:port each, denied by name and at every address that the name
	// leads to. One on this machine is denied at all addresses of the machine.
	Places []string
	// OwnOpen opens this machine's own addresses, which are denied otherwise.
	OwnOpen bool
	// Allowed is what of them may be reached nevertheless.
	Allowed Allowed
}

// Wall stands around all browsers of a worker. It denies what its Rules do and,
// whatever they say, the ports on this machine's loopback that belong to launches,
// of this worker or of another: pages have no business with the debug ports of
// browsers, nor with Forwarders. It is safe for concurrent use.
type Wall struct {
	rules   Rules
	places  []*place
	machine machine

	mu     sync.RWMutex
	hidden map[uint16]int // how often each is hidden
}

// NewWall returns a Wall. It fails when a place is none.
func NewWall(rules Rules) (*Wall, error) {
	w := &Wall{rules: rules, hidden: make(map[uint16]int)}
	for _, address := range rules.Places {
		host, port, err := splitTarget(address)
		if err != nil {
			return nil, fmt.Errorf("a place to deny: %w", err)
		}
		w.places = append(w.places, &place{name: plainName(host), port: port})
	}
	return w, nil
}

// Hide denies a port of this machine's loopback, here and to the browsers of the
// machine's other workers, until the returned function is called, which is to be
// called once.
func (w *Wall) Hide(port int) (reveal func(), err error) {
	withdraw, err := announce(launchPorts, uint16(port))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[uint16(port)]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hidden[uint16(port)]--; w.hidden[uint16(port)] == 0 {
			delete(w.hidden, uint16(port))
		}
		withdraw()
	}, nil
}

// AnnounceAPI tells the other workers of this machine at which port this one
// serves its API, until the returned function is called, which is to be called
// once. Their browsers are denied it, unless their Rules open this machine.
func (*Wall) AnnounceAPI(port int) (withdraw func(), err error) {
	return announce(apiPorts, uint16(port))
}

// denies judges a destination by what it is called. Where a name leads to is
// seen when it is connected to, or is an upstream's to know.
func (w *Wall) denies(host string, port uint16) bool {
	if w.rules.Denied.Denies(host) {
		return true
	}
	host = plainName(host)
	if slices.ContainsFunc(w.places, func(p *place) bool { return p.port == port && p.name == host }) {
		return true
	}
	addresses := addressesIn(host)
	allowed := func(a netip.Addr) bool { return !w.deniesAt(host, a, port) }
	if isLocalhost(host) { // each of its addresses is judged again when it is connected to
		return !slices.ContainsFunc(addresses, allowed)
	}
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !allowed(a) })
}

// deniesAddress judges what is about to be connected to for somebody who asked
// for host.
func (w *Wall) deniesAddress(host string, to netip.AddrPort) bool {
	return w.rules.Denied.Denies(to.Addr().String()) || w.deniesAt(plainName(host), to.Addr(), to.Port())
}

func (w *Wall) deniesAt(host string, a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(embedded(a.WithZone("")), func(a netip.Addr) bool {
		switch {
		case slices.ContainsFunc(w.places, func(p *place) bool { return p.port == port && p.is(a, &w.machine) }):
			return true
		case !w.machine.has(a):
			return false
		case (a.IsLoopback() || a.IsUnspecified()) && w.hides(port):
			return true
		case w.rules.OwnOpen:
			return announced(port, launchPorts)
		default:
			return !w.rules.Allowed.covers(host, a, port) || announced(port, launchPorts, apiPorts)
		}
	})
}

func (w *Wall) hides(port uint16) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.hidden[port] > 0
}

const (
	placeFresh   = time.Minute     // how long it is believed where a place is
	placeTimeout = 2 * time.Second // to find out; what was known before holds on
)

// place is a host and a port that browsers are kept from.
type place struct {
	name     string
	port     uint16
	resolver *net.Resolver // nil: the system's

	mu        sync.Mutex
	asked     time.Time
	addresses []netip.Addr
}

func (p *place) is(a netip.Addr, own *machine) bool {
	known := p.resolve()
	return slices.Contains(known, a) || slices.ContainsFunc(known, own.has) && own.has(a)
}

func (p *place) resolve() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.IsZero() && time.Since(p.asked) < placeFresh {
		return p.addresses
	}
	found := addressesIn(p.name)
	if len(found) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), placeTimeout)
		defer cancel()
		found = lookup(ctx, p.resolver, p.name)
	}
	if p.asked = time.Now(); len(found) > 0 {
		p.addresses = nil
		for _, a := range found {
			p.addresses = append(p.addresses, a.Unmap().WithZone(""))
		}
	}
	return p.addresses
}

// lookup finds the addresses of a name; a nil resolver is the system's.
func lookup(ctx context.Context, by *net.Resolver, name string) []netip.Addr {
	if by == nil {
		by = net.DefaultResolver
	}
	found, _ := by.LookupNetIP(ctx, "ip", name)
	return found
}

// plainName is a host in lower case, without brackets and the dot at its end.
func plainName(host string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(host), "["), "]"), ".")
}

// addressesIn are those that a host (a plainName) is by itself: an address in
// any spelling, or localhost. Of other names there are none.
func addressesIn(host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.WithZone("")}
	}
	if isLocalhost(host) {
		return []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return readIPv4(host)
}

// isLocalhost reports whether a plainName means this machine wherever it is
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
