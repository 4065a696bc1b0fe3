package proxy

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// localAddressesTTL is how long the list of local addresses is cached.
const localAddressesTTL = time.Second

// localAddresses caches the addresses of this machine. The zero value is ready to
// use.
type localAddresses struct {
	mu     sync.Mutex
	readAt time.Time
	found  []netip.Addr
}

// contains reports whether an address belongs to this machine.
func (m *localAddresses) contains(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsUnspecified() || slices.Contains(m.list(), a)
}

func (m *localAddresses) list() []netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.readAt.IsZero() && time.Since(m.readAt) < localAddressesTTL {
		return m.found
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return m.found
	}
	m.readAt, m.found = time.Now(), nil
	for _, n := range found {
		if prefix, err := netip.ParsePrefix(n.String()); err == nil {
			m.found = append(m.found, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return m.found
}
