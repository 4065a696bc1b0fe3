package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// meter counts the bytes of connections.
type meter struct{ received, sent atomic.Int64 }

type meteredConn struct {
	net.Conn
	meter *meter
}

// Read implements io.Reader.
func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.received.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.meter.sent.Add(int64(n))
	return n, err
}

type meteredListener struct {
	net.Listener
	meter *meter
}

// Accept implements net.Listener.
func (l meteredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return meteredConn{c, l.meter}, err
}

// meteredProxy is an HTTP proxy that counts its bytes on both sides. It connects tunnels to
// one site and plain requests to another.
type meteredProxy struct {
	*httptest.Server
	clients, sites meter
	secure         string // host:port
	plain          httputil.ReverseProxy
}

func newMeteredProxy(t *testing.T, secure, plain string) *meteredProxy {
	t.Helper()
	p := &meteredProxy{secure: secure}
	p.plain = httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.dial(ctx, plain)
	}}}
	p.Server = httptest.NewUnstartedServer(p)
	p.Listener = meteredListener{p.Listener, &p.clients}
	p.Start()
	t.Cleanup(p.Close)
	return p
}

func (p *meteredProxy) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return meteredConn{c, &p.sites}, err
}

// ServeHTTP implements http.Handler.
func (p *meteredProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.Host, ".invalid:443"): // of the worker's check
		w.WriteHeader(http.StatusBadGateway)
		return
	case r.Method != http.MethodConnect:
		p.plain.ServeHTTP(w, r)
		return
	}
	server, err := p.dial(r.Context(), p.secure)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(meteredConn).Conn.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	other.Wait()
}

const largeBody = 8 << 20

// serveBodies serves small and large bodies, takes uploads, and echoes WebSocket messages.
func serveBodies(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/socket":
		socket, err := ws.Accept(w, r, ws.Options{Origins: []string{"*"}})
		if err != nil {
			return
		}
		defer socket.CloseNow()
		for {
			kind, message, err := socket.Read(r.Context())
			if err != nil || socket.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	case "/large":
		_, _ = w.Write(make([]byte, largeBody))
	case "/upload":
		_, _ = io.Copy(io.Discard, r.Body)
	default:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>bodies</title>", strings.Repeat("x", 500))
	}
}

// transfers loads bodies of the page's origin, and leaves a WebSocket open if it is secure.
const transfers = `(async () => {
	const body = new Uint8Array(1 << 20);
	for (let i = 0; i < body.length; i += 65536) crypto.getRandomValues(body.subarray(i, i + 65536));
	await Promise.all(Array.from({length: 20}, (_, i) => fetch("/small?" + i).then(r => r.text())));
	await fetch("/large").then(r => r.arrayBuffer());
	for (let i = 0; i < 3; i++) await fetch("/upload", {method: "POST", body}).then(r => r.text());
	await new Promise(done => { const image = new Image(); image.onload = image.onerror = done; image.src = "/image" });
	await fetch("//t.ads.test/", {mode: "no-cors"}).catch(() => 0);
	if (location.protocol == "https:") await new Promise((done, failed) => {
		globalThis.socket = new WebSocket("wss://" + location.host + "/socket");
		socket.onerror = failed;
		socket.onopen = () => socket.send(body);
		socket.onmessage = done;
	});
	return "done";
})()`

