package proxy

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// splice has the kernel carry bytes both ways, until both sides are done or one
// of them fails. A tunnel that says nothing lasts, as a connection without a
// Forwarder would, until one side has ended: from then on silence is bounded
// by limit. early is what the client has sent already.
func splice(client, server *conn, early *bufio.Reader, limit time.Duration) {
	var half atomic.Bool // one direction has ended
	pass := func(to, from *conn) {
		err := from.copyTo(to, &half, limit)
		if err == nil {
			err = to.CloseWrite()
		}
		if half.Store(true); err != nil {
			_, _ = client.Conn.Close(), server.Conn.Close()
			return
		}
		_ = to.SetReadDeadline(time.Unix(1, 0)) // wakes the other direction
	}
	if _, err := io.CopyN(server, early, int64(early.Buffered())); err != nil {
		return
	}
	var other sync.WaitGroup
	other.Go(func() { pass(server, client) })
	pass(client, server)
	other.Wait()
}

// copyTo copies until the end of c, which is no error.
func (c *conn) copyTo(to *conn, half *atomic.Bool, limit time.Duration) error {
	_, err := io.Copy(to.Conn, c.Conn) // from one *net.TCPConn to another
	if !half.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	idle := newIdleTimer(limit, func() { _, _ = c.Conn.Close(), to.Conn.Close() })
	defer idle.stop()
	return copyData(to, c, idle)
}
