package netrules

import (
	"errors"
	"net/url"
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
	if !found || host == "" || strings.Contains(host, "%") || strings.ContainsFunc(authority, func(r rune) bool { return r <= ' ' || r == '\\' }) {
		return location{}
	}
	l.host = NormalizeHost(host)
	return l
}

// destination returns the location that a request connects to, and whether it is that of a
// WebSocket: http and https stand for ws and wss.
func destination(address string) (l location, socket bool) {
	l = parseLocation(address)
	if l.scheme != "ws" && l.scheme != "wss" {
		return l, false
	}
	return parseLocation("http" + address[len("ws"):]), true
}

var errURL = errors.New("must be a URL with its scheme, for example https://example.com/path")

// Canonical returns a URL of a server as Chromium spells it, and others unchanged.
func Canonical(text string) (string, error) {
	text = strings.TrimSpace(text)
	l := parseLocation(text)
	if !l.isWeb() && l.scheme != "ws" && l.scheme != "wss" && l.scheme != "" {
		return text, nil
	}
	text = withPlainPath(text)
	u, err := url.Parse(text)
	if err != nil && strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errURL
	}
	if err == nil { // url.Parse refuses a percent sign in the path, which Chromium does not
		host, err := asciiHost(NormalizeHost(u.Hostname()))
		if err != nil {
			return "", errURL
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if port := u.Port(); port != "" {
			host += ":" + port
		}
		if u.Host = host; u.Path == "" {
			u.Path = "/"
		}
		resolved := (&url.URL{}).ResolveReference(u).String() // without dot segments
		if strings.Contains(text, "|") {
			resolved = strings.ReplaceAll(resolved, "%7C", "|") // which Chromium does not encode
		}
		text = resolved
	}
	if l, _ := destination(text); l.host == "" {
		return "", errURL
	}
	return text, nil
}

// withPlainPath returns a URL with slashes in place of backslashes, and decodes the segments
// of its path that only have dots.
func withPlainPath(address string) string {
	end := len(address)
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		end = i
	}
	segments := strings.Split(strings.ReplaceAll(address[:end], `\`, "/"), "/")
	for i, segment := range segments {
		if plain := strings.ReplaceAll(strings.ToLower(segment), "%2e", "."); plain == "." || plain == ".." {
			segments[i] = plain
		}
	}
	return strings.Join(segments, "/") + address[end:]
}

// HostOf returns the normalized host of a URL of http or https; empty for others.
func HostOf(address string) string { return parseLocation(address).host }

func (l location) isWeb() bool { return l.scheme == "http" || l.scheme == "https" }
