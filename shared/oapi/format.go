package oapi

import (
	"encoding/base64"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
)

// textFormats are the supported string formats. A format with nil has no syntax to
// validate.
var textFormats = map[string]func([]byte) bool{
	"uuid":          isUUID, // common in long lists, so it avoids string conversions
	"uri":           asString(isURI),
	"uri-reference": asString(func(s string) bool { u, err := url.Parse(s); return err == nil && isURIText(s, u) }),
	"email":         asString(isEmail),
	"date-time":     isDateTime,
	"date":          asString(func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }),
	"byte":          asString(isBase64),
	"ipv4":          asString(func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }),
	"ipv6":          asString(func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() }),
	"hostname":      asString(isHostname),
	"password":      nil,
	"binary":        nil,
}

func asString(wellFormed func(string) bool) func([]byte) bool {
	return func(s []byte) bool { return wellFormed(string(s)) }
}

// formatNouns describe the formats for messages.
var formatNouns = map[string]string{
	"uuid":          "a UUID, such as 0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f",
	"uri":           "an absolute URL, such as https://example.com/page",
	"uri-reference": "a URL or a path",
	"email":         "an e-mail address, such as ann@example.com",
	"date-time":     "a date and time with its zone, such as 2026-01-31T12:00:00Z",
	"date":          "a date, such as 2026-01-31",
	"byte":          "base64 text",
	"ipv4":          "an IPv4 address",
	"ipv6":          "an IPv6 address",
	"hostname":      "a host name",
}

// isUUID accepts the canonical form only, so that UUIDs can be compared as text.
func isUUID(s []byte) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHexDigit[c] {
			return false
		}
	}
	return true
}

// isHexDigit is a table because branches on random digits are mispredicted.
var isHexDigit = [256]bool{
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true,
	'a': true, 'b': true, 'c': true, 'd': true, 'e': true, 'f': true,
	'A': true, 'B': true, 'C': true, 'D': true, 'E': true, 'F': true,
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !u.IsAbs() || !isURIText(s, u) {
		return false
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss", "ftp":
		return u.Hostname() != ""
	}
	return u.Host != "" || u.Path != "" || u.Opaque != ""
}

// isURIText reports whether s has only the characters of RFC 3986. url.Parse, which
// returned u, accepts more.
func isURIText(s string, u *url.URL) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) || !isHexDigit[s[i+1]] || !isHexDigit[s[i+2]] {
				return false
			}
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			return false
		}
	}
	// Brackets are allowed around an IPv6 address only.
	inHost := strings.Count(u.Host, "[") + strings.Count(u.Host, "]")
	return strings.Count(s, "[")+strings.Count(s, "]") == inHost && strings.Count(s, "#") <= 1
}

// isEmail accepts an address alone, without a name or angle brackets.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= 254
}

func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
		}) {
			return false
		}
	}
	return true
}

// dateTime is RFC 3339 in upper case. time.Time also accepts a comma before the
// fraction.
var dateTime = lazy.Regexp(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$`)

// isDateTime accepts the years 1 to 9999 in UTC: JSON encoding fails for later
// years, and PostgreSQL has no earlier ones.
func isDateTime(s []byte) bool {
	var t time.Time
	if !dateTime().Match(s) || t.UnmarshalText(s) != nil {
		return false
	}
	year := t.UTC().Year()
	return 1 <= year && year <= 9999
}

// isBase64 also refuses line breaks, which the decoder skips.
func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}

var codePoint = lazy.Regexp(`\\u([0-9A-Fa-f]{4})`)

// goPattern converts \uXXXX escapes, which Go regular expressions do not support.
func goPattern(pattern string) string {
	return codePoint().ReplaceAllString(pattern, `\x{$1}`)
}
