package proxy_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// newDefaultPolicy returns the default policy of a worker with an allowlist.
func newDefaultPolicy(t *testing.T, allowed string, places ...string) *proxy.EgressPolicy {
	t.Helper()
	list, err := proxy.ParseAllowlist(allowed)
	if err != nil {
		t.Fatal(err)
	}
	w, err := proxy.NewEgressPolicy(proxy.Rules{Denylist: parseDenylist(t, proxy.DefaultDenylist), DeniedEndpoints: places, Allowlist: list})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// interfaceAddress returns an IPv4 address of this machine, preferably not of the
// loopback.
func interfaceAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			return network.IP.String()
		}
	}
	return "127.0.0.1"
}

func TestForwarder_DeniesOwnAddressesByDefault(t *testing.T) {
	own := interfaceAddress(t)
	port, visits := requested(t, "0.0.0.0")
	names := resolver(t, map[string]string{
		"rebound.test.": "127.0.0.1", "zero.test.": "0.0.0.0", "mapped.test.": "::ffff:127.0.0.1", "own.test.": own, "six.test.": "::1",
	})
	f, _ := startWithResolver(t, newDefaultPolicy(t, ""), names)
	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.1", "127.6.6.6", "localhost", "LOCALHOST.", "x.localhost", "0.0.0.0", "0", "[::]", "[::1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:" + own + "]", own,
		"rebound.test", "zero.test", "mapped.test", "own.test", "six.test",
	} {
		assertDenied(t, f, host+":"+port)
	}
	if len(visits) > 0 {
		t.Errorf("got %d visits", len(visits))
	}
}

func TestForwarder_AllowsListedAddresses(t *testing.T) {
	own := interfaceAddress(t)
	port, _ := requested(t, "0.0.0.0")
	other, _ := requested(t, "0.0.0.0")
	names := resolver(t, map[string]string{"app.test.": "127.0.0.1", "other.test.": "127.0.0.1", "own.test.": own})
	for allowed, tc := range map[string]struct{ reached, denied []string }{
		"127.0.0.1:" + port:               {[]string{"127.0.0.1", "localhost", "0.0.0.0", "app.test", "[::ffff:127.0.0.1]"}, []string{"127.6.6.6"}},
		"localhost:" + port:               {[]string{"127.0.0.1", "localhost", "x.localhost"}, []string{"127.6.6.6"}},
		"[::1]:1,127.0.0.0/8:" + port:     {[]string{"127.0.0.1", "127.6.6.6"}, []string{"[::1]"}},
		"App.test.:" + port:               {[]string{"app.test", "APP.test."}, []string{"127.0.0.1", "localhost", "other.test"}},
		own + ":" + port + ", app.test:1": {[]string{own, "own.test"}, []string{"127.6.6.6"}},
	} {
		f, _ := startWithResolver(t, newDefaultPolicy(t, allowed), names)
		for _, host := range tc.reached {
			assertReached(t, f, host+":"+port)
		}
		for _, host := range tc.denied {
			assertDenied(t, f, host+":"+port)
		}
		for _, host := range tc.reached {
			assertDenied(t, f, host+":"+other)
		}
	}
	f, _ := startWithResolver(t, newDefaultPolicy(t, "127.0.0.1"), names)
	assertReached(t, f, "127.0.0.1:"+other)
}

// The two policies are those of two workers, which know only what the other has
// announced.
func TestForwarder_AllowlistNeverAllowsWorkerPorts(t *testing.T) {
	port, visits := requested(t, "127.0.0.1")
	number := listenPort(t, port)
	theirs, mine := newDefaultPolicy(t, ""), newDefaultPolicy(t, "127.0.0.0/8,169.254.169.254,localhost,app.test")
	names := resolver(t, map[string]string{"app.test.": "127.0.0.1", "meta.test.": "169.254.169.254"})
	f, _ := startWithResolver(t, mine, names)
	lifted, _ := startWithResolver(t, newPolicy(t, ""), names)
	hosts := []string{"127.0.0.1", "localhost", "app.test", "127.6.6.6"}
	deniedAll := func(f *proxy.Forwarder) {
		for _, host := range hosts {
			assertDenied(t, f, host+":"+port)
		}
	}
	reveal := denyPort(t, theirs, number)
	deniedAll(f)
	deniedAll(lifted)
	reveal()
	withdraw, err := theirs.AnnounceAPIPort(number)
	if err != nil {
		t.Fatal(err)
	}
	deniedAll(f)
	withdraw()
	if len(visits) > 0 {
		t.Errorf("got %d visits", len(visits))
	}
	assertReached(t, f, "127.0.0.1:"+port)
	assertDenied(t, f, "169.254.169.254:80")
	assertDenied(t, f, "meta.test:80")
	f, _ = startWithResolver(t, newDefaultPolicy(t, "127.0.0.0/8", "127.0.0.1:"+port), names)
	deniedAll(f)
}

func TestForwarder_ReservedPortIsDeniedToOtherWorkers(t *testing.T) {
	theirs := newDefaultPolicy(t, "")
	f, _ := startForwarder(t, newDefaultPolicy(t, "127.0.0.1"))
	number, release, err := theirs.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	target := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: number}).String()
	assertDenied(t, f, target)
	release()
	l, err := net.Listen("tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect(t, f, target)
}

func TestForwarder_ResolvesNamesBeforeProxyOnThisMachine(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	port, visits := requested(t, "127.0.0.1")
	names := resolver(t, map[string]string{"rebound.test.": "127.0.0.1", "proxy.test.": "127.0.0.1"})
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := newFakeInternet(t, kind, hostOf(t, origin.URL))
			_, proxyPort, _ := net.SplitHostPort(hostOf(t, o.Server))
			f, _ := startWithResolver(t, newDefaultPolicy(t, "127.0.0.1:"+proxyPort), names)
			if err := f.SetUpstream(&o.Upstream); err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"rebound.test", "127.0.0.1", "localhost", "[::1]"} {
				assertDenied(t, f, host+":"+port)
			}
			if logins, _, _ := o.requests(); len(logins)+len(visits) > 0 {
				t.Errorf("the proxy was asked: %q, got %d visits", logins, len(visits))
			}
			assertReached(t, f, "unknown.test:80") // only the proxy can resolve it
		})
	}
}

func TestParseAllowlist_RefusesInvalidEntries(t *testing.T) {
	for _, list := range []string{"127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65536", "http://localhost", "*.test", "127.1", "0x7f.1:80", "a b", "::1:80:x", "[::1", "[127.0.0.1]x:1", "fe80::1%eth0", "10.0.0.0/33"} {
		if _, err := proxy.ParseAllowlist(list); err == nil {
			t.Errorf("%q was accepted", list)
		}
	}
	for _, list := range []string{"", " , ", "::1", "[::1]", "[::1]:80", "[fd00::/8]:80", "10.0.0.0/8", "10.0.0.0/8:80", "localhost", "Local.Test.:80", "::ffff:127.0.0.1"} {
		if _, err := proxy.ParseAllowlist(list); err != nil {
			t.Errorf("%q: %v", list, err)
		}
	}
}
