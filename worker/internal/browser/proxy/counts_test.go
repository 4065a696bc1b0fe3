package proxy_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// byteCounter is a relay in front of a proxy that counts the TCP bytes.
type byteCounter struct {
	received, sent atomic.Int64
	open           atomic.Int64
}

// before returns the upstream to use in order to reach the proxy through the relay.
func (m *byteCounter) before(t *testing.T, upstream proxy.Upstream) proxy.Upstream {
	t.Helper()
	l := listenLoopback(t)
	behind := hostOf(t, upstream.Server)
	go serve(l, func(c net.Conn) error {
		server, err := net.Dial("tcp", behind)
		if err != nil {
			return err
		}
		m.open.Add(1)
		defer m.open.Add(-1)
		join(meteredConn{c, m}, meteredConn{c, m}, server)
		return nil
	})
	u, err := url.Parse(upstream.Server)
	if err != nil {
		t.Fatal(err)
	}
	upstream.Server = u.Scheme + "://" + l.Addr().String()
	return upstream
}

type meteredConn struct {
	net.Conn
	meter *byteCounter
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.received.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.meter.sent.Add(int64(n))
	return n, err
}

func (c meteredConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// assertEqual waits until both counts are equal, except for bytes that are no longer
// read.
func (m *byteCounter) assertEqual(t *testing.T, f *proxy.Forwarder, when string, unread ...int64) {
	t.Helper()
	var bytesIn, out int64
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		bytesIn, out = f.Counts()
		usage := f.Usage(1)
		if usage.Received == bytesIn && usage.Sent == out && out == m.received.Load() && slices.Contains(append(unread, 0), m.sent.Load()-bytesIn) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: counted in %d, out %d; want what the proxy sent (%d) and received (%d)", when, bytesIn, out, m.sent.Load(), m.received.Load())
		}
	}
}

const closeNotify = 24 // bytes of the TLS alert that answers our own

func TestForwarder_CountsMatchBytesOnWire(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	destination := listenLoopback(t)
	go serve(destination, func(c net.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
	for _, kind := range kinds {
		t.Run(kind+" tunnels", func(t *testing.T) {
			var wire byteCounter
			o := newFakeInternet(t, kind, destination.Addr().String())
			f, _ := startWithUpstream(t, wire.before(t, o.Upstream))
			var tunnels []net.Conn
			for i := range 3 {
				c, reader := connect(t, f, fmt.Sprintf("site-%d.test:443", i))
				tunnels = append(tunnels, c)
				for size := 1; size <= 1<<20; size <<= 10 {
					_, before := f.Counts()
					message := make([]byte, size)
					rand.Read(message)
					go c.Write(message)
					if _, err := io.ReadFull(reader, make([]byte, size)); err != nil {
						t.Fatal(err)
					}
					wire.assertEqual(t, f, "while tunnels are open")
					_, after := f.Counts()
					if grown := after - before; grown < int64(size) || kind != "https" && grown != int64(size) {
						t.Errorf("%d bytes were counted as %d", size, grown)
					}
				}
			}
			for _, c := range tunnels {
				c.Close()
			}
			eventually(t, 5*time.Second, "the tunnels end", func() bool { return wire.open.Load() == 0 })
			wire.assertEqual(t, f, "when tunnels are closed", closeNotify, 2*closeNotify, 3*closeNotify)
		})
		t.Run(kind+" plain", func(t *testing.T) {
			var wire byteCounter
			o := newFakeInternet(t, kind, hostOf(t, origin.URL))
			f, _ := startWithUpstream(t, wire.before(t, o.Upstream))
			for range 3 {
				do(t, clientOf(t, f), "POST", "http://site.test/", strings.Repeat("x", 300<<10))
				wire.assertEqual(t, f, "kept alive")
			}
			if bytesIn, out := f.Counts(); bytesIn < 900<<10 || out < 900<<10 {
				t.Errorf("counted in %d, out %d", bytesIn, out)
			}
			f.Close()
			wire.assertEqual(t, f, "closed", closeNotify, 2*closeNotify, 3*closeNotify)
		})
	}
}
