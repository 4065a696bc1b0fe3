package pg

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/lib/pq"
)

// timeoutMargin is the additional time for the network, beyond the statement timeout.
const timeoutMargin = 5 * time.Second

// responseTimeout is how long a server may take to respond; 0 is unlimited. It is
// slightly longer than the statement timeout: the server enforces that one, and the
// connection detects a server that does not respond.
func responseTimeout(config pq.Config) time.Duration {
	ms, err := strconv.ParseInt(config.Runtime["statement_timeout"], 10, 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(ms)*time.Millisecond + timeoutMargin
}

// dialer opens connections that time out. Context deadlines would cost two
// goroutines per statement.
type dialer struct{ timeout time.Duration }

// Dial implements pq.Dialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer.
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext implements pq.DialerContext.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil || d.timeout == 0 {
		return conn, err
	}
	return &timeoutConn{Conn: conn, timeout: d.timeout}, nil
}

// timeoutConn is a connection that fails if the server does not respond in time.
type timeoutConn struct {
	net.Conn
	timeout    time.Duration
	connecting bool // the driver's deadline applies
}

// SetDeadline implements net.Conn. The driver sets a deadline while it connects.
func (c *timeoutConn) SetDeadline(deadline time.Time) error {
	c.connecting = !deadline.IsZero()
	return c.Conn.SetDeadline(deadline)
}

func (c *timeoutConn) Write(p []byte) (int, error) {
	if !c.connecting {
		if err := c.Conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
