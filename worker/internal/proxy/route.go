package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
)

// outbound is a way out: straight, or through an upstream.
type outbound interface {
	// connect opens a tunnel to target (host:port). ctx bounds the opening, not
	// the tunnel.
	connect(ctx context.Context, target, userAgent string) (duplex, error)
	// denies reports whether a destination that the EgressPolicy does not deny by its name
	// is denied on this way.
	denies(ctx context.Context, host string, port uint16) bool
	transport() *http.Transport // for http URLs
	authorization() string      // value of Proxy-Authorization for them; empty for none
}

// route is an outlet with what carries http URLs through it.
type route struct {
	outbound
	reverseProxy *httputil.ReverseProxy
}

func (f *Forwarder) newRoute(out outbound) *route { return &route{out, f.newReverseProxy(out)} }

// closeIdle lets go of what nobody uses any more; what is in use goes on.
func (r *route) closeIdle() {
	r.reverseProxy.Transport.(*http.Transport).CloseIdleConnections()
}

// routing is where a Forwarder leads at a time.
type routing struct {
	upstream *route // nil: everything leads straight out
	bypass   bypass
}

// SetUpstream leads through an upstream from now on, or straight out when it is nil. A
// tunnel that is open stays where it is, and so does a request under way;
// whatever is asked for next, over whichever connection, takes the new way. The
// upstream is not contacted before. It fails, and nothing changes, when the
// upstream's description is not usable or, with ErrDenied, its address denied;
// no error carries the credentials.
func (f *Forwarder) SetUpstream(to *Upstream) error {
	next := &routing{}
	if to != nil {
		up, err := newUpstream(*to, f.conns)
		if err != nil {
			return err
		}
		next = &routing{upstream: f.newRoute(up), bypass: parseBypass(to.Bypass)}
	}
	if last := f.routing.Swap(next); last.upstream != nil {
		last.upstream.closeIdle()
	}
	return nil
}

// routeTo is the way to a destination.
func (f *Forwarder) routeTo(plain bool, host string, port uint16) *route {
	now := f.routing.Load()
	if now.upstream == nil || now.bypass.matches(plain, host, port) {
		return f.direct
	}
	return now.upstream
}