// TestNetwork_MatchesCountsOfProxy compares what a session reports with the counts of its
// proxy: while the browser runs, after its end, and in the report to the cloud.
func TestNetwork_MatchesCountsOfProxy(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(serveBodies))
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.HandlerFunc(serveBodies))
	t.Cleanup(plain.Close)
	p := newMeteredProxy(t, secure.Listener.Addr().String(), plain.Listener.Addr().String())
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken)
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"spec":{"ignoreHTTPSErrors":true},"proxyOverride":{"server":%q},
		"browser":{"network":{"connect":{"deny":["*.ads.test"]},"block":["image"]}}}`, p.URL))
	p.clients.received.Store(0) // the check of the proxy, which the browser did not make
	p.clients.sent.Store(0)
	d := openTab(t, *s.WebSocketDebuggerUrl)
	for _, address := range []string{"https://secure.test/", "http://Plain.test/"} {
		if title := d.shows(t, address); title != "bodies" {
			t.Fatalf("%s: %q", address, title)
		}
		var answer struct{ Result struct{ Value string } }
		d.call(t, "Runtime.evaluate", map[string]any{"expression": transfers, "awaitPromise": true}, &answer)
		if answer.Result.Value != "done" {
			t.Fatalf("%s: %+v", address, answer)
		}
		if address == "https://secure.test/" {
			p.assertNear(t, "while a WebSocket is open", r.network(t, "/browsers/"+s.LaunchId.String()))
		}
	}
	live := r.network(t, "/browsers/"+s.LaunchId.String())
	p.assertNear(t, "while the browser runs", live)
	items := map[string]sharedapi.NetworkHost{}
	for _, item := range live.Items {
		items[item.Host] = item
	}
	const least = largeBody + 20*500
	if secure, plain := items["secure.test"], items["plain.test"]; secure.BytesReceived < least || plain.BytesReceived < least || secure.BytesSent < 4<<20 || plain.BytesSent < 3<<20 || secure.Connections == 0 || plain.Connections < 25 {
		t.Errorf("by host: %+v, %+v", secure, plain)
	}
	address := strings.TrimPrefix(p.URL, "http://")
	if live.Proxy == nil || *live.Proxy != address || items["plain.test"].Proxy == nil || *items["plain.test"].Proxy != address {
		t.Errorf("the proxy is %v", live.Proxy)
	}
	want := []sharedapi.NetworkDenial{{Level: "launch", Rule: "connect.deny: *.ads.test", Count: 2}}
	if diff := cmp.Diff(want, items["t.ads.test"].Denied); diff != "" {
		t.Errorf("denied connections (-want +got):\n%s", diff)
	}
	want = []sharedapi.NetworkDenial{{Level: "launch", Rule: "block: image", Count: 1}}
	if diff := cmp.Diff(want, items["plain.test"].Denied); diff != "" {
		t.Errorf("denied images (-want +got):\n%s", diff)
	}
	ask := func(path, body string, want int) {
		t.Helper()
		if got, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", path+"/network", body, "X-API-Key", workerKey); got != want {
			t.Errorf("%s/network: got %d %s, want %d", path, got, text, want)
		}
	}
	ask("/browsers/"+s.LaunchId.String(), `{"x":1}`, 400)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	ended := r.network(t, "/sessions/"+s.Id.String())
	p.assertNear(t, "after the end", ended)
	ask("/browsers/"+s.LaunchId.String(), "", 404)
	ask("/sessions/"+uuid.NewString(), "", 404)
	ask("/sessions/x", "", 400)
	r.cloud.Await(t, 0, 0)
	reported := r.cloud.Calls(cloudtest.End)[0].End.Network
	if reported == nil || cmp.Diff(ended.Totals, reported.Totals) != "" || cmp.Diff(ended.Items, reported.Items) != "" {
		t.Errorf("reported %+v, want %+v", reported, ended)
	}
	received, sent := ended.Totals.BytesReceived, ended.Totals.BytesSent
	r.awaitMetric(t, float64(received), "svc_worker_egress_bytes_total", "direction", "received")
	r.awaitMetric(t, float64(sent), "svc_worker_egress_bytes_total", "direction", "sent")
	r.awaitMetric(t, float64(ended.Totals.Denied), "svc_worker_egress_denied_total", "reason", "rule")
}

// network returns the traffic of a browser or a session.
func (r *testWorker) network(t *testing.T, path string) workerapi.BrowserNetwork {
	t.Helper()
	return decode[workerapi.BrowserNetworkResponse](t, r.get(t, path+"/network")).Data
}

// assertNear checks that the totals differ by less than 1 % from the counts of both sides.
func (p *meteredProxy) assertNear(t *testing.T, when string, got workerapi.BrowserNetwork) {
	t.Helper()
	for what, pair := range map[string][2]int64{
		"sent, by clients": {got.Totals.BytesSent, p.clients.received.Load()}, "received, by clients": {got.Totals.BytesReceived, p.clients.sent.Load()},
		"sent, by sites": {got.Totals.BytesSent, p.sites.sent.Load()}, "received, by sites": {got.Totals.BytesReceived, p.sites.received.Load()},
	} {
		difference := float64(pair[0]-pair[1]) / float64(pair[1])
		t.Logf("%s: %s: %d, the proxy counts %d (%+.4f %%)", when, what, pair[0], pair[1], 100*difference)
		if difference < -.01 || difference > .01 {
			t.Errorf("%s: %s: %d, want %d", when, what, pair[0], pair[1])
		}
	}
}
