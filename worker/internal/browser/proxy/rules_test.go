package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// newRules returns the policy of a launch with these rules.
func newRules(t *testing.T, rules netrules.Rules) *netrules.Policy {
	t.Helper()
	p, err := netrules.NewPolicy(netrules.Level{Name: "launch", Rules: &rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSetRules_DeniesHostsAndResolvedAddresses(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(echo))
	defer site.Close()
	port := site.URL[strings.LastIndexByte(site.URL, ':'):]
	f, _ := startWithResolver(t, newPolicy(t, ""), resolver(t, map[string]string{"rebound.test.": "127.0.0.1", "ok.test.": "127.0.0.2"}))
	client := clientOf(t, f)
	deny := func(patterns ...string) {
		f.SetRules(newRules(t, netrules.Rules{Connect: &netrules.Filter{Deny: patterns}}))
	}
	denied := func(host, method string) bool {
		if method == http.MethodConnect {
			answer, _ := ask(t, dial(t, f), method, host+port+" HTTP/1.1\nHost: "+host+port)
			return answer.StatusCode == http.StatusForbidden
		}
		answer, text := do(t, client, method, "http://"+host+port+"/", "")
		if answer.StatusCode == http.StatusForbidden && !strings.Contains(text, "the rule connect.deny: 127.0.0.1 of the launch") {
			t.Errorf("%s: %q", host, text)
		}
		return answer.StatusCode == http.StatusForbidden
	}
	deny("127.0.0.1")
	hosts := []string{"127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "a.localhost", "LOCALHOST.", "rebound.test"}
	for _, host := range hosts {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodConnect} {
			if !denied(host, method) {
				t.Errorf("%s %s is not denied", method, host)
			}
		}
	}
	if f.Denied() != int64(3*len(hosts)) {
		t.Errorf("%d denied", f.Denied())
	}
	deny("other.test")
	if denied("127.0.0.1", http.MethodGet) {
		t.Error("denied without a rule")
	}
	f.SetRules(newRules(t, netrules.Rules{Connect: &netrules.Filter{Allow: []string{"ok.test" + port}}}))
	answer, text := do(t, client, http.MethodGet, site.URL, "")
	if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "connect.allow") {
		t.Errorf("%d %q for a host that is not in allow", answer.StatusCode, text)
	}
}

func TestSetRules_AppliesToContextProxies(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(echo))
	defer site.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	other := httptest.NewServer(http.HandlerFunc(echo)) // a server that a client gives as its proxy
	defer other.Close()
	context := openContextProxy(t, f, proxy.Upstream{Server: other.URL})
	host, _ := url.Parse(site.URL)
	f.SetRules(newRules(t, netrules.Rules{Connect: &netrules.Filter{Deny: []string{host.Host}}}))
	if answer, _ := do(t, clientThrough(t, context.Address(), nil), http.MethodGet, site.URL, ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a context proxy passes a denied host: %s", answer.Status)
	}
	if _, err := f.OpenContextProxy(proxy.Upstream{Server: site.URL}); err == nil || !strings.Contains(err.Error(), "connect.deny: "+host.Host) {
		t.Errorf("a denied host as a proxy: %v", err)
	}
}

func TestSetRules_LimitsBytes(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 40<<10)) }))
	defer site.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	f.SetRules(newRules(t, netrules.Rules{MaxBytes: new(int64(100 << 10))}))
	client := clientOf(t, f)
	for range 2 {
		if answer, _ := do(t, client, http.MethodGet, site.URL, ""); answer.StatusCode != http.StatusOK {
			t.Fatalf("%s below the limit", answer.Status)
		}
	}
	host := strings.TrimPrefix(site.URL, "http://")
	tunnel, reader := connect(t, f, host)
	if _, err := tunnel.Write([]byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, reader); n >= 40<<10 {
		t.Errorf("the tunnel passed all %d bytes (%v)", n, err)
	}
	if answer, text := do(t, client, http.MethodGet, site.URL, ""); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "the rule maxBytes of the launch") {
		t.Errorf("beyond the limit: %s %q", answer.Status, text)
	}
}
