package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
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
			p.networks = append(p.networks, normalizePrefix(network))
		} else if address, err := netip.ParseAddr(entry); err == nil && address.Zone() == "" {
			p.networks = append(p.networks, normalizePrefix(netip.PrefixFrom(address, address.BitLen())))
		} else if name := strings.TrimSuffix(entry, "."); namePattern().MatchString(name) && len(parseLooseIPv4(name)) == 0 {
			p.names = append(p.names, name)
		} else {
			return Denylist{}, fmt.Errorf("%q is not a network, address or name", entry)
		}
	}
	return p, nil
}

// normalizePrefix converts a network of IPv4-mapped addresses to IPv4.
func normalizePrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
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
		return slices.ContainsFunc(withEmbeddedIPv4(address.WithZone("")), p.deniesAddress)
	}
	host = strings.TrimRight(host, ".")
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '%' || r > '~' }) {
		return true
	}
	return slices.ContainsFunc(parseLooseIPv4(host), p.deniesAddress) ||
		slices.ContainsFunc(p.names, func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) })
}

func (p Denylist) deniesAddress(a netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// embeddings are the IPv6 networks that contain an IPv4 address, and its offset in bytes.
var embeddings = []struct {
	network netip.Prefix
	offset  int
}{
	{netip.MustParsePrefix("::ffff:0:0/96"), 12}, // mapped
	{netip.MustParsePrefix("64:ff9b::/96"), 12},  // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},      // 6to4
}

// withEmbeddedIPv4 returns an address and the IPv4 addresses embedded in it.
func withEmbeddedIPv4(a netip.Addr) []netip.Addr {
	found := []netip.Addr{a}
	if a.Is4() {
		return found
	}
	bytes := a.As16()
	for _, e := range embeddings {
		if e.network.Contains(a) {
			found = append(found, netip.AddrFrom4([4]byte(bytes[e.offset:])))
		}
	}
	return found
}

// parseLooseIPv4 parses one to four numbers as programs do: the last number fills
// the rest of the address, 0x is hexadecimal, and a leading 0 may or may not mean
// octal. It returns no address for anything else.
func parseLooseIPv4(host string) []netip.Addr {
	var found []netip.Addr
	for _, octal := range []bool{true, false} {
		if a, err := parseIPv4(host, octal); err == nil && !slices.Contains(found, a) {
			found = append(found, a)
		}
	}
	return found
}

func parseIPv4(host string, octal bool) (netip.Addr, error) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, errors.New("more than four numbers")
	}
	var value uint64
	for i, part := range parts {
		base, digits := 10, part
		if rest, hex := strings.CutPrefix(part, "0x"); hex {
			base, digits = 16, "0"+rest
		} else if octal && strings.HasPrefix(part, "0") {
			base = 8
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(digits, base, bits)
		if err != nil {
			return netip.Addr{}, err
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), nil
}
