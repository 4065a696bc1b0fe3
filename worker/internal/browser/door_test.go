package browser

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

// short is a listener that lacks descriptors at first.
type short struct {
	net.Listener
	failures int
}

func (s *short) Accept() (net.Conn, error) {
	if s.failures > 0 {
		s.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

func TestADebuggingPortOutlivesALackOfDescriptors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	led := make(chan struct{})
	d := &door{listener: &short{listener, 2}, log: slog.New(slog.DiscardHandler), dial: func(context.Context) (net.Conn, error) {
		close(led)
		return nil, net.ErrClosed
	}}
	d.ctx, d.cancel = context.WithCancel(t.Context())
	d.work.Go(d.accept)
	defer d.close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case <-led:
	case <-time.After(30 * time.Second):
		t.Error("the door is shut")
	}
}
