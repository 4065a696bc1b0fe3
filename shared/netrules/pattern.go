package netrules

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/browser-svc/svc/shared/lazy"
)

var (
	errURLPattern = errors.New("must be a host (example.com, *.example.com), an address or network, or a URL of http or https, " +
		"in which * in the path stands for any characters; or a scheme with its colon (data:)")
	errWebPattern = errors.New("must be a host (example.com, *.example.com), an address or network, or a URL of http or https: " +
		"other documents are shown without a request that could wait for a person")
	errHostPattern = errors.New("must be a host (example.com, *.example.com), an address or a network, with an optional port")

	hostName   = lazy.Regexp(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)
	schemeOnly = lazy.Regexp(`^[a-z][a-z0-9+.-]*:$`)
)

// pattern matches destinations. Its parts are those of the text that it was parsed from.
type pattern struct {
	text       string
	scheme     string // empty: http and https
	schemeOnly bool
	any        bool         // every host
	name       string       // a host; with subdomains also those below it
	subdomains bool         // *.name
	network    netip.Prefix // valid: the addresses in it, in place of a name
	port       uint16       // 0: every port
	path       *regexp.Regexp
}

// parseURLPattern parses a pattern of navigations.
func parseURLPattern(text string) (pattern, error) {
	lower := strings.ToLower(text)
	if schemeOnly().MatchString(lower) {
		return pattern{text: text, scheme: strings.TrimSuffix(lower, ":"), schemeOnly: true}, nil
	}
	scheme, rest, found := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case !found:
		scheme, rest = "", text
	case scheme != "http" && scheme != "https":
		return pattern{}, errURLPattern
	}
	if _, err := netip.ParsePrefix(rest); err == nil {
		p, err := parseHostPattern(rest)
		p.text, p.scheme = text, scheme
		return p, err
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	p, err := parseHostPattern(host)
	if err != nil || strings.ContainsAny(path, "#\\ ") {
		return pattern{}, errURLPattern
	}
	p.text, p.scheme = text, scheme
	if p.network.IsValid() && scheme == "" && path != "" { // a network with an invalid length
		return pattern{}, errURLPattern
	}
	if path != "" && path != "/" {
		if p.path, err = pathPattern(path); err != nil {
			return pattern{}, errURLPattern
		}
	}
	return p, nil
}

// parseWebPattern parses a pattern of navigations that are requested from a server.
func parseWebPattern(text string) (pattern, error) {
	p, err := parseURLPattern(text)
	if err == nil && p.schemeOnly {
		return pattern{}, errWebPattern
	}
	return p, err
}

// pathPattern compiles a path with an optional query, in which * stands for any characters.
func pathPattern(path string) (*regexp.Regexp, error) {
	parts := strings.Split(path, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.Compile("^(?s:" + strings.Join(parts, ".*") + ")$")
}

// parseHostPattern parses a pattern of connections: a host, with an optional port.
func parseHostPattern(text string) (pattern, error) {
	p := pattern{text: text}
	if network, err := netip.ParsePrefix(text); err == nil {
		p.network = NormalizePrefix(network)
		return p, nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" { // IPv6 without brackets has no port
		p.network = addressPrefix(address)
		return p, nil
	}
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		port, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || port == 0 {
			return pattern{}, errHostPattern
		}
		host, p.port = text[:i], uint16(port)
	}
	if host == "*" {
		p.any = true
		return p, nil
	}
	host, p.subdomains = strings.CutPrefix(host, "*.")
	if strings.HasPrefix(host, "[") != strings.HasSuffix(host, "]") {
		return pattern{}, errHostPattern
	}
	host = NormalizeHost(host)
	if addresses := ParseLooseIPv4(host); len(addresses) > 0 || strings.Contains(host, ":") {
		address, err := netip.ParseAddr(host)
		if err != nil || address.Zone() != "" || p.subdomains {
			return pattern{}, errHostPattern
		}
		p.network = addressPrefix(address)
		return p, nil
	}
	ascii, err := asciiHost(host)
	if err != nil || !hostName().MatchString(ascii) {
		return pattern{}, errHostPattern
	}
	p.name = ascii
	return p, nil
}

// asciiHost returns a normalized host with its international labels encoded.
func asciiHost(host string) (string, error) {
	if strings.ContainsAny(host, "_:") {
		return host, nil // names of the DNS that are not names of hosts, and addresses
	}
	return idna.Lookup.ToASCII(host)
}

func addressPrefix(a netip.Addr) netip.Prefix {
	return NormalizePrefix(netip.PrefixFrom(a, a.BitLen()))
}

// matchesHost reports whether the pattern matches a normalized host and a port.
func (p *pattern) matchesHost(host string, port uint16) bool {
	switch {
	case p.schemeOnly || p.port != 0 && p.port != port:
		return false
	case p.any:
		return true
	case p.network.IsValid():
		return slices.ContainsFunc(LiteralAddresses(host), p.matchesAddress)
	default:
		return host == p.name || p.subdomains && strings.HasSuffix(host, "."+p.name)
	}
}

// matchesAddress reports whether an address is in the network of the pattern.
func (p *pattern) matchesAddress(a netip.Addr) bool {
	return p.network.IsValid() && slices.ContainsFunc(WithEmbeddedIPv4(a.WithZone("")), p.network.Contains)
}

// matchesLocation reports whether the pattern matches a URL.
func (p *pattern) matchesLocation(l location) bool {
	if p.schemeOnly {
		return l.scheme == p.scheme
	}
	return l.isWeb() && (p.scheme == "" || p.scheme == l.scheme) && p.matchesHost(l.host, l.port) && (p.path == nil || p.path.MatchString(l.path))
}
