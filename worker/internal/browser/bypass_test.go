package browser_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestIsolation_ProxyCannotBeBypassed uses the protocol to request what the proxy
// denies, with and without a separate network.
func TestIsolation_ProxyCannotBeBypassed(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a site") }))
	t.Cleanup(site.Close)
	for name, without := range map[string][]string{"isolated": nil, "in the host's network": {sandbox.NetworkNamespace}} {
		t.Run(name, func(t *testing.T) {
			r := newIsolatedFixture(t, without...)
			reached := len(without) > 0
			launch := func(id string) *browser.Browser {
				spec := r.spec(id)
				spec.ProxyServer, spec.OnProxyListener = startEgress(t)
				return r.launch(t, spec)
			}
			other, mine := launch("other"), launch("mine")
			dial(t, other).open(t, "data:text/html,<title>the others' page</title>")
			c := dial(t, mine)
			for what, reaches := range map[string]func(*testing.T) bool{
				"another launch's browser":   func(t *testing.T) bool { return c.canDiscover(t, other.DebugPort) },
				"a site past the proxy":      func(t *testing.T) bool { return c.canBypassProxy(t, site.URL) },
				"a listener of this machine": func(t *testing.T) bool { return c.canBindPort(t) },
			} {
				if got := reaches(t); got != reached {
					t.Errorf("%s: reached is %v", what, got)
				}
			}
		})
	}
}

// canDiscover reports whether the browser shows the targets of a browser that listens on
// that port.
func (c client) canDiscover(t *testing.T, port int) bool {
	t.Helper()
	created := c.Subscribe(100, "Target.targetCreated")
	defer created.Close()
	c.call(t, "", "Target.setDiscoverTargets", map[string]any{"discover": true, "filter": []any{map[string]any{}}})
	c.call(t, "", "Target.setRemoteLocations", map[string]any{"locations": []any{map[string]any{"host": "127.0.0.1", "port": port}}})
	for wait := time.After(4 * time.Second); ; {
		select {
		case e := <-created.Events():
			if strings.Contains(string(e.Params), fmt.Sprintf("127.0.0.1:%d", port)) {
				return true
			}
		case <-wait:
			return false
		}
	}
}

// canBypassProxy reports whether a page reaches an address in a context without
// the proxy.
func (c client) canBypassProxy(t *testing.T, address string) bool {
	t.Helper()
	var context struct{ BrowserContextID string }
	unmarshal(t, c.call(t, "", "Target.createBrowserContext", map[string]any{
		"proxyServer": "direct://", "proxyBypassList": "<-loopback>",
	}), &context)
	var target struct{ TargetID string }
	unmarshal(t, c.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": context.BrowserContextID}), &target)
	var answer struct{ ErrorText string }
	unmarshal(t, c.call(t, c.attach(t, target.TargetID), "Page.navigate", map[string]any{"url": address}), &answer)
	return answer.ErrorText == ""
}

// canBindPort reports whether the browser can open a port on this machine.
func (c client) canBindPort(t *testing.T) bool {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var ignored json.RawMessage
	if err := c.Call(t.Context(), "", "Tethering.bind", map[string]any{"port": port}, &ignored); err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return errors.Join(conn.Close()) == nil
}

func TestIsolation_PagesAreOnline(t *testing.T) {
	r := newIsolatedFixture(t).withShell(t)
	c := dial(t, r.launch(t, r.spec("online")))
	var online bool
	c.eval(t, c.open(t, "about:blank"), "navigator.onLine", &online)
	if !online {
		t.Error("navigator.onLine is false")
	}
}

func TestIsolation_DebugPortConnections(t *testing.T) {
	r := newIsolatedFixture(t).withShell(t)
	b := r.launch(t, r.spec("doors"))
	address := fmt.Sprintf("http://127.0.0.1:%d/json/version", b.DebugPort)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for i := range 300 {
		res, err := client.Get(address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %s", i, res.Status)
		}
	}
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for {
		conn, err := b.Dial(t.Context())
		if errors.Is(err, sandbox.ErrBusy) {
			break
		}
		if err != nil || len(open) > 1000 {
			t.Fatalf("after %d connections: %v", len(open), err)
		}
		open = append(open, conn)
	}
	if len(open) < sandbox.MaxConnections {
		t.Errorf("got %d connections", len(open))
	}
	res, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	refusal, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(refusal), "limit of 64 connections") {
		t.Errorf("one connection more: %s %s", res.Status, refusal)
	}
	open[0].Close()
	open[0], _ = b.Dial(t.Context())
	if open[0] == nil {
		t.Fatal("closing a connection does not free its socket")
	}
}
