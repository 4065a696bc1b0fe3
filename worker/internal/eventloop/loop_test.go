package eventloop_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/eventloop"
)

// connect returns both sides of a TCP connection.
func connect(t *testing.T) (one, other net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if one, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if other, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	return one, other
}

// newConns returns two connections of a loop with their peers.
func newConns(t *testing.T) (client, server *eventloop.Conn, clientPeer, serverPeer net.Conn) {
	t.Helper()
	loop, err := eventloop.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loop.Close)
	one, clientPeer := connect(t)
	other, serverPeer := connect(t)
	one, other = loop.Adopt(one, other)
	client, server = one.(*eventloop.Conn), other.(*eventloop.Conn)
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server, clientPeer, serverPeer
}

// copyAll forwards everything from one connection to another, as relays do.
func copyAll(from, to *eventloop.Conn) error {
	for {
		rest, err := from.Poll(func(p []byte) (int, bool) {
			n, failed := to.TryWrite(p)
			return n, failed == nil && n == len(p)
		})
		if _, failed := to.Write(rest); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}

func TestPoll_ForwardsAllBytesToSlowReader(t *testing.T) {
	client, server, clientPeer, serverPeer := newConns(t)
	ended := make(chan error, 1)
	go func() {
		err := copyAll(client, server)
		_ = server.CloseWrite()
		ended <- err
	}()
	sent := make([]byte, 64<<20)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = clientPeer.Write(sent)
		_ = clientPeer.(*net.TCPConn).CloseWrite()
	}()
	testenv.Eventually(t, "the buffers are full", func() bool {
		n, err := ioctlUnsent(server)
		return err == nil && n > 64<<10
	})
	received, err := io.ReadAll(serverPeer)
	if err != nil || !bytes.Equal(received, sent) {
		t.Fatalf("got %d bytes: %v", len(received), err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("Poll: %v", err)
	}
	if _, err := serverPeer.Write([]byte("back")); err != nil { // only one direction has ended
		t.Fatal(err)
	}
	back := make([]byte, 4)
	if _, err := io.ReadFull(server, back); err != nil || string(back) != "back" {
		t.Errorf("got %q: %v", back, err)
	}
}

// ioctlUnsent returns the number of bytes that the peer's kernel has not accepted.
func ioctlUnsent(c *eventloop.Conn) (n int, err error) {
	raw, _ := c.SyscallConn()
	failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n, errors.Join(err, failed)
}

func TestConn_CallsEndWithCloseResetAndDeadline(t *testing.T) {
	poll := func(c *eventloop.Conn) error {
		_, err := c.Poll(func(p []byte) (int, bool) { return len(p), true })
		return err
	}
	read := func(c *eventloop.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c *eventloop.Conn) error { _, err := c.Write(make([]byte, 64<<20)); return err }
	closed := func(c *eventloop.Conn, _ net.Conn) { _ = c.Close() }
	passed := func(c *eventloop.Conn, _ net.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) }
	later := func(c *eventloop.Conn, _ net.Conn) { _ = c.SetDeadline(time.Now().Add(20 * time.Millisecond)) }
	reset := func(_ *eventloop.Conn, peer net.Conn) {
		_ = peer.(*net.TCPConn).SetLinger(0)
		_ = peer.Close()
	}
	for name, tc := range map[string]struct {
		call func(*eventloop.Conn) error
		end  func(*eventloop.Conn, net.Conn)
		want error
	}{
		"poll, closed":           {poll, closed, net.ErrClosed},
		"poll, deadline passed":  {poll, passed, os.ErrDeadlineExceeded},
		"poll, deadline later":   {poll, later, os.ErrDeadlineExceeded},
		"poll, reset":            {poll, reset, syscall.ECONNRESET},
		"read, closed":           {read, closed, net.ErrClosed},
		"read, deadline passed":  {read, passed, os.ErrDeadlineExceeded},
		"read, deadline later":   {read, later, os.ErrDeadlineExceeded},
		"read, reset":            {read, reset, syscall.ECONNRESET},
		"write, closed":          {write, closed, net.ErrClosed},
		"write, deadline passed": {write, passed, os.ErrDeadlineExceeded},
		"write, deadline later":  {write, later, os.ErrDeadlineExceeded},
		"write, reset by a peer": {write, reset, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, peer, _ := newConns(t)
			ended := make(chan error, 1)
			go func() { ended <- tc.call(c) }()
			tc.end(c, peer) // before or after the call waits
			select {
			case err := <-ended:
				if errors.Is(err, syscall.EPIPE) {
					err = syscall.ECONNRESET // of a write after the reset
				}
				if !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the call did not end")
			}
		})
	}
}

func TestConn_ContinuesAfterDeadline(t *testing.T) {
	c, _, peer, _ := newConns(t)
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.Poll(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Time{})
	if _, err := peer.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	rest, err := c.Poll(func([]byte) (int, bool) { return 1, false })
	if err != nil || string(rest) != "bc" {
		t.Errorf("got %q: %v", rest, err)
	}
}

// countedConn counts the calls of Close.
type countedConn struct {
	*net.TCPConn
	closes int
}

func (c *countedConn) Unwrap() *net.TCPConn { return c.TCPConn }
func (c *countedConn) Close() error         { c.closes++; return c.TCPConn.Close() }

func TestAdopt_ClosesOriginalsAndDescriptors(t *testing.T) {
	loop, err := eventloop.New()
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	for range 20 {
		one, peer := connect(t)
		other, otherPeer := connect(t)
		counted := &countedConn{TCPConn: other.(*net.TCPConn)}
		client, server := loop.Adopt(one, counted)
		if _, err := client.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if counted.closes != 0 {
			t.Fatal("the original was closed early")
		}
		for range 2 {
			_, _ = client.Close(), server.Close()
		}
		if counted.closes != 1 {
			t.Fatalf("the original was closed %d times", counted.closes)
		}
		_, _ = peer.Close(), otherPeer.Close()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	loop.Close()
	if after := descriptors(t); after >= before {
		t.Errorf("the loop left descriptors: %d before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestAdopt_LeavesOtherConnections(t *testing.T) {
	one, other := net.Pipe()
	tcp, _ := connect(t)
	loop, err := eventloop.New()
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	for _, pair := range [][2]net.Conn{{one, other}, {tcp, other}, {one, tcp}} {
		if client, server := loop.Adopt(pair[0], pair[1]); client != pair[0] || server != pair[1] {
			t.Errorf("%T and %T were replaced by %T and %T", pair[0], pair[1], client, server)
		}
	}
	if client, server := (*eventloop.Loop)(nil).Adopt(tcp, tcp); client != tcp || server != tcp {
		t.Error("a nil loop replaced connections")
	}
}
