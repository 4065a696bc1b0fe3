package proxy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	lookupTTL  = 10 * time.Second // how long an answer is believed
	maxLookups = 1000
)

// denies implements outlet. What a proxy on this machine connects to, it connects
// to from this machine: names are looked up here first, and those that lead to
// what is denied are denied. What this machine can't look up is left to the proxy.
func (u *upstream) denies(ctx context.Context, host string, port uint16) bool {
	wall := u.conns.policy
	if !slices.ContainsFunc(u.endpoint.resolve(), wall.local.contains) {
		return false
	}
	denied := func(a netip.Addr) bool { return wall.deniesAddress(host, netip.AddrPortFrom(a, port)) }
	name := normalizeHost(host)
	if own := literalAddresses(name); len(own) > 0 {
		return slices.ContainsFunc(own, denied)
	}
	return slices.ContainsFunc(u.conns.lookups.addresses(name, func() []netip.Addr {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		return lookupHost(ctx, u.conns.resolver, name)
	}), denied)
}

// lookupCache are where names led to a moment ago. The zero value is ready.
type lookupCache struct {
	mu      sync.Mutex
	entries map[string]cachedLookup
}

type cachedLookup struct {
	at        time.Time
	addresses []netip.Addr
}

func (l *lookupCache) addresses(name string, find func() []netip.Addr) []netip.Addr {
	l.mu.Lock()
	last, ok := l.entries[name]
	l.mu.Unlock()
	if ok && time.Since(last.at) < lookupTTL {
		return last.addresses
	}
	found := cachedLookup{time.Now(), find()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil || len(l.entries) >= maxLookups {
		l.entries = make(map[string]cachedLookup)
	}
	l.entries[name] = found
	return found.addresses
}
