package proxy_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// moveToAllAddresses moves a Forwarder to a listener like that of a sandbox, which
// accepts connections at all addresses of its loopback network.
func moveToAllAddresses(t *testing.T, f *proxy.Forwarder) (address string) {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	f.MoveTo(l)
	return fmt.Sprintf("http://127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
}

func openContextProxy(t *testing.T, f *proxy.Forwarder, upstream proxy.Upstream) *proxy.ContextProxy {
	t.Helper()
	upstream.Bypass = "<-loopback>"
	c, err := f.OpenContextProxy(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// clientThrough returns a client that uses a proxy address, with these headers on
// CONNECT.
func clientThrough(t *testing.T, address string, header http.Header) *http.Client {
	t.Helper()
	through, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(through), ProxyConnectHeader: header}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func TestContextProxy_UsesOwnUpstream(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	for _, kind := range kinds {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moved %t", kind, moved), func(t *testing.T) {
				own := newFakeInternet(t, "http", hostOf(t, origin.URL))
				f, _ := startWithUpstream(t, own.Upstream)
				address := f.Address()
				if moved {
					address = moveToAllAddresses(t, f)
				}
				clients := map[string]*http.Client{"own": clientThrough(t, address, nil)}
				upstreams := map[string]*fakeInternet{"own": own}
				for _, name := range []string{"first", "second"} {
					upstreams[name] = newFakeInternet(t, kind, hostOf(t, origin.URL))
					c := openContextProxy(t, f, upstreams[name].Upstream)
					if strings.Contains(c.Address(), username) || c.Address() == address {
						t.Fatalf("the address is %s", c.Address())
					}
					clients[name] = clientThrough(t, c.Address(), nil)
				}
				for name, client := range clients {
					if answer, text := do(t, client, "GET", "http://"+name+".test/", ""); answer.StatusCode != http.StatusOK || strings.Contains(text, "Basic") {
						t.Errorf("%s: %s %s", name, answer.Status, text)
					}
				}
				for name, up := range upstreams {
					if _, targets, _ := up.requests(); len(targets) != 1 || !strings.HasPrefix(targets[0], name+".test") {
						t.Errorf("the upstream %s got requests for %q", name, targets)
					}
				}
				_, out := f.Counts()
				do(t, clients["first"], "GET", "http://first.test/", "")
				if _, now := f.Counts(); now != out || out == 0 {
					t.Errorf("counted %d and %d bytes to the upstream", out, now)
				}
			})
		}
	}
}

