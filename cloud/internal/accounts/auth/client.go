package auth

import (
	"strings"
	"unicode"

	"github.com/browser-svc/svc/shared/clientaddr"
)

// Client is the client that sent a request.
type Client struct {
	Address   string // IP address, as reported by trusted proxies
	UserAgent string // as sent by the client; may be empty
}

// network returns the network by which the client's attempts are counted.
func (c Client) network() string { return clientaddr.Key(c.Address) }

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
