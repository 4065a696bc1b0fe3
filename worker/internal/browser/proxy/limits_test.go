package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func startWithLimits(t *testing.T, clients, outbound int) *proxy.Forwarder {
	t.Helper()
	f, err := proxy.StartWithLimits(newPolicy(t, ""), clients, outbound, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestForwarder_FullForwarderQueuesClients(t *testing.T) {
	l := listenLoopback(t)
	go serve(l, func(c net.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
	f := startWithLimits(t, 3, 3)
	var open []*net.TCPConn
	for range 3 {
		c, _ := connect(t, f, l.Addr().String())
		open = append(open, c)
	}
	late := dial(t, f)
	fmt.Fprintf(late, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", l.Addr())
	late.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := late.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a fourth tunnel is open")
	}
	open[0].Close()
	late.SetReadDeadline(time.Now().Add(10 * time.Second))
	text := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(late, text); err != nil || string(text) != "HTTP/1.1 200" {
		t.Errorf("after one has ended: %q, %v", text, err)
	}
	dial(t, f) // one client above the limit during Close
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.Close()
	}()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("Close waited for a free slot")
	}
}

func TestForwarder_BoundsAbandonedDials(t *testing.T) {
	f, away := startWithLimits(t, 4, 4), silentListener(t)
	for range 20 {
		c := dial(t, f)
		fmt.Fprintf(c, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", away)
		eventually(t, 5*time.Second, "the dial", func() bool { return bytes.Contains(stacks(), []byte("proxy.(*connSet).dial(")) })
		time.Sleep(10 * time.Millisecond)
		c.Close() // the transport continues the dial
	}
	if n := bytes.Count(stacks(), []byte("net.(*sysDialer).dialSingle(")); n > 4 {
		t.Errorf("got %d concurrent dials, want at most four", n)
	}
}

func TestForwarder_BoundsIdleConnections(t *testing.T) {
	var kept atomic.Int64
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	origin.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			kept.Add(1)
		case http.StateClosed:
			kept.Add(-1)
		}
	}
	origin.Start()
	defer origin.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	_, port, _ := net.SplitHostPort(hostOf(t, origin.URL))
	client := clientOf(t, f)
	for i := range 200 {
		do(t, client, "GET", fmt.Sprintf("http://%d.localhost:%s/", i, port), "")
	}
	eventually(t, 5*time.Second, "few idle connections are left", func() bool { return kept.Load() <= 128 })
}
