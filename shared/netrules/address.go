package netrules

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// NormalizeHost returns a host in lower case, without brackets and trailing dots.
func NormalizeHost(host string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(host), "["), "]"), ".")
}

// LiteralAddresses returns the addresses that a normalized host denotes without
// resolution: an address in any notation, or localhost. Other names have none.
func LiteralAddresses(host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.WithZone("")}
	}
	if IsLocalhost(host) {
		return []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return ParseLooseIPv4(host)
}

// IsLocalhost reports whether a normalized host always denotes this machine (RFC
// 6761, 6.3).
func IsLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// NormalizePrefix converts a network of IPv4-mapped addresses to IPv4.
func NormalizePrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
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

// WithEmbeddedIPv4 returns an address and the IPv4 addresses embedded in it.
func WithEmbeddedIPv4(a netip.Addr) []netip.Addr {
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

// ParseLooseIPv4 parses one to four numbers as programs do: the last number fills
// the rest of the address, 0x is hexadecimal, and a leading 0 may or may not mean
// octal. It returns no address for anything else.
func ParseLooseIPv4(host string) []netip.Addr {
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
