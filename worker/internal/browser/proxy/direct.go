package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// directTimeout bounds name resolution and the connection to a destination.
const directTimeout = 30 * time.Second

// direct is the outbound without a proxy.
type direct struct{ conns *connSet }

// connect implements outbound. Names of this machine are never sent to a resolver.
func (s direct) connect(ctx context.Context, target string, _ http.Header) (duplex, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	if host = netrules.NormalizeHost(host); !netrules.IsLocalhost(host) {
		return s.dial(ctx, target)
	}
	var failed []error
	for _, a := range netrules.LiteralAddresses(host) {
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
		return nil, err // avoids a non-nil interface with a nil *conn
	}
	return c, nil
}

// denies implements outbound. Destinations are checked when they are dialed.
func (direct) denies(context.Context, string, uint16) bool { return false }

// transport implements outbound.
func (s direct) transport() *http.Transport {
	t := newTransport()
	t.DialContext = func(ctx context.Context, _, target string) (net.Conn, error) {
		return s.connect(ctx, target, nil)
	}
	return t
}

// authorization implements outbound.
func (direct) authorization(string) string { return "" }
