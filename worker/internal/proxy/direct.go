package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// directTimeout bounds how long a destination may take to be found and to
// accept a connection.
const directTimeout = 30 * time.Second

// direct is the way out that no proxy is on.
type direct struct{ conns *connSet }

// connect implements outlet. The names of this machine are never asked of
// anybody.
func (s direct) connect(ctx context.Context, target, _ string) (duplex, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	if host = normalizeHost(host); !isLocalhost(host) {
		return s.dial(ctx, target)
	}
	var failed []error
	for _, a := range literalAddresses(host) {
		c, err := s.dial(ctx, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

func (s direct) dial(ctx context.Context, address string) (duplex, error) {
	c, err := s.conns.dial(ctx, address, destination)
	if err != nil {
		return nil, err // never a *conn that is nil
	}
	return c, nil
}

// denies implements outlet: a destination is judged when it is dialed.
func (direct) denies(context.Context, string, uint16) bool { return false }

// transport implements outlet.
func (s direct) transport() *http.Transport {
	t := newTransport()
	t.DialContext = func(ctx context.Context, _, target string) (net.Conn, error) {
		return s.connect(ctx, target, "")
	}
	return t
}

// authorization implements outlet.
func (direct) authorization() string { return "" }
