package pg

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/lib/pq"
)

// grace is how much longer than a statement may take the network has.
const grace = 5 * time.Second

// patience is how long a server may take to answer what was sent to it; 0 is for
// ever. It is the statement timeout and a little more: the server keeps that one,
// and the connection notices when there is no server.
func patience(config pq.Config) time.Duration {
	ms, err := strconv.ParseInt(config.Runtime["statement_timeout"], 10, 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(ms)*time.Millisecond + grace
}

// dialer connects with patience. With it a call has a deadline also without a
// context that has one, which costs two goroutines for each statement.
type dialer struct{ patience time.Duration }

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
	if err != nil || d.patience == 0 {
		return conn, err
	}
	return &impatient{Conn: conn, patience: d.patience}, nil
}

// impatient fails when nothing comes back in time.
type impatient struct {
	net.Conn
	patience   time.Duration
	connecting bool // the driver's own deadline counts
}

// SetDeadline implements net.Conn. The driver sets one for the time in which it
// connects.
func (c *impatient) SetDeadline(at time.Time) error {
	c.connecting = !at.IsZero()
	return c.Conn.SetDeadline(at)
}

func (c *impatient) Write(p []byte) (int, error) {
	if !c.connecting {
		if err := c.Conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