func TestContextProxy_BrowserAuthenticates(t *testing.T) {
	plain, secure := httptest.NewServer(http.HandlerFunc(echo)), httptest.NewTLSServer(http.HandlerFunc(echo))
	defer plain.Close()
	defer secure.Close()
	credentials := http.Header{"Proxy-Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))}}
	for _, kind := range []string{"http", "https"} {
		for _, origin := range []string{plain.URL, secure.URL} {
			up := newFakeInternet(t, kind, hostOf(t, origin))
			up.Username, up.Password = "", ""
			f, log := startForwarder(t, newPolicy(t, ""))
			c := openContextProxy(t, f, up.Upstream)
			conn, err := net.Dial("tcp", strings.TrimPrefix(c.Address(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			method, target := "GET", "http://site.test/"
			if origin == secure.URL {
				method, target = "CONNECT", "site.test:443"
			}
			head := target + " HTTP/1.1\nHost: site.test"
			answer, _ := ask(t, conn, method, head)
			answer.Body.Close()
			if got := answer.Header.Get("Proxy-Authenticate"); answer.StatusCode != http.StatusProxyAuthRequired || got != `Basic realm="outside"` {
				t.Errorf("%s over %s: %s, challenge %q", method, kind, answer.Status, got)
			}
			client := clientThrough(t, c.Address(), credentials)
			client.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
			request, err := http.NewRequestWithContext(t.Context(), "GET", strings.Split(origin, ":")[0]+"://site.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if origin == plain.URL {
				request.Header = credentials.Clone()
			}
			got, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if logins, _, _ := up.requests(); got.StatusCode != http.StatusOK || !slices.Contains(logins, username+":"+password) {
				t.Errorf("%s over %s with credentials: %s, the proxy got %q", method, kind, got.Status, logins)
			}
			up.Username, up.Password = username, password
			assertNoSecret(t, log.String(), up.Upstream)
		}
	}
}

func TestContextProxy_WrongCredentialsOfURLAreNotAskedFor(t *testing.T) {
	up := newFakeInternet(t, "http", "127.0.0.1:1")
	up.Password = "no-such-password"
	f, _ := startForwarder(t, newPolicy(t, ""))
	c := openContextProxy(t, f, up.Upstream)
	if answer, _ := do(t, clientThrough(t, c.Address(), nil), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusBadGateway {
		t.Errorf("got %s", answer.Status)
	}
}

func TestContextProxy_EgressPolicyHolds(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, "10.0.0.0/8,denied.test"))
	for _, server := range []string{"http://10.1.2.3:80", "socks5://proxy.denied.test", "https://0xA.1.2.3"} {
		if _, err := f.OpenContextProxy(proxy.Upstream{Server: server}); !errors.Is(err, proxy.ErrDenied) {
			t.Errorf("%s: %v", server, err)
		}
	}
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	c := openContextProxy(t, f, newFakeInternet(t, "http", hostOf(t, origin.URL)).Upstream)
	client := clientThrough(t, c.Address(), nil)
	for address, want := range map[string]int{"http://site.test/": 200, "http://10.1.2.3/": 403, "http://denied.test/": 403, f.Address(): 403, c.Address(): 403} {
		if answer, text := do(t, client, "GET", address, ""); answer.StatusCode != want {
			t.Errorf("%s: %s %s", address, answer.Status, text)
		}
	}
}

func TestContextProxy_CloseEndsItsConnectionsOnly(t *testing.T) {
	site := listenLoopback(t)
	go serve(site, func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err })
	for _, moved := range []bool{false, true} {
		up := newFakeInternet(t, "socks5", site.Addr().String())
		f, _ := startWithUpstream(t, up.Upstream)
		own := f.Address()
		if moved {
			own = moveToAllAddresses(t, f)
		}
		first, second := openContextProxy(t, f, up.Upstream), openContextProxy(t, f, up.Upstream)
		tunnels := map[string]net.Conn{}
		for name, address := range map[string]string{"own": own, "first": first.Address(), "second": second.Address()} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if answer, _ := ask(t, conn, "CONNECT", "site.test:1 HTTP/1.1\nHost: site.test:1"); answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", name, answer.Status)
			}
			tunnels[name] = conn
		}
		first.Close()
		first.Close()
		tunnels["first"].SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := tunnels["first"].Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("moved %t: the tunnel is open: %v", moved, err)
		}
		client := clientThrough(t, first.Address(), nil)
		if answer, err := client.Get("http://site.test/"); err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusBadGateway {
				t.Errorf("moved %t: the closed address answers %s", moved, answer.Status)
			}
		}
		for _, name := range []string{"own", "second"} {
			tunnels[name].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := tunnels[name].Read(make([]byte, 1)); !isTimeout(err) {
				t.Errorf("moved %t: the tunnel of %s ended: %v", moved, name, err)
			}
		}
		if third := openContextProxy(t, f, up.Upstream); third.Address() == first.Address() && moved {
			t.Error("an address is used again")
		}
		f.Close()
		if _, err := f.OpenContextProxy(up.Upstream); err == nil {
			t.Error("opened after Close")
		}
	}
}

func TestContextProxy_NumberIsLimited(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, ""))
	moveToAllAddresses(t, f)
	upstream := proxy.Upstream{Server: "http://proxy.test"}
	var open []*proxy.ContextProxy
	for range proxy.MaxContextProxies {
		open = append(open, openContextProxy(t, f, upstream))
	}
	if _, err := f.OpenContextProxy(upstream); err == nil || !strings.Contains(err.Error(), "limit of 128") {
		t.Errorf("one more: %v", err)
	}
	open[5].Close()
	openContextProxy(t, f, upstream)
}

func TestParseContextProxy(t *testing.T) {
	for server, want := range map[string]*proxy.Upstream{
		"":                              nil,
		"direct://":                     nil,
		"proxy.test:3128":               {Server: "http://proxy.test:3128"},
		" https://proxy.test ":          {Server: "https://proxy.test"},
		"socks://127.0.0.1:1080":        {Server: "socks5://127.0.0.1:1080"},
		"socks5://a%40b:c:d@[::1]:1080": {Server: "socks5://[::1]:1080", Username: "a@b", Password: "c:d"},
		"robot:s3cret@proxy.test":       {Server: "http://proxy.test", Username: "robot", Password: "s3cret"},
	} {
		got, err := proxy.ParseContextProxy(server)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", server, err, diff)
		}
	}
	f, _ := startForwarder(t, newPolicy(t, ""))
	for _, server := range []string{"a:1,b:2", "http=a:1;https=b:2", "socks4://a:1", "quic://a:1", "http://", "http://a:1/path", "http://robot:s3cret@a:99999", "http://robot:s3cret@a b"} {
		upstream, err := proxy.ParseContextProxy(server)
		if err == nil {
			_, err = f.OpenContextProxy(*upstream)
		}
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", server, err)
		}
	}
}
