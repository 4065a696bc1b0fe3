package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestBrowserRoutes_Statuses checks the error statuses of one browser's routes,
// except those of wrong credentials. The order matters: the first requests find no
// tab, the last find no browser.
func TestBrowserRoutes_Statuses(t *testing.T) {
	silent := testenv.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers, func(c *app.Config) { c.DeniedHosts = "" })
	s := r.launch(t)
	base, control := "/browsers/"+s.LaunchId.String(), token(*s.ViewUrl)
	large := strings.Repeat(" ", 1<<20+1)
	ask := func(method, path, body string, status int, headers ...string) []byte {
		t.Helper()
		got, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, method, base+path, body, append([]string{"X-Svc-Token", control}, headers...)...)
		if got != status {
			t.Errorf("%s %s: got %d %.200s, want %d", method, path, got, text, status)
		}
		return text
	}
	for _, open := range decode[[]struct{ ID, Type string }](t, ask("GET", "/json/list", "", 200)) {
		if open.Type == "page" {
			ask("POST", "/close", `{"targetId":"`+open.ID+`"}`, 200)
		}
	}
	for _, path := range []string{"/screenshot", "/pdf", "/devtools"} {
		ask("GET", path, "", 409)
	}
	ask("POST", "/navigate", `{"url":"about:blank"}`, 409)
	tab := decode[struct{ ID string }](t, ask("PUT", "/json/new", "", 200)).ID
	ask("GET", "/devtools/page/"+tab, "", 101, handshake...)
	ask("GET", "/json/activate/"+tab, "", 200)
	ask("POST", "/navigate", `{"url":"https://127.0.0.1:1/"}`, 502)
	ask("POST", "/navigate", `{"url":"`+silent.URL+`","timeoutMs":1000}`, 504)
	filled := httptest.NewServer(http.HandlerFunc(fillDatabase))
	t.Cleanup(filled.Close)
	ask("POST", "/navigate", `{"url":"`+filled.URL+`"}`, 200)
	testenv.Eventually(t, "more storage than a state can have", func() bool {
		got, _ := r.call(t.Context(), t, "GET", base+"/state", "", "X-Svc-Token", control)
		return got == 409
	})
	ask("GET", "/state?indexedDB=false", "", 200)
	ask("GET", "/logs", "", 200)
	for _, target := range []string{"/json/activate/none", "/json/close/none", "/screenshot?targetId=none", "/pdf?targetId=none"} {
		ask("GET", target, "", 404)
	}
	for _, query := range []string{"/screenshot?format=gif", "/pdf?scale=0", "/state?indexedDB=maybe", "/logs?limit=0"} {
		ask("GET", query, "", 400)
	}
	for _, path := range []string{"/navigate", "/view-ticket", "/close"} {
		ask("POST", path, `{"nonsense":1}`, 400)
		ask("POST", path, `{}`, 415, "Content-Type", "text/plain")
		ask("POST", path, large, 413)
	}
	for _, route := range [][2]string{{"POST", "/recording"}, {"PATCH", "/lifetime"}} {
		ask(route[0], route[1], `{}`, 415, "Content-Type", "text/plain")
		ask(route[0], route[1], large, 413)
	}
	ask("DELETE", "/recording", `{"a":1}`, 400)
	_, browser, _ := strings.Cut(*s.WebSocketDebuggerUrl, base)
	browser, _, _ = strings.Cut(browser, "?")
	for _, socket := range []string{browser, "/devtools/page/" + tab, "/vnc"} {
		ask("GET", socket, "", 400) // no handshake
	}
	for _, page := range []string{"/", "/view", "/devtools"} {
		ask("GET", page+"?ct="+control, "", 303)
	}
	ask("GET", "/json/close/"+tab, "", 200)
	ask("POST", "/close", "", 404, "X-Svc-Token", "none")
	ask("GET", "/state", "", 404, "X-Svc-Token", "none")
	ask("GET", "/logs", "", 404, "X-Svc-Token", "none")
	ask("GET", "/devtools/page/"+tab, "", 404, append(handshake, "X-Svc-Token", "none")...)
}

// fillDatabase serves a page that stores 17 MB in a database.
func fillDatabase(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprint(w, `<script>
const open = indexedDB.open('large');
open.onupgradeneeded = () => open.result.createObjectStore('all').put('x'.repeat(17 << 20), 1);
open.onsuccess = () => open.result.close();
</script>`)
}

// TestLaunchSocket_AnswersRefusalBeforeUpgrade covers the refusals that do not depend
// on the request.
func TestLaunchSocket_AnswersRefusalBeforeUpgrade(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, withPlaywright(t))
	for _, path := range []string{"/launch", "/playwright"} {
		path += "?profileId=" + fake.Profile(r.version).String()
		header := http.Header{"X-Api-Key": {cloudtest.Key}}
		for kind, status := range map[fault.Kind]int{
			fault.NotFound: 404, fault.Conflict: 409, fault.Internal: 503,
		} {
			fake.Always(cloudtest.Authorize, cloudtest.Failure(kind, "on purpose"))
			if got, body := r.upgrade(t, path, header); got != status {
				t.Errorf("%s: %d %s, want %d", path, got, body, status)
			}
		}
		fake.Always(cloudtest.Authorize, nil)
		fake.Limit(0)
		if got, body := r.upgrade(t, path, header); got != 402 {
			t.Errorf("%s without a slot: got %d %s, want 402", path, got, body)
		}
		fake.Revoke(true)
		if got, body := r.upgrade(t, path, header); got != 401 {
			t.Errorf("%s with a revoked key: %d %s", path, got, body)
		}
		fake.Revoke(false)
		header.Set("Origin", "https://evil.example")
		if got, body := r.upgrade(t, path, header); got != 403 {
			t.Errorf("%s from a page of another site: %d %s", path, got, body)
		}
	}
}
