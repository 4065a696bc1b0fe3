package devtools_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrontEnd_OpensOnFirstPage(t *testing.T) {
	for public, want := range map[string]url.Values{
		"http://worker.example:38923":     {"ws": {"worker.example:38923/browsers/" + launch + "/devtools/page/P1"}},
		"https://edge.example/w/worker-1": {"wss": {"edge.example/w/worker-1/browsers/" + launch + "/devtools/page/P1"}},
	} {
		w, _ := newFakeTestServer(t, public)
		for path, frontEnd := range map[string]string{"/devtools/": "./inspector.html", "/devtools": "./devtools/inspector.html"} {
			got := do(t, "GET", w.path(path), "X-API-Key", workerKey)
			name, query, _ := strings.Cut(got.header.Get("Location"), "?")
			values, err := url.ParseQuery(query)
			if diff := cmp.Diff(want, values); got.status != 303 || name != frontEnd || err != nil || diff != "" {
				t.Errorf("%s: %s: %d %s %v%s", public, path, got.status, got.header.Get("Location"), err, diff)
			}
		}
	}
}

func TestFrontEnd_SetsWorkerHeaders(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	got := do(t, "GET", w.path("/devtools/inspector.html?ws=x&y=z"), "X-API-Key", workerKey, "Cookie", "a=b", "Origin", "https://evil.example", "X-Svc-Token", "t")
	if got.status != 200 || got.body != "<!doctype html>front end" || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Errorf("%d %q %v", got.status, got.body, got.header)
	}
	for name, part := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if !strings.Contains(got.header.Get(name), part) {
			t.Errorf("%s: %q", name, got.header.Get(name))
		}
	}
	if got.header.Get("Set-Cookie") != "" {
		t.Error("the answer has Chromium's cookie")
	}
	request := f.request()
	if request.RequestURI != "/devtools/inspector.html" || !strings.HasPrefix(request.Host, "127.0.0.1:") {
		t.Errorf("got a request for %s with Host %s", request.RequestURI, request.Host)
	}
	for _, name := range []string{"X-Api-Key", "X-Svc-Token", "Cookie", "Origin", "Referer"} {
		if request.Header.Get(name) != "" {
			t.Errorf("the header %s was forwarded", name)
		}
	}
	if head := do(t, "HEAD", w.path("/devtools/inspector.html"), "X-API-Key", workerKey); head.status != 200 || head.header.Get("Content-Length") != "24" {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
}

func TestFrontEnd_ServesOnlyFrontEndFiles(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	for _, name := range []string{
		"../json/list", "..%2fjson/list", "%2e%2e/json/list", "a/../../json/list", "./inspector.html", "a//b.js", "a/", "/etc/passwd",
		"%2fetc%2fpasswd", "a%00.js", "a%0d%0aX:%20y", "a?b", "a b.js", "a\\b", "http:%2f%2fexample.com", "inspector.html%3fx", "...%2f..",
	} {
		got := do(t, "GET", w.path("/devtools/"+strings.ReplaceAll(strings.ReplaceAll(name, " ", "%20"), "?", "%3F")), "X-API-Key", workerKey)
		if got.status != 404 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if request := f.request(); request != nil {
		t.Errorf("Chromium got a request for %s", request.RequestURI)
	}
	if got := do(t, "GET", w.path("/devtools/missing.js"), "X-API-Key", workerKey); got.status != 404 {
		t.Errorf("an unknown file: got %d, want 404", got.status)
	}
}
