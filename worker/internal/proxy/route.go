package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
)

// outlet is a way out: straight, or through an upstream.
type outlet interface {
	// connect opens a tunnel to target (host:port). ctx bounds the opening, not
	// the tunnel.
	connect(ctx context.Context, target, userAgent string) (duplex, error)
	// denies reports whether a destination that the Wall does not deny by its name
	// is denied on this way.
	denies(ctx context.Context, host string, port uint16) bool
	transport() *http.Transport // for http URLs
	authorization() string      // value of Proxy-Authorization for them; empty for none
}

// route is an outlet with what carries http URLs through it.
type route struct {
	outlet
	plain *httputil.ReverseProxy
}

func (f *Forwarder) newRoute(out outlet) *route { return &route{out, f.newPlain(out)} }

// retire lets go of what nobody uses any more; what is in use goes on.
func (r *route) retire() {
	r.plain.Transport.(*http.Transport).CloseIdleConnections()
}

// leading is where a Forwarder leads at a time.
type leading struct {
	through *route // nil: everything leads straight out
	bypass  bypass
}

// Use leads through an upstream from now on, or straight out when it is nil. A
// tunnel that is open stays where it is, and so does a request under way;
// whatever is asked for next, over whichever connection, takes the new way. The
// upstream is not contacted before. It fails, and nothing changes, when the
// upstream's description is not usable or, with ErrDenied, its address denied;
// no error carries the credentials.
func (f *Forwarder) Use(to *Upstream) error {
	next := &leading{}
	if to != nil {
		up, err := newUpstream(*to, f.conns)
		if err != nil {
			return err
		}
		next = &leading{through: f.newRoute(up), bypass: parseBypass(to.Bypass)}
	}
	if last := f.leading.Swap(next); last.through != nil {
		last.through.retire()
	}
	return nil
}

// routeTo is the way to a destination.
func (f *Forwarder) routeTo(plain bool, host string, port uint16) *route {
	now := f.leading.Load()
	if now.through == nil || now.bypass.covers(plain, host, port) {
		return f.straight
	}
	return now.through
}
