package vault

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/browser-svc/svc/shared/netrules"
)

var (
	errOrigin       = errors.New("must be an origin such as https://accounts.example.com, without a path")
	errPlainHTTP    = errors.New("must have https, or a loopback host")
	errPublicSuffix = errors.New("must not have a wildcard for a whole public suffix")
)

// defaultPorts has the ports that an origin does not state.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// pattern is an origin in its normal form, or the origins of all hosts below one.
type pattern struct {
	scheme, host, port string
	subdomains         bool // the hosts below host, and not host itself
}

// parsePattern parses an allowed origin.
func parsePattern(text string) (pattern, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || defaultPorts[u.Scheme] == "" {
		return pattern{}, errOrigin
	}
	p := pattern{scheme: u.Scheme, port: u.Port()}
	if p.port == "" {
		p.port = defaultPorts[p.scheme]
	}
	if port, err := strconv.ParseUint(p.port, 10, 16); err != nil || strconv.FormatUint(port, 10) != p.port {
		return pattern{}, errOrigin
	}
	p.host, p.subdomains = strings.CutPrefix(u.Hostname(), "*.")
	loopback, err := p.parseHost()
	switch {
	case err != nil:
		return pattern{}, err
	case p.scheme == "http" && !loopback:
		return pattern{}, errPlainHTTP
	}
	return p, nil
}

// parseHost replaces the host by the form that browsers use, and reports whether it
// denotes this machine.
func (p *pattern) parseHost() (loopback bool, err error) {
	if address, err := netip.ParseAddr(p.host); err == nil {
		if p.subdomains || address.Zone() != "" {
			return false, errOrigin
		}
		p.host = address.String()
		return address.IsLoopback(), nil
	}
	host, err := idna.Lookup.ToASCII(p.host)
	if err != nil || host == "" || len(netrules.ParseLooseIPv4(host)) > 0 || slices.Contains(strings.Split(host, "."), "") {
		return false, errOrigin
	}
	if suffix, listed := publicsuffix.PublicSuffix(host); p.subdomains && suffix == host && (listed || strings.Contains(suffix, ".")) {
		return false, errPublicSuffix
	}
	p.host = host
	return netrules.IsLocalhost(host), nil
}

// String returns the pattern as it is stored.
func (p pattern) String() string {
	host := p.host
	if p.subdomains {
		host = "*." + host
	}
	if p.port != defaultPorts[p.scheme] {
		return p.scheme + "://" + net.JoinHostPort(host, p.port)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return p.scheme + "://" + host
}

// allowsOrigin reports whether the secret allows the origin of a document.
func (r *row) allowsOrigin(text string) bool {
	origin, err := parsePattern(text)
	if err != nil || origin.subdomains {
		return false
	}
	return slices.ContainsFunc(r.Origins, func(allowed string) bool {
		p, err := parsePattern(allowed)
		return err == nil && p.includes(origin)
	})
}

// includes reports whether the pattern includes an origin.
func (p pattern) includes(origin pattern) bool {
	if p.subdomains {
		return p.scheme == origin.scheme && p.port == origin.port && strings.HasSuffix(origin.host, "."+p.host)
	}
	return p == origin
}
