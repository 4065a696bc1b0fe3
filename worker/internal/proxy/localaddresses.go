package proxy

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// localAddressesTTL is how long it is believed which addresses this machine has.
const localAddressesTTL = time.Second

// localAddresses knows the addresses of this machine. The zero value is ready.
type localAddresses struct {
	mu     sync.Mutex
	readAt time.Time
	found  []netip.Addr
}

// contains reports whether an address is this machine's.
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
