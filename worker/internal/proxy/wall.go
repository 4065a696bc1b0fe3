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

// Wall stands around all browsers of a worker. It denies what a Policy does, a
// few places, and the ports on this machine's loopback that belong to launches:
// pages have no business with the debug ports of browsers, nor with Forwarders.
// It is safe for concurrent use.
type Wall struct {
	policy Policy
	places []*place

	mu     sync.RWMutex
	hidden map[uint16]int // how often each is hidden
}

// NewWall returns a Wall that denies what the policy does, and the places: each
// is host:port, denied by name and at every address that the name leads to. A
// place on this machine is denied at all addresses of the machine.
func NewWall(policy Policy, places ...string) (*Wall, error) {
	w := &Wall{policy: policy, hidden: make(map[uint16]int)}
	for _, address := range places {
		host, port, err := splitTarget(address)
		if err != nil {
			return nil, fmt.Errorf("a place to deny: %w", err)
		}
		w.places = append(w.places, &place{name: plainName(host), port: port})
	}
	return w, nil
}

// Hide denies a port of this machine's loopback until the returned function is
// called, which is to be called once.
func (w *Wall) Hide(port int) (reveal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[uint16(port)]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hidden[uint16(port)]--; w.hidden[uint16(port)] == 0 {
			delete(w.hidden, uint16(port))
		}
	}
}

// denies judges a destination by what it is called. Where a name leads to is
// seen when it is connected to, or is an upstream's to know.
func (w *Wall) denies(host string, port uint16) bool {
	if w.policy.Denies(host) {
		return true
	}
	host = plainName(host)
	if slices.ContainsFunc(w.places, func(p *place) bool { return p.port == port && p.name == host }) {
		return true
	}
	return slices.ContainsFunc(addressesIn(host), func(a netip.Addr) bool { return w.deniesPort(a, port) })
}

// deniesAddress judges what is about to be connected to.
func (w *Wall) deniesAddress(to netip.AddrPort) bool {
	return w.policy.Denies(to.Addr().String()) || w.deniesPort(to.Addr(), to.Port())
}

func (w *Wall) deniesPort(a netip.Addr, port uint16) bool {
	return slices.ContainsFunc(embedded(a.WithZone("")), func(a netip.Addr) bool {
		return (a.IsLoopback() || a.IsUnspecified()) && w.hides(port) ||
			slices.ContainsFunc(w.places, func(p *place) bool { return p.port == port && p.is(a) })
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
	name string
	port uint16

	mu        sync.Mutex
	asked     time.Time
	addresses []netip.Addr
}

func (p *place) is(a netip.Addr) bool {
	known := p.resolve()
	return slices.Contains(known, a) || slices.ContainsFunc(known, isOwn) && isOwn(a)
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
		found, _ = net.DefaultResolver.LookupNetIP(ctx, "ip", p.name)
	}
	if p.asked = time.Now(); len(found) > 0 {
		p.addresses = nil
		for _, a := range found {
			p.addresses = append(p.addresses, a.Unmap().WithZone(""))
		}
	}
	return p.addresses
}

// isOwn reports whether an address is this machine's.
func isOwn(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(n net.Addr) bool {
		prefix, err := netip.ParsePrefix(n.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
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
