package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/netrules"
)

// Allowlist is the list of this machine's own addresses that browsers may reach. The
// zero value allows nothing.
type Allowlist struct{ entries []allowEntry }

// allowEntry is a network or a name.
type allowEntry struct {
	network netip.Prefix // invalid if the entry is a name
	name    string
	port    uint16 // 0 for all ports
}

// ParseAllowlist parses a comma-separated list of addresses, networks and names,
// each with a port (127.0.0.1:3000, [::1]:3000, 127.0.0.0/8:3000, app.test:80) or,
// without a port, for all ports. A name allows the addresses it resolves to, but
// only for requests by that name. localhost means 127.0.0.1 and ::1.
func ParseAllowlist(list string) (Allowlist, error) {
	var a Allowlist
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "" {
			continue
		}
		parsed, ok := parseAllowEntry(entry)
		if !ok {
			return Allowlist{}, fmt.Errorf("%q is not an address, network or name with an optional port", entry)
		}
		a.entries = append(a.entries, parsed...)
	}
	return a, nil
}

func parseAllowEntry(entry string) (parsed []allowEntry, ok bool) {
	unbracketed := entry
	if strings.HasPrefix(entry, "[") && strings.HasSuffix(entry, "]") {
		unbracketed = entry[1 : len(entry)-1]
	}
	if parsed, ok = parseAllowHost(unbracketed, 0); ok {
		return parsed, true
	}
	colon := strings.LastIndexByte(entry, ':')
	if colon < 0 {
		return nil, false
	}
	port, err := strconv.ParseUint(entry[colon+1:], 10, 16)
	if err != nil || port == 0 {
		return nil, false
	}
	host, bracketed := strings.CutPrefix(entry[:colon], "[")
	if bracketed != strings.HasSuffix(host, "]") || !bracketed && strings.Contains(host, ":") {
		return nil, false
	}
	return parseAllowHost(strings.TrimSuffix(host, "]"), uint16(port))
}

func parseAllowHost(host string, port uint16) (parsed []allowEntry, ok bool) {
	if network, err := netip.ParsePrefix(host); err == nil {
		return []allowEntry{{network: netrules.NormalizePrefix(network), port: port}}, true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []allowEntry{{network: netrules.NormalizePrefix(netip.PrefixFrom(address, address.BitLen())), port: port}}, address.Zone() == ""
	}
	name := strings.TrimSuffix(host, ".")
	if !namePattern().MatchString(name) || len(netrules.ParseLooseIPv4(name)) > 0 {
		return nil, false
	}
	if !netrules.IsLocalhost(name) {
		return []allowEntry{{name: name, port: port}}, true
	}
	for _, address := range netrules.LiteralAddresses(name) {
		parsed = append(parsed, allowEntry{network: netip.PrefixFrom(address, address.BitLen()), port: port})
	}
	return parsed, true
}

// allows reports whether a client that asks for host, a normalized host, may reach a
// port of one of this machine's addresses.
func (a Allowlist) allows(host string, address netip.Addr, port uint16) bool {
	switch address = address.Unmap(); address {
	case netip.IPv4Unspecified(): // a connection to 0.0.0.0 reaches 127.0.0.1
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case netip.IPv6Unspecified():
		address = netip.IPv6Loopback()
	}
	return slices.ContainsFunc(a.entries, func(e allowEntry) bool {
		if e.port != 0 && e.port != port {
			return false
		}
		return e.name == host && host != "" || e.network.IsValid() && e.network.Contains(address)
	})
}
