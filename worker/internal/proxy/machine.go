package proxy

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ownFresh is how long it is believed which addresses this machine has.
const ownFresh = time.Second

// machine knows the addresses of this machine. The zero value is ready.
type machine struct {
	mu    sync.Mutex
	asked time.Time
	own   []netip.Addr
}

// has reports whether an address is this machine's.
func (m *machine) has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsUnspecified() || slices.Contains(m.addresses(), a)
}

func (m *machine) addresses() []netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked.IsZero() && time.Since(m.asked) < ownFresh {
		return m.own
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return m.own
	}
	m.asked, m.own = time.Now(), nil
	for _, n := range found {
		if prefix, err := netip.ParsePrefix(n.String()); err == nil {
			m.own = append(m.own, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return m.own
}
