// Package clientaddr groups client addresses, for limits by client.
package clientaddr

import "net/netip"

// ipv6Bits is the prefix length of the IPv6 network that one subscriber has. An IPv6
// client can use any address in its network.
const ipv6Bits = 64

// Network returns the network whose requests count as those of one client: an IPv4
// address or a /64 network of IPv6 addresses. ok is false if the address is invalid.
func Network(address string) (network netip.Prefix, ok bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}, false
	}
	ip = ip.Unmap().WithZone("")
	return netip.PrefixFrom(ip, min(ip.BitLen(), ipv6Bits)).Masked(), true
}

// Key returns Network as text: an IPv4 address without a prefix length, an IPv6 network,
// or an invalid address unchanged.
func Key(address string) string {
	network, ok := Network(address)
	switch {
	case !ok:
		return address
	case network.IsSingleIP():
		return network.Addr().String()
	}
	return network.String()
}
