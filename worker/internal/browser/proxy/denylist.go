package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/netrules"
)

// DefaultDenylist denies link-local networks and the metadata services of cloud
// providers.
const DefaultDenylist = "169.254.0.0/16,fe80::/10," +
	"fd00:ec2::/32,fd20:ce::254,fd00:42::42," + // metadata over IPv6
	"100.100.100.200,192.0.0.192,168.63.129.16," + // metadata elsewhere than 169.254.169.254
	"metadata,metadata.google.internal,metadata.goog,metadata.tencentyun.com,instance-data,instance-data.ec2.internal"

// Denylist is a list of denied hosts. They are denied by name and, if this machine
// connects to them itself, by the resolved address. The zero value denies nothing.
type Denylist struct {
	networks []netip.Prefix
	names    []string // without a dot at the end
}

var namePattern = lazy.Regexp(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)

// ParseDenylist parses a comma-separated list of networks (10.0.0.0/8, fe80::/10),
// addresses and names. A name includes all its subdomains. The empty list denies
// nothing.
func ParseDenylist(list string) (Denylist, error) {
	var p Denylist
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.ToLower(strings.TrimSpace(entry)); entry == "" {
			continue
		}
		if network, err := netip.ParsePrefix(entry); err == nil {
			p.networks = append(p.networks, netrules.NormalizePrefix(network))
		} else if address, err := netip.ParseAddr(entry); err == nil && address.Zone() == "" {
			p.networks = append(p.networks, netrules.NormalizePrefix(netip.PrefixFrom(address, address.BitLen())))
		} else if name := strings.TrimSuffix(entry, "."); namePattern().MatchString(name) && len(netrules.ParseLooseIPv4(name)) == 0 {
			p.names = append(p.names, name)
		} else {
			return Denylist{}, fmt.Errorf("%q is not a network, address or name", entry)
		}
	}
	return p, nil
}

// Denies reports whether a host is denied: a name, or an address in any notation
// that programs accept, with or without brackets. Hosts that browsers never send
// (non-ASCII, escapes) are denied, unless the list is empty.
func (p Denylist) Denies(host string) bool {
	if len(p.networks) == 0 && len(p.names) == 0 {
		return false
	}
	host = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(host), "["), "]")
	if address, err := netip.ParseAddr(host); err == nil {
		return slices.ContainsFunc(netrules.WithEmbeddedIPv4(address.WithZone("")), p.deniesAddress)
	}
	host = strings.TrimRight(host, ".")
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '%' || r > '~' }) {
		return true
	}
	return slices.ContainsFunc(netrules.ParseLooseIPv4(host), p.deniesAddress) ||
		slices.ContainsFunc(p.names, func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) })
}

func (p Denylist) deniesAddress(a netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(a) })
}
