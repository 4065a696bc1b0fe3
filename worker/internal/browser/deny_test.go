package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// visits is a site that notes who is asked for, at several loopback addresses.
type visits struct {
	port int

	mu    sync.Mutex
	hosts []string
}

func newVisits(t *testing.T, addresses ...string) *visits {
	t.Helper()
	v := &visits{port: testenv.FreePort(t)}
	for _, address := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(v.port)))
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: v}}
		server.Start()
		t.Cleanup(server.Close)
	}
	return v
}

// ServeHTTP redirects to the address in the query, if there is one.
func (v *visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	v.mu.Lock()
	v.hosts = append(v.hosts, host)
	v.mu.Unlock()
	if to := r.FormValue("to"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	fmt.Fprint(w, "<title>in</title>")
}

// take returns which hosts were asked for since the last call.
func (v *visits) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	hosts := v.hosts
	v.hosts = nil
	return hosts
}

func (v *visits) url(host string) string { return fmt.Sprintf("http://%s:%d/", host, v.port) }

func navigate(t *testing.T, c client, page, address string) (failure string) {
	t.Helper()
	var answer struct{ ErrorText string }
	unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": address}), &answer)
	return answer.ErrorText
}

// waysOut are expressions that ask for %s without leaving the page, each done
// when the request is.
var waysOut = map[string]string{
	"fetch":       `fetch("%s", {mode: "no-cors"}).catch(e => 0).then(() => 0)`,
	"worker":      `new Promise(done => new Worker(URL.createObjectURL(new Blob(['fetch("%s", {mode: "no-cors"}).catch(e => 0).then(() => postMessage(0))']))).onmessage = done).then(() => 0)`,
	"web socket":  `new Promise(done => new WebSocket("%s".replace("http", "ws")).onerror = done).then(() => 0)`,
	"image":       `new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = "%s" }).then(() => 0)`,
	"frame":       `new Promise(done => { const f = document.createElement("iframe"); f.onload = done; f.src = "%s"; document.body.append(f) }).then(() => 0)`,
	"style sheet": `new Promise(done => { const l = document.createElement("link"); l.rel = "stylesheet"; l.onload = l.onerror = done; l.href = "%s"; document.head.append(l) }).then(() => 0)`,
}

func TestDeniedHostsAreNotReached(t *testing.T) {
	const allowed, denied = "127.66.0.1", "127.66.7.2"
	r, site := newRig(t), newVisits(t, "127.66.0.1", "127.66.7.2", "127.0.0.1", "::1")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(proxy.Close)
	deny := []string{"127.66.7.*", "::ffff:7f42:7*", "::1", "localhost", "localhost.", "*.localhost"}
	for name, spec := range map[string]browser.Spec{
		"without a wall":       {},
		"direct":               {Deny: deny},
		"proxy that is passed": {Deny: deny, Proxy: &browser.Proxy{Server: proxy.URL}}, // as Chromium does for its own networks
	} {
		t.Run(name, func(t *testing.T) {
			spec.LaunchID, spec.Build, spec.Headless = strings.ReplaceAll(name, " ", "-"), r.build, true
			walled := spec.Deny != nil
			c := dial(t, r.launch(t, spec))
			page := c.open(t, "about:blank")
			for _, host := range []string{denied, "2135033602", "0x7f420702", "0177.0102.0007.0002", "127.66.1794", denied + ".",
				"[::ffff:127.66.7.2]", "[0:0:0:0:0:ffff:7f42:702]", "[::1]", "localhost", "LOCALHOST", "localhost.", "x.localhost"} {
				failure := navigate(t, c, page, site.url(host))
				if reached := len(site.take()) > 0; reached == walled || walled != (failure == "net::ERR_NAME_NOT_RESOLVED") {
					t.Errorf("%s: reached %v, %q", host, reached, failure)
				}
			}
			if failure := navigate(t, c, page, site.url(allowed)+"?to="+site.url(denied)); walled != (failure == "net::ERR_NAME_NOT_RESOLVED") {
				t.Errorf("redirect: %q", failure)
			}
			if reached := slices.Contains(site.take(), denied); reached == walled {
				t.Errorf("redirect: reached %v", reached)
			}
			if failure := navigate(t, c, page, site.url(allowed)); failure != "" {
				t.Fatalf("another address: %q", failure)
			}
			eventually(t, 5*time.Second, "the page", func() bool {
				var title string
				c.eval(t, page, `document.title`, &title)
				return title == "in"
			})
			for way, expression := range waysOut {
				for _, address := range []string{site.url(denied), site.url(allowed) + "?to=" + site.url(denied)} {
					c.eval(t, page, fmt.Sprintf(expression, address), nil)
					visited := site.take()
					if way == "web socket" && strings.Contains(address, "?to=") {
						continue // these follow no redirect
					}
					if reached := slices.Contains(visited, denied); reached == walled {
						t.Errorf("%s of %s: reached %v", way, address, reached)
					}
				}
			}
		})
	}
}

func TestDeniedHostsChangeNothingForOthers(t *testing.T) {
	r, site := newRig(t), newVisits(t, "127.0.0.1")
	closed := fmt.Sprintf("http://127.0.0.1:%d/", testenv.FreePort(t))
	failures := map[bool][]string{}
	for _, walled := range []bool{false, true} {
		spec := r.spec(fmt.Sprintf("others-%t", walled))
		if walled {
			spec.Deny = []string{"169.254.*", "fe8?:*", "metadata"}
		}
		c := dial(t, r.launch(t, spec))
		page := c.open(t, "about:blank")
		for _, address := range []string{site.url("127.0.0.1"), site.url("localhost"), closed, "http://unknown.invalid/", "http://metadata.invalid/"} {
			failures[walled] = append(failures[walled], navigate(t, c, page, address))
		}
	}
	want := []string{"", "", "net::ERR_CONNECTION_REFUSED"}
	if !slices.Equal(failures[false], failures[true]) || !slices.Equal(failures[true][:3], want) || failures[true][3] == "" {
		t.Errorf("without %q, with %q", failures[false], failures[true])
	}
	t.Log(failures[true])
}

func TestUnusableDeniedHostsAreRefused(t *testing.T) {
	r := newRig(t)
	for _, pattern := range []string{"", "a b", "a,MAP * 127.0.0.1", "[::1]", "UPPER.test", "x:80/", "a\n"} {
		spec := r.spec("unusable")
		spec.Deny = []string{pattern}
		if _, err := r.Launch(t.Context(), spec); err == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
	r.assertNothingLeft(t)
}
