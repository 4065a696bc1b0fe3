package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// webTransportScript opens a WebTransport session to a port of this machine.
const webTransportScript = `(globalThis.transport = new WebTransport("https://127.0.0.1:%d/", {serverCertificateHashes: [{algorithm: "sha-256", value: new Uint8Array(32)}]}))
	.ready.then(() => "opened", () => "failed")`

// TestGuard_DeniesWebTransport also shows that a browser without a proxy sends datagrams, and so that the listener
// notices them.
func TestGuard_DeniesWebTransport(t *testing.T) {
	r := newFixture(t)
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	received := func(l *udpListener) int {
		bindings, others := l.bindings()
		return bindings + others
	}
	direct, proxied := newUDPListener(t), newUDPListener(t)
	c := dial(t, r.launch(t, r.spec("direct")))
	c.call(t, c.openLoaded(t, site.URL+"/"), "Runtime.evaluate", map[string]any{"expression": fmt.Sprintf(webTransportScript, direct.port)})
	eventually(t, 10*time.Second, "a datagram without a proxy", func() bool { return received(direct) > 0 })

	spec := r.spec("proxied") // without rules and without a network of its own
	spec.ProxyServer, spec.OnProxyListener = startEgress(t)
	c = dial(t, r.launch(t, spec))
	w := newWall(t, &netrules.Rules{Connect: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	for session, c := range map[string]client{c.openLoaded(t, site.URL+"/"): c, w.page(t): w.client} {
		var outcome string
		if c.eval(t, session, fmt.Sprintf(webTransportScript, proxied.port), &outcome); outcome != "failed" {
			t.Errorf("a session through the proxy: %s", outcome)
		}
	}
	if n := received(proxied); n > 0 {
		t.Errorf("%d datagrams around the proxy", n)
	}
}

// resolver is a TCP server of DNS over HTTPS that counts connections and never answers.
type resolver struct {
	template    string
	connections atomic.Int32
}

func newResolver(t *testing.T) *resolver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &resolver{template: "https://" + listener.Addr().String() + "/dns-query{?dns}"}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			conn.Close()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
	})
	return s
}

// secureDNS returns the data of a browser in which a person has chosen a resolver.
func secureDNS(t *testing.T, s *resolver) browser.Data {
	t.Helper()
	data := newDirectoryData(t)
	state := fmt.Sprintf(`{"dns_over_https": {"mode": "secure", "templates": %q}}`, s.template)
	if err := os.WriteFile(filepath.Join(data.dir, "Local State"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGuard_DeniesDNSOverHTTPS also shows that a browser without a proxy uses the resolver.
func TestGuard_DeniesDNSOverHTTPS(t *testing.T) {
	r := newFixture(t)
	direct, proxied := newResolver(t), newResolver(t)
	visit := func(c client) { // names of their own: Chromium keeps answers
		for i, script := range []string{"location = %q", "fetch(%q, {mode: 'no-cors'}).catch(() => {})", "document.head.append(Object.assign(document.createElement('link'), {rel: 'dns-prefetch', href: %q}))"} {
			expression := fmt.Sprintf(script, fmt.Sprintf("http://name-%d.example/", i))
			c.call(t, c.open(t, "about:blank"), "Runtime.evaluate", map[string]any{"expression": expression})
		}
	}
	spec := r.spec("direct")
	spec.Data = secureDNS(t, direct)
	visit(dial(t, r.launch(t, spec)))
	eventually(t, 10*time.Second, "a connection to the resolver without a proxy", func() bool { return direct.connections.Load() > 0 })

	spec = r.spec("proxied") // without rules and without a network of its own
	spec.Data = secureDNS(t, proxied)
	spec.ProxyServer, spec.OnProxyListener = startEgress(t)
	visit(dial(t, r.launch(t, spec)))
	w := newWall(t, &netrules.Rules{Connect: &netrules.Filter{Allow: []string{allowedHosts}}}, func(s *browser.Spec) { s.Data = secureDNS(t, proxied) })
	visit(w.client)
	eventually(t, 15*time.Second, "the denial of a name", func() bool { return strings.Contains(w.log.String(), "host=name-1.example") })
	w.page(t)
	time.Sleep(6 * time.Second) // with the resolver turned on, the first connection comes after 4.6 s
	if n := proxied.connections.Load(); n > 0 {
		t.Errorf("%d connections to the resolver around the proxy", n)
	}
}
