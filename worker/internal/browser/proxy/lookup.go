package proxy

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

const (
	lookupTTL  = 10 * time.Second // how long an answer is cached
	maxLookups = 1000
)

// denies implements outbound. A proxy on this machine connects from this machine, so
// names are resolved here first and denied if they resolve to a denied address.
// Names that this machine cannot resolve are left to the proxy.
func (u *upstream) denies(ctx context.Context, host string, port uint16) bool {
	policy := u.conns.policy
	if !slices.ContainsFunc(u.endpoint.resolve(), policy.local.contains) {
		return false
	}
	denied := func(a netip.Addr) bool {
		remote := netip.AddrPortFrom(a, port)
		return policy.deniesAddress(host, remote) || u.conns.limits.rules.Load().ConnectAddress(remote).Denied
	}
	name := netrules.NormalizeHost(host)
	if own := netrules.LiteralAddresses(name); len(own) > 0 {
		return slices.ContainsFunc(own, denied)
	}
	return slices.ContainsFunc(u.conns.lookups.addresses(name, func() []netip.Addr {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		return lookupHost(ctx, u.conns.resolver, name)
	}), denied)
}

// lookupCache caches resolved names. The zero value is ready to use.
type lookupCache struct {
	mu      sync.Mutex
	entries map[string]cachedLookup
}

type cachedLookup struct {
	resolvedAt time.Time
	addresses  []netip.Addr
}

func (l *lookupCache) addresses(name string, find func() []netip.Addr) []netip.Addr {
	l.mu.Lock()
	last, ok := l.entries[name]
	l.mu.Unlock()
	if ok && time.Since(last.resolvedAt) < lookupTTL {
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
