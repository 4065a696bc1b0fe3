package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestCertificateErrorsAreIgnoredOnlyWhenAsked(t *testing.T) {
	r := newRig(t)
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>in</title>") }))
	t.Cleanup(site.Close)
	for _, ignore := range []bool{true, false} {
		spec := r.spec(fmt.Sprintf("tls-%t", ignore))
		spec.IgnoreHTTPSErrors = ignore
		c := dial(t, r.launch(t, spec))
		page := c.open(t, "about:blank")
		var answer struct{ ErrorText string }
		unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": site.URL}), &answer)
		if refused := answer.ErrorText != ""; refused == ignore {
			t.Errorf("ignore %t: error %q", ignore, answer.ErrorText)
		}
	}
}

func TestAnIdleBrowserCallsNobody(t *testing.T) {
	r := newRig(t)
	calls := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		calls <- req.Method + " " + req.URL.String()
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	for _, build := range majors(t) {
		for _, headless := range []bool{true, false} {
			if !headless && !build.Headful {
				continue
			}
			spec := r.spec(fmt.Sprintf("idle-%d-%t", build.Major, headless))
			spec.Build, spec.Headless, spec.Proxy = build, headless, &browser.Proxy{Server: proxy.URL, Bypass: "<-loopback>"}
			r.launch(t, spec)
		}
	}
	for silence := time.After(8 * time.Second); ; {
		select {
		case call := <-calls:
			t.Errorf("an idle browser called %.100s", call)
		case <-silence:
			return
		}
	}
}

func TestTheProxyCarriesTheTraffic(t *testing.T) {
	r := newRig(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "<title>proxied %s</title>", req.URL)
	}))
	t.Cleanup(proxy.Close)
	spec := r.spec("proxy")
	spec.Proxy = &browser.Proxy{Server: proxy.URL}
	spec.StartURLs = []string{"http://site.invalid/x"}
	c := dial(t, r.launch(t, spec))
	page := c.attach(t, firstPage(t, c))
	eventually(t, 5*time.Second, "the proxy's page", func() bool {
		var title string
		c.eval(t, page, `document.title`, &title)
		return title == "proxied http://site.invalid/x"
	})
}
