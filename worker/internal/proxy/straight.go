package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// straightTimeout bounds how long a destination may take to be found and to
// accept a connection.
const straightTimeout = 30 * time.Second

// straight is the way out that no proxy is on.
type straight struct{ conns *conns }

// connect implements outlet. The names of this machine are never asked of
// anybody.
func (s straight) connect(ctx context.Context, target, _ string) (duplex, error) {
	ctx, cancel := context.WithTimeout(ctx, straightTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	if host = plainName(host); !isLocalhost(host) {
		return s.dial(ctx, target)
	}
	var failed []error
	for _, a := range addressesIn(host) {
		c, err := s.dial(ctx, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

func (s straight) dial(ctx context.Context, address string) (duplex, error) {
	c, err := s.conns.dial(ctx, address, destination)
	if err != nil {
		return nil, err // never a *conn that is nil
	}
	return c, nil
}

// denies implements outlet: a destination is judged when it is dialed.
func (straight) denies(context.Context, string, uint16) bool { return false }

// transport implements outlet.
func (s straight) transport() *http.Transport {
	t := newTransport()
	t.DialContext = func(ctx context.Context, _, target string) (net.Conn, error) {
		return s.connect(ctx, target, "")
	}
	return t
}

// authorization implements outlet.
func (straight) authorization() string { return "" }
