package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/netrules"
)

// Other is the name of the sum of the hosts, and of the rules, that are not listed. No host
// and no rule has this name. The level of such rules is other, too.
const Other = "<other>"

const (
	maxHosts    = 1000 // of a Forwarder; the others are summed
	maxHostName = 253  // bytes
	maxRules    = 20   // that denied requests for one host; the others are summed

	otherLevel = "other"
)

// Totals are sums. A connection is a tunnel or a plain request. Bytes are those of TCP
// connections to destinations and upstreams, with TLS, headers and handshakes of proxies.
type Totals struct{ Connections, Sent, Received, Denied int64 }

// HostUsage is what a browser has transferred to and from a host, as it was requested, in
// lower case. A denied document of a scheme without hosts has the scheme with its colon.
type HostUsage struct {
	Host string
	Totals
	Rules []RuleCount // that denied requests, the most frequent first
	Proxy string      // host:port of the upstream of the latest connection; empty: direct
}

// RuleCount counts the requests that a rule denied.
type RuleCount struct {
	Level, Rule string
	Count       int64
}

// Usage is what a browser has transferred, and what it was denied.
type Usage struct {
	Totals
	Hosts []HostUsage // the most bytes first
	Proxy string      // host:port of the upstream; empty: direct
}

// Usage returns the usage so far, also after Close. Open tunnels are included. Hosts beyond
// the limit are summed; the limit is at least 1.
func (f *Forwarder) Usage(limit int) Usage {
	f.conns.countKernelBytes()
	usage := f.conns.usage.snapshot()
	usage.Proxy = f.routing.Load().proxy
	usage.fold(limit)
	return usage
}

// CountDenied counts a request that was denied elsewhere, by its host or its scheme.
func (f *Forwarder) CountDenied(host string, v netrules.Verdict) {
	f.policy.denied.byRule.Add(1)
	f.conns.usage.deny(host, v)
}

// transfer counts the bytes of connections.
type transfer struct{ received, sent atomic.Int64 }

func (t *transfer) add(received, sent int64) {
	t.received.Add(received)
	t.sent.Add(sent)
}

// hostCounts counts for one host.
type hostCounts struct {
	transfer
	connections atomic.Int64
	proxy       atomic.Pointer[string]
	rules       map[netrules.Verdict]int64 // guarded by the usage
}

// usageCounts counts by host.
type usageCounts struct {
	mu    sync.Mutex
	hosts map[string]*hostCounts
}

// host returns the counts of a host.
func (u *usageCounts) host(name string) *hostCounts {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.find(name)
}

// find returns the counts of a host. The caller holds the lock.
func (u *usageCounts) find(name string) *hostCounts {
	name = netrules.NormalizeHost(name)
	counts := u.hosts[name]
	if counts == nil && (len(u.hosts) >= maxHosts || len(name) > maxHostName || name == "") { // "" is the root domain
		name = Other
		counts = u.hosts[name]
	}
	if counts == nil {
		counts = &hostCounts{}
		u.hosts[name] = counts
	}
	return counts
}

// deny counts a denied request.
func (u *usageCounts) deny(host string, v netrules.Verdict) {
	if name, _, err := splitTarget(host); err == nil {
		host = name
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	counts := u.find(host)
	if counts.rules == nil {
		counts.rules = map[netrules.Verdict]int64{}
	}
	if _, found := counts.rules[v]; !found && len(counts.rules) >= maxRules {
		v = netrules.Verdict{Denied: true, Level: otherLevel, Rule: Other}
	}
	counts.rules[v]++
}

func (u *usageCounts) snapshot() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	var usage Usage
	for name, counts := range u.hosts {
		item := HostUsage{Host: name}
		item.Connections, item.Sent, item.Received = counts.connections.Load(), counts.sent.Load(), counts.received.Load()
		if address := counts.proxy.Load(); address != nil {
			item.Proxy = *address
		}
		for v, count := range counts.rules {
			item.Denied += count
			item.Rules = append(item.Rules, RuleCount{v.Level, v.Rule, count})
		}
		item.sortRules()
		if item.Totals == (Totals{}) { // no request has reached it
			continue
		}
		usage.add(item.Totals)
		usage.Hosts = append(usage.Hosts, item)
	}
	usage.sortHosts()
	return usage
}

func (u *Usage) sortHosts() {
	slices.SortFunc(u.Hosts, func(a, b HostUsage) int {
		return cmp.Or(cmp.Compare(b.Sent+b.Received, a.Sent+a.Received), cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Host, b.Host))
	})
}

func (h *HostUsage) sortRules() {
	slices.SortFunc(h.Rules, func(a, b RuleCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Level, b.Level))
	})
}

// fold sums the hosts beyond the limit.
func (u *Usage) fold(limit int) {
	if len(u.Hosts) <= limit {
		return
	}
	listed, other := []HostUsage{}, HostUsage{Host: Other}
	for _, host := range u.Hosts {
		if host.Host != Other && len(listed) < limit-1 {
			listed = append(listed, host)
			continue
		}
		other.add(host.Totals)
		other.mergeRules(host.Rules)
	}
	u.Hosts = append(listed, other)
	u.sortHosts()
}

// mergeRules adds the counts of rules, and sums those beyond maxRules.
func (h *HostUsage) mergeRules(rules []RuleCount) {
	for _, rule := range rules {
		same := func(r RuleCount) bool { return r.Level == rule.Level && r.Rule == rule.Rule }
		if !slices.ContainsFunc(h.Rules, same) && len(h.Rules) >= maxRules {
			rule.Level, rule.Rule = otherLevel, Other
		}
		if i := slices.IndexFunc(h.Rules, same); i >= 0 {
			h.Rules[i].Count += rule.Count
			continue
		}
		h.Rules = append(h.Rules, rule)
	}
	h.sortRules()
}

func (t *Totals) add(other Totals) {
	t.Connections += other.Connections
	t.Sent += other.Sent
	t.Received += other.Received
	t.Denied += other.Denied
}

type hostKey struct{}

// withHost returns a context for a request for a host: connections that it dials or reuses
// count for the host.
func withHost(ctx context.Context, host *hostCounts) context.Context {
	return context.WithValue(ctx, hostKey{}, host)
}

// countsOf returns the host of withHost, or nil.
func countsOf(ctx context.Context) *hostCounts {
	host, _ := ctx.Value(hostKey{}).(*hostCounts)
	return host
}

// withTrace counts a request that a transport sends for its host.
func withTrace(ctx context.Context) context.Context {
	host := countsOf(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		raw := info.Conn
		if secure, ok := raw.(*tls.Conn); ok {
			raw = secure.NetConn()
		}
		if c, ok := raw.(*conn); ok { // its requests follow each other
			c.assign(host)
		}
		host.connections.Add(1)
	}})
}

// assign counts the bytes of a connection for a host from now on. The host is nil for
// checks of upstreams.
func (c *conn) assign(host *hostCounts) {
	if host == nil {
		return
	}
	c.host.Store(host)
	host.proxy.Store(c.proxy)
}
