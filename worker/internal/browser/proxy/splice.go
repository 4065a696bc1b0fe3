package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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
	sent, err := io.CopyN(server, early, int64(early.Buffered()))
	if err != nil {
		return
	}
	server.kernel.begin(sent)
	var other sync.WaitGroup
	other.Go(func() { pass(server, client) })
	pass(client, server)
	other.Wait()
}

// copyTo copies until the end of c, which is not an error.
func (c *conn) copyTo(dst *conn, halfClosed *atomic.Bool, timeout time.Duration) error {
	n, err := io.Copy(dst.Conn, c.Conn) // from one *net.TCPConn to another
	c.count(c.kernel.received.advance(n, true), 0)
	dst.count(0, dst.kernel.sent.advance(n, true))
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

// kernelBytes counts what the kernel copies from and to a connection.
type kernelBytes struct {
	active         atomic.Bool
	early          int64 // sent before
	received, sent kernelDirection
}

// kernelDirection is one direction of a connection.
type kernelDirection struct {
	mu    sync.Mutex
	open  bool
	total int64 // so far
}

func (b *kernelBytes) begin(early int64) {
	b.early, b.received.open, b.sent.open = early, true, true
	b.active.Store(true)
}

// advance returns the bytes since the last call, given their total. The exact total comes last.
func (d *kernelDirection) advance(total int64, last bool) (grown int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open || !last && total <= d.total {
		return 0
	}
	grown, d.total, d.open = total-d.total, total, !last
	return grown
}

// countKernelBytes counts the bytes of open tunnels so far, as the kernel reports them.
func (s *connSet) countKernelBytes() {
	var tunnels []*conn
	s.mu.Lock()
	for c := range s.open {
		if c.kernel.active.Load() {
			tunnels = append(tunnels, c)
		}
	}
	s.mu.Unlock()
	for _, c := range tunnels {
		tcp, ok := c.Conn.(*net.TCPConn)
		if !ok {
			continue
		}
		received, acknowledged, ok := tcpBytes(tcp)
		if !ok { // closed
			continue
		}
		c.count(c.kernel.received.advance(received, false), c.kernel.sent.advance(acknowledged-c.kernel.early, false))
	}
}

// tcpBytes returns the bytes that a connection has received, and those that its peer has
// acknowledged.
func tcpBytes(c *net.TCPConn) (received, acknowledged int64, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return 0, 0, false
	}
	const handshake = 1 // SYN counts as acknowledged
	return int64(info.Bytes_received), int64(info.Bytes_acked) - handshake, true
}
