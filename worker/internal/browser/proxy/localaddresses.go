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
	read func() ([]net.Addr, error) // of the interfaces; nil: net.InterfaceAddrs

	mu     sync.Mutex
	readAt time.Time
	found  []netip.Addr
}

// contains reports whether an address belongs to this machine. If the addresses
// cannot be read, every address might, so that nothing local is allowed by mistake.
func (m *localAddresses) contains(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	list, ok := m.list()
	return !ok || slices.Contains(list, a)
}

// list returns the addresses; ok is false if they have never been read.
func (m *localAddresses) list() (list []netip.Addr, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.readAt.IsZero() && time.Since(m.readAt) < localAddressesTTL {
		return m.found, true
	}
	read := m.read
	if read == nil {
		read = net.InterfaceAddrs
	}
	found, err := read()
	if err != nil {
		return m.found, !m.readAt.IsZero()
	}
	m.readAt, m.found = time.Now(), nil
	for _, n := range found {
		if prefix, err := netip.ParsePrefix(n.String()); err == nil {
			m.found = append(m.found, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return m.found, true
}
