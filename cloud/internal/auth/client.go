package auth

import (
	"net/netip"
	"strings"
	"unicode"
)

// Client is where a request comes from.
type Client struct {
	Address   string // IP address, as the trusted proxies tell it
	UserAgent string // as the client calls itself; may be empty
}

// ipv6Site is how much of an IPv6 address one customer of a network shares: who
// has one address has all of these.
const ipv6Site = 64

// network is what attempts of a client are counted by.
func (c Client) network() string {
	address, err := netip.ParseAddr(c.Address)
	if err != nil {
		return c.Address
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	site, _ := address.Prefix(ipv6Site) // fails for more bits than there are
	return site.String()
}

const maxUserAgent = 512

// userAgent is what to store of the name that the client gives itself.
func (c Client) userAgent() string {
	text := c.UserAgent[:min(len(c.UserAgent), maxUserAgent)]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
}
