package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// pair returns a registered connection and its peer.
func pair(t *testing.T, set *connSet) (*conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := set.outbound.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := set.add(raw, destination, set.outbound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, peer.(*net.TCPConn)
}

func TestSplice_HalfClosedTunnelEndsWhenIdle(t *testing.T) {
	const limit = 300 * time.Millisecond
	for _, name := range []string{"the client is done", "the server is done"} {
		t.Run(name, func(t *testing.T) {
			set := newConnSet(&EgressPolicy{})
			client, done := pair(t, set)
			server, talking := pair(t, set)
			if name == "the server is done" {
				done, talking = talking, done
			}
			ended := make(chan struct{})
			go func() {
				splice(client, server, bufio.NewReader(strings.NewReader("")), limit)
				close(ended)
			}()
			if err := done.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			talking.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := talking.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("the other side got %v", err)
			}
			done.SetReadDeadline(time.Now().Add(10 * time.Second))
			for range 5 { // in total longer than the limit
				if _, err := talking.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if _, err := done.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				select {
				case <-ended:
					t.Fatal("the tunnel ended while one side was sending")
				case <-time.After(limit / 3):
				}
			}
			select {
			case <-ended:
			case <-time.After(20 * limit):
				t.Error("the idle tunnel did not end")
			}
		})
	}
}
