package proxy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/netrules"
)

// bypass lists the destinations that do not use the upstream, in Chromium's syntax:
// hosts (x.test, *.x.test, .x.test, 127.0.0.1, [::1]) with an optional port,
// networks (10.0.0.0/8), each with an optional scheme, <local> for names without a
// dot, and <-loopback>. Without <-loopback>, loopback and link-local addresses
// bypass the upstream. The last matching rule decides.
type bypass []bypassRule

// bypassRule is one entry. Empty fields match everything.
type bypassRule struct {
	loopback, local bool // <-loopback>, <local>
	scheme          string
	host            string // a pattern; * matches any text
	network         netip.Prefix
	port            uint16
}

// parseBypass ignores invalid entries, as Chromium does.
func parseBypass(list string) bypass {
	var rules bypass
	for entry := range strings.FieldsFuncSeq(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ';' }) {
		if rule, ok := parseBypassRule(strings.TrimSpace(entry)); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseBypassRule(entry string) (bypassRule, bool) {
	switch entry {
	case "<-loopback>":
		return bypassRule{loopback: true}, true
	case "<local>":
		return bypassRule{local: true}, true
	}
	var rule bypassRule
	if scheme, rest, found := strings.Cut(entry, "://"); found {
		rule.scheme, entry = scheme, rest
	}
	if network, err := netip.ParsePrefix(entry); err == nil {
		rule.network = netrules.NormalizePrefix(network)
		return rule, true
	}
	if colon := strings.LastIndexByte(entry, ':'); colon >= 0 && strings.Count(entry[:colon], ":") == 0 || strings.HasSuffix(entry[:max(colon, 0)], "]") {
		port, err := strconv.ParseUint(entry[colon+1:], 10, 16)
		if err != nil {
			return bypassRule{}, false
		}
		rule.port, entry = uint16(port), entry[:colon]
	}
	if strings.HasPrefix(entry, ".") {
		entry = "*" + entry
	}
	rule.host = netrules.NormalizeHost(entry)
	if address, err := netip.ParseAddr(rule.host); err == nil {
		rule.host = address.Unmap().String()
	}
	return rule, rule.host != "" && !strings.ContainsAny(rule.host, "/<>")
}

// matches reports whether a destination is reached directly. plain is true for http
// requests. A tunnel can carry https, wss or ws, so a rule for one of these schemes
// applies to all of them.
func (b bypass) matches(plain bool, host string, port uint16) bool {
	host = netrules.NormalizeHost(host)
	address, err := netip.ParseAddr(host)
	if err == nil {
		address = address.Unmap().WithZone("")
		host = address.String()
	}
	nearby := netrules.IsLocalhost(host) || address.IsLoopback() || address.IsLinkLocalUnicast()
	for i := range b {
		rule := b[len(b)-1-i]
		switch {
		case rule.loopback:
			if nearby {
				return false
			}
		case rule.local:
			if err != nil && !strings.Contains(host, ".") {
				return true
			}
		case rule.matches(plain, host, address, port):
			return true
		}
	}
	return nearby
}

func (r bypassRule) matches(plain bool, host string, address netip.Addr, port uint16) bool {
	if r.scheme != "" && (r.scheme == "http") != plain || r.port != 0 && r.port != port {
		return false
	}
	if r.network.IsValid() {
		return r.network.Contains(address)
	}
	return matchesPattern(r.host, host)
}

// matchesPattern reports whether a host matches a pattern.
func matchesPattern(pattern, host string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == host
	}
	head, tail := parts[0], parts[len(parts)-1]
	if len(host) < len(head)+len(tail) || !strings.HasPrefix(host, head) || !strings.HasSuffix(host, tail) {
		return false
	}
	between := host[len(head) : len(host)-len(tail)]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(between, part)
		if !found {
			return false
		}
		between = rest
	}
	return true
}
