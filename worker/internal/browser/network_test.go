package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func TestIgnoreHTTPSErrors(t *testing.T) {
	r := newFixture(t).withShell(t)
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>in</title>") }))
	t.Cleanup(site.Close)
	for _, ignore := range []bool{true, false} {
		spec := r.spec(fmt.Sprintf("tls-%t", ignore))
		spec.IgnoreHTTPSErrors = new(ignore)
		c := dial(t, r.launch(t, spec))
		page := c.open(t, "about:blank")
		var answer struct{ ErrorText string }
		unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": site.URL}), &answer)
		if refused := answer.ErrorText != ""; refused == ignore {
			t.Errorf("ignore %t: error %q", ignore, answer.ErrorText)
		}
	}
}

func TestIdleBrowser_SendsNoRequests(t *testing.T) {
	r := newFixture(t)
	calls := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		calls <- req.Method + " " + req.URL.String()
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	for _, build := range majorBuilds(t) {
		for _, headless := range []bool{true, false} {
			if !headless && !build.Headful {
				continue
			}
			spec := r.spec(fmt.Sprintf("idle-%d-%s-%t", build.Major, build.Engine, headless))
			spec.Build, spec.Headless, spec.ProxyServer = build, headless, proxy.URL
			r.launch(t, spec)
		}
	}
	for silence := time.After(8 * time.Second); ; {
		select {
		case call := <-calls:
			t.Errorf("an idle browser sent the request %.100s", call)
		case <-silence:
			return
		}
	}
}

func TestProxy_CarriesAllTraffic(t *testing.T) {
	r := newFixture(t)
	requests := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests <- req.Method + " " + req.RequestURI
		if req.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "<title>proxied %s</title>", req.URL)
	}))
	t.Cleanup(proxy.Close)
	for _, build := range majorBuilds(t) {
		t.Run(fmt.Sprint(build.Major), func(t *testing.T) {
			spec := r.spec(fmt.Sprintf("proxy-%d", build.Major))
			spec.Build, spec.ProxyServer = build, proxy.URL
			c := dial(t, r.launch(t, spec))
			page := c.open(t, "about:blank")
			// By default, Chromium connects to loopback and link-local addresses
			// without a proxy.
			for _, address := range []string{"http://site.invalid/x", "http://127.0.0.1:8109/", "http://[::1]:8101/", "http://localhost:8102/", "http://x.localhost/",
				"http://169.254.169.254/latest", "http://[fe80::1]/", "http://10.0.0.1/"} {
				c.call(t, page, "Page.navigate", map[string]any{"url": address})
				eventually(t, 5*time.Second, "the proxy's answer for "+address, func() bool {
					var title string
					c.eval(t, page, `document.title`, &title)
					return title == "proxied "+address
				})
			}
			c.call(t, page, "Page.navigate", map[string]any{"url": "http://page.invalid/"})
			eventually(t, 5*time.Second, "the complete test page", func() bool {
				var state string
				c.eval(t, page, `location.host + " " + document.readyState`, &state)
				return state == "page.invalid complete"
			})
			for len(requests) > 0 {
				<-requests
			}
			for kind, expression := range requestScripts {
				for scheme, want := range map[string]string{"http": "GET http://127.0.0.1:8107/" + url.PathEscape(kind), "https": "CONNECT 127.0.0.1:8107"} {
					if kind == "web socket" {
						want = "CONNECT 127.0.0.1:8107"
					}
					c.eval(t, page, fmt.Sprintf(expression, scheme+"://127.0.0.1:8107/"+url.PathEscape(kind)), nil)
					for found := ""; found != want; {
						select {
						case found = <-requests:
						case <-time.After(5 * time.Second):
							t.Fatalf("a %s request over %s did not go through the proxy", kind, scheme)
						}
					}
				}
			}
		})
	}
}

// requestScripts are expressions that request the URL %s without leaving the page.
// Each completes with its request.
var requestScripts = map[string]string{
	"fetch":       `fetch("%s", {mode: "no-cors"}).catch(e => 0).then(() => 0)`,
	"worker":      `new Promise(done => new Worker(URL.createObjectURL(new Blob(['fetch("%s", {mode: "no-cors"}).catch(e => 0).then(() => postMessage(0))']))).onmessage = done).then(() => 0)`,
	"web socket":  `new Promise(done => new WebSocket("%s".replace("http", "ws")).onerror = done).then(() => 0)`,
	"image":       `new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = "%s" }).then(() => 0)`,
	"frame":       `new Promise(done => { const f = document.createElement("iframe"); f.onload = done; f.src = "%s"; document.body.append(f) }).then(() => 0)`,
	"style sheet": `new Promise(done => { const l = document.createElement("link"); l.rel = "stylesheet"; l.onload = l.onerror = done; l.href = "%s"; document.head.append(l) }).then(() => 0)`,
}
