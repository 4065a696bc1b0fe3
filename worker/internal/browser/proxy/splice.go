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

// splice lets the kernel copy bytes in both directions until both sides are done or
// one fails. A silent tunnel stays open, as a connection without a Forwarder would.
// Once one side has ended, silence is limited by timeout. early holds the bytes that
// the client has already sent.
func splice(client, server *conn, early *bufio.Reader, timeout time.Duration) {
	var halfClosed atomic.Bool // one direction has ended
	pass := func(dst, src *conn) {
		err := src.copyTo(dst, &halfClosed, timeout)
		if err == nil {
			err = dst.CloseWrite()
		}
		if halfClosed.Store(true); err != nil {
			_, _ = client.Conn.Close(), server.Conn.Close()
			return
		}
		_ = dst.SetReadDeadline(time.Unix(1, 0)) // unblocks the other direction
	}
	if _, err := io.CopyN(server, early, int64(early.Buffered())); err != nil {
		return
	}
	var other sync.WaitGroup
	other.Go(func() { pass(server, client) })
	pass(client, server)
	other.Wait()
}

// copyTo copies until the end of c, which is not an error.
func (c *conn) copyTo(dst *conn, halfClosed *atomic.Bool, timeout time.Duration) error {
	_, err := io.Copy(dst.Conn, c.Conn) // from one *net.TCPConn to another
	if !halfClosed.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	idle := newIdleTimer(timeout, func() { _, _ = c.Conn.Close(), dst.Conn.Close() })
	defer idle.stop()
	return copyData(dst, c, idle)
}
