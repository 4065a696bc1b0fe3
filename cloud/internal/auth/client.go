package auth

import (
	"net/netip"
	"strings"
	"unicode"
)

// Client is the client that sent a request.
type Client struct {
	Address   string // IP address, as reported by trusted proxies
	UserAgent string // as sent by the client; may be empty
}

// ipv6Site is the prefix length of the IPv6 network that one customer has.
const ipv6Site = 64

// network returns the network by which the client's attempts are counted.
func (c Client) network() string {
	address, err := netip.ParseAddr(c.Address)
	if err != nil {
		return c.Address
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	site, _ := address.Prefix(ipv6Site) // fails if the address has fewer bits
	return site.String()
}

const maxUserAgent = 512

// userAgent returns the user agent to store, truncated.
func (c Client) userAgent() string {
	text := c.UserAgent[:min(len(c.UserAgent), maxUserAgent)]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
}
