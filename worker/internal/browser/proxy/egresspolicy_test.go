package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// requested serves a site at several addresses on one port and records its visits.
func requested(t *testing.T, addresses ...string) (port string, visits chan string) {
	t.Helper()
	visits = make(chan string, 1000)
	port = "0"
	for _, address := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		site := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			visits <- r.Host
			fmt.Fprint(w, "in")
		})}}
		site.Start()
		t.Cleanup(site.Close)
	}
	return port, visits
}

// assertDenied requests a host with CONNECT and GET. Both must get the page of the
// egress policy.
func assertDenied(t *testing.T, f *proxy.Forwarder, target string) {
	t.Helper()
	for method, line := range map[string]string{"CONNECT": target, "GET": "http://" + target + "/"} {
		before := f.Denied()
		answer, _ := ask(t, dial(t, f), method, line+" HTTP/1.1\nHost: "+target)
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusForbidden || f.Denied() != before+1 {
			t.Errorf("%s %s: got %s, %d denied requests", method, line, answer.Status, f.Denied()-before)
		}
		if want := target + " is denied by the egress policy of this worker (DENIED_HOSTS, ALLOWED_HOSTS).\n"; string(text) != want {
			t.Errorf("%s %s: %q, want %q", method, line, text, want)
		}
	}
}

func assertReached(t *testing.T, f *proxy.Forwarder, target string) {
	t.Helper()
	if answer, _ := do(t, clientOf(t, f), "GET", "http://"+target+"/", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", target, answer.Status)
	}
	connect(t, f, target)
}

func TestEgressPolicy_DeniesNameResolvingToDeniedAddress(t *testing.T) {
	port, visits := requested(t, "127.0.0.1")
	names := resolver(t, map[string]string{
		"rebound.test.": "169.254.169.254", "mapped.test.": "::ffff:169.254.169.254", "nat64.test.": "64:ff9b::a9fe:a9fe", "six.test.": "fd00:ec2::254",
		"network.test.": "127.66.0.1", "fine.test.": "127.0.0.1", "both.test.": "127.66.0.1,127.0.0.1",
	})
	policy := newPolicy(t, proxy.DefaultDenylist+",127.66.0.0/16")
	f, log := startWithResolver(t, policy, names)
	for _, name := range []string{"rebound.test", "mapped.test", "nat64.test", "six.test", "network.test", "REBOUND.test."} {
		assertDenied(t, f, name+":"+port)
	}
	if len(visits) > 0 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("got %d visits; log:\n%s", len(visits), log)
	}
	assertDenied(t, f, "169.254.169.254:"+port)
	if requested, resolved, _ := policy.Denied(); requested == 0 || resolved < 6*requested {
		t.Errorf("counted %d requests for a denied host and %d for one that resolves to a denied address", requested, resolved)
	}
	assertReached(t, f, "fine.test:"+port)
	assertReached(t, f, "both.test:"+port)
}

func TestDenyPort_DeniesUntilReleased(t *testing.T) {
	port, visits := requested(t, "127.0.0.1")
	number := listenPort(t, port)
	around := newPolicy(t, "")
	names := resolver(t, map[string]string{"rebound.test.": "127.0.0.1", "zero.test.": "0.0.0.0", "nat64.test.": "64:ff9b::7f00:1"})
	f, _ := startWithResolver(t, around, names)
	allow, again := denyPort(t, around, number), denyPort(t, around, number)
	spellings := []string{"127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "x.localhost", "LOCALHOST.", "0.0.0.0", "0", "[::]", "[::1]", "127.6.6.6",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::1]", "rebound.test", "zero.test", "nat64.test"}
	for _, host := range spellings {
		assertDenied(t, f, host+":"+port)
	}
	allow()
	assertDenied(t, f, "127.0.0.1:"+port)
	again()
	if len(visits) > 0 {
		t.Errorf("got %d visits", len(visits))
	}
	for _, host := range []string{"127.0.0.1", "localhost", "rebound.test"} {
		assertReached(t, f, host+":"+port)
	}
}

