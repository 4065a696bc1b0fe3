// Package proxyaddr validates proxy settings. The cloud uses it when a profile is
// written, the worker when a browser is launched.
package proxyaddr

import (
	"net/url"
	"strconv"
	"strings"
)

// Problem is an error of one field: server, username or password.
type Problem struct{ Field, Message string }

// Check returns the errors of a proxy (scheme://host:port) and its credentials.
// Empty credentials mean none.
func Check(server, username, password string) []Problem {
	var found []Problem
	u, err := url.Parse(server)
	if err != nil || !ValidHost(u) {
		found = append(found, Problem{"server", "must be scheme://host:port"})
	}
	socks := strings.HasPrefix(server, "socks5:")
	if !socks && strings.Contains(username, ":") {
		found = append(found, Problem{"username", "must not contain a colon: HTTP proxies use a colon to separate the user name from the password"})
	}
	if socks && username == "" && password != "" {
		found = append(found, Problem{"username", "a SOCKS proxy accepts a password only with a user name"})
	}
	for _, text := range []struct{ field, value string }{{"username", username}, {"password", password}} {
		if socks && len(text.value) > maxSOCKSLength {
			found = append(found, Problem{text.field, "must have at most 255 bytes, the maximum for SOCKS proxies"})
		}
	}
	return found
}

// maxSOCKSLength is the maximum length of a user name or password in bytes (RFC
// 1929, 2).
const maxSOCKSLength = 255

// ValidHost reports whether a URL has a host and a valid port, or no port.
func ValidHost(u *url.URL) bool {
	if u.Port() == "" {
		return u.Hostname() != "" && !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.Atoi(u.Port())
	return u.Hostname() != "" && err == nil && port >= 1 && port <= 65535
}
