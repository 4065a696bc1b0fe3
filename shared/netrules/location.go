package netrules

import (
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

var schemeName = lazy.Regexp(`^[a-z][a-z0-9+.-]*$`)

// location is a URL. It has only a scheme unless that is http or https.
type location struct {
	scheme string // empty if the URL is not valid
	host   string // normalized
	port   uint16
	path   string // with the query, as in the URL
}

// parseLocation splits a URL as Chromium spells it. Package net/url would refuse some of
// these, for example those with a percent sign in the path.
func parseLocation(address string) location {
	scheme, rest, found := strings.Cut(address, ":")
	scheme = strings.ToLower(scheme)
	if !found || !schemeName().MatchString(scheme) {
		return location{}
	}
	l := location{scheme: scheme, port: 443}
	if !l.isWeb() {
		return location{scheme: scheme}
	}
	if scheme == "http" {
		l.port = 80
	}
	rest, found = strings.CutPrefix(rest, "//")
	rest, _, _ = strings.Cut(rest, "#")
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, l.path = rest[:i], rest[i:]
	}
	if !strings.HasPrefix(l.path, "/") {
		l.path = "/" + l.path
	}
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		port, err := strconv.ParseUint(host[i+1:], 10, 16)
		if err != nil {
			return location{}
		}
		host, l.port = host[:i], uint16(port)
	}
	if !found || host == "" || strings.ContainsFunc(authority, func(r rune) bool { return r <= ' ' || r == '\\' || r == '%' }) {
		return location{}
	}
	l.host = NormalizeHost(host)
	return l
}

// HostOf returns the normalized host of a URL of http or https; empty for others.
func HostOf(address string) string { return parseLocation(address).host }

func (l location) isWeb() bool { return l.scheme == "http" || l.scheme == "https" }