func TestEgressPolicy_DeniesForwarderPorts(t *testing.T) {
	around := newPolicy(t, "")
	f, _ := startForwarder(t, around)
	other, _ := startForwarder(t, around)
	for _, address := range []string{f.Address(), other.Address()} {
		assertDenied(t, f, hostOf(t, address))
	}
	other.Close()
	if answer, _ := ask(t, dial(t, f), "CONNECT", hostOf(t, other.Address())+" HTTP/1.1\nHost: x"); answer.StatusCode != http.StatusBadGateway {
		t.Errorf("the port of a closed Forwarder: got %s", answer.Status)
	}
}

func TestEgressPolicy_DeniesEndpointByNameAndAddress(t *testing.T) {
	port, visits := requested(t, "127.0.0.1", "127.0.0.2")
	free, _ := requested(t, "127.0.0.1")
	own, names := "127.0.0.1", resolver(t, map[string]string{"rebound.test.": "127.0.0.2", "cloud.test.": "192.0.2.1", "nat64.test.": "64:ff9b::c000:201"})
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			own = network.IP.String()
		}
	}
	for place, hosts := range map[string][]string{
		"0.0.0.0:" + port:     {"127.0.0.1", "127.0.0.2", "localhost", "x.localhost", "[::1]", "0.0.0.0", "rebound.test", own},
		"localhost:" + port:   {"127.0.0.1", "127.0.0.2", "localhost", "[::1]", "rebound.test", own},
		"127.0.0.1:" + port:   {"127.0.0.1", "127.0.0.2", "localhost", "2130706433", own},
		"192.0.2.1:" + port:   {"192.0.2.1", "[::ffff:192.0.2.1]", "[64:ff9b::192.0.2.1]", "[2002:c000:201::1]", "3221225985", "cloud.test", "nat64.test"},
		"Cloud.test.:" + port: {"cloud.test", "CLOUD.test."},
	} {
		t.Run(place, func(t *testing.T) {
			f, _ := startWithResolver(t, newPolicy(t, "", place), names)
			for _, host := range hosts {
				assertDenied(t, f, host+":"+port)
			}
			if len(visits) > 0 {
				t.Errorf("got %d visits", len(visits))
			}
			assertReached(t, f, "127.0.0.1:"+free)
		})
	}
}

func TestEgressPolicy_DeniesEndpointBeforeUpstream(t *testing.T) {
	f, _ := startWithPolicy(t, newPolicy(t, "", "192.0.2.1:80"), proxy.Upstream{Server: "http://127.0.0.1:1"})
	for _, host := range []string{"192.0.2.1", "[::ffff:192.0.2.1]", "[::ffff:c000:201]", "3221225985"} {
		assertDenied(t, f, host+":80")
	}
}

func TestNewEgressPolicy_RefusesInvalidEndpoint(t *testing.T) {
	for _, place := range []string{"", "host", "host:", ":80", "host:0", "host:x", "host:65536"} {
		if _, err := proxy.NewEgressPolicy(proxy.Rules{DeniedEndpoints: []string{place}}); err == nil {
			t.Errorf("%q was accepted", place)
		}
	}
}

func denyPort(t *testing.T, around *proxy.EgressPolicy, port int) (allow func()) {
	t.Helper()
	allow, err := around.DenyPort(port)
	if err != nil {
		t.Fatal(err)
	}
	return allow
}

func listenPort(t *testing.T, port string) int {
	t.Helper()
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReservePort_DeniesBeforeListening(t *testing.T) {
	around := newPolicy(t, "")
	f, _ := startForwarder(t, around)
	number, release, err := around.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	target := fmt.Sprint("127.0.0.1:", number)
	assertDenied(t, f, target)
	l, err := net.Listen("tcp", target)
	if err != nil {
		t.Fatalf("failed to listen on the reserved port: %v", err)
	}
	defer l.Close()
	assertDenied(t, f, target)
	release()
	connect(t, f, target)
}

func TestReservePort_IsNotAssignedByKernel(t *testing.T) {
	around, ports := newPolicy(t, ""), map[int]bool{}
	for range 500 {
		number, release, err := around.ReservePort()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if l := listenLoopback(t); ports[number] || ports[l.Addr().(*net.TCPAddr).Port] || l.Addr().(*net.TCPAddr).Port == number {
			t.Fatal("got the same port twice")
		}
		ports[number] = true
	}
}
