package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
)

// outbound connects to destinations, directly or through an upstream.
type outbound interface {
	// connect opens a tunnel to target (host:port) for a request with this header. ctx
	// bounds the opening, not the tunnel.
	connect(ctx context.Context, target string, header http.Header) (duplex, error)
	// denies reports whether this outbound denies a destination that the policy does
	// not deny by name.
	denies(ctx context.Context, host string, port uint16) bool
	transport() *http.Transport // for http URLs
	// authorization returns the value of Proxy-Authorization for them, given the
	// browser's; empty for none.
	authorization(browserValue string) string
}

// route is an outbound with the reverse proxy for http URLs.
type route struct {
	outbound
	transport    *http.Transport // of reverseProxy
	reverseProxy *httputil.ReverseProxy
}

func (f *Forwarder) newRoute(out outbound) *route {
	transport := out.transport()
	return &route{out, transport, f.newReverseProxy(out, transport)}
}

// closeIdle closes idle connections. Requests in progress continue.
func (r *route) closeIdle() { r.transport.CloseIdleConnections() }

// routing is the configuration of an address.
type routing struct {
	upstream *route // nil: everything is direct
	proxy    string // host:port of the upstream
	bypass   bypass
}

// SetUpstream sets the upstream for new requests; nil means direct. Open tunnels and
// requests in progress keep their route. The upstream is not contacted. If the
// upstream is invalid or, with ErrDenied, its address is denied, nothing changes.
// Errors never contain the credentials.
func (f *Forwarder) SetUpstream(settings *Upstream) error {
	next := &routing{}
	if settings != nil {
		up, err := newUpstream(*settings, f.conns)
		if err != nil {
			return err
		}
		next = &routing{upstream: f.newRoute(up), proxy: up.url.Host, bypass: parseBypass(settings.Bypass)}
	}
	if previous := f.routing.Swap(next); previous.upstream != nil {
		previous.upstream.closeIdle()
	}
	return nil
}

// routeTo returns the route to a destination.
func (f *Forwarder) routeTo(current *routing, plain bool, host string, port uint16) *route {
	if current.upstream == nil || current.bypass.matches(plain, host, port) {
		return f.direct
	}
	return current.upstream
}
