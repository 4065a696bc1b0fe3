package proxy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	lookupFresh = 10 * time.Second // how long an answer is believed
	maxLookups  = 1000
)

// denies implements outlet. What a proxy on this machine connects to, it connects
// to from this machine: names are looked up here first, and those that lead to
// what is denied are denied. What this machine can't look up is left to the proxy.
func (u *upstream) denies(ctx context.Context, host string, port uint16) bool {
	wall := u.conns.wall
	if !slices.ContainsFunc(u.place.resolve(), wall.machine.has) {
		return false
	}
	denied := func(a netip.Addr) bool { return wall.deniesAddress(host, netip.AddrPortFrom(a, port)) }
	name := plainName(host)
	if own := addressesIn(name); len(own) > 0 {
		return slices.ContainsFunc(own, denied)
	}
	return slices.ContainsFunc(u.conns.found.addresses(name, func() []netip.Addr {
		ctx, cancel := context.WithTimeout(ctx, placeTimeout)
		defer cancel()
		return lookup(ctx, u.conns.resolver, name)
	}), denied)
}

// lookups are where names led to a moment ago. The zero value is ready.
type lookups struct {
	mu    sync.Mutex
	known map[string]foundAt
}

type foundAt struct {
	asked     time.Time
	addresses []netip.Addr
}

func (l *lookups) addresses(name string, find func() []netip.Addr) []netip.Addr {
	l.mu.Lock()
	last, ok := l.known[name]
	l.mu.Unlock()
	if ok && time.Since(last.asked) < lookupFresh {
		return last.addresses
	}
	found := foundAt{time.Now(), find()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxLookups {
		l.known = make(map[string]foundAt)
	}
	l.known[name] = found
	return found.addresses
}
