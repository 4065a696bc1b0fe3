package access_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"}

func TestAuthorizer_WrongTokenLooksLikeUnknownBrowser(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	good := map[string]string{unknown: h.token(t, unknown, ticket.Control), other: h.token(t, other, ticket.Control)}
	paths := []string{"", "/", "/change", "/many", "/ends", "/x", "/x/y", "/page/z"}
	for path := range kinds {
		paths = append(paths, path, path+"?ct=garbage&t=garbage")
	}
	for _, method := range methods {
		for _, path := range paths {
			text := "unknown browser"
			if strings.HasPrefix(path, "/stream") && method != "BREW" {
				text = "forbidden"
			}
			for _, headers := range [][]string{
				nil, {"X-Svc-Token", "garbage"}, {"X-API-Key", "garbage"},
				{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
				{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, {"Content-Type", "application/json"},
			} {
				want := raw(do(t, method, h.urlOf(unknown, path), headers...))
				if method == "GET" && !strings.HasSuffix(want, "\n\n"+text) {
					t.Fatalf("%s %s: %s", method, path, want)
				}
				for what, id := range map[string]string{"a running browser": launch, "an ended browser": other} {
					if got := raw(do(t, method, h.urlOf(id, path), headers...)); got != want {
						t.Errorf("%s %s of %s: %s", method, path, what, cmp.Diff(want, got))
					}
				}
			}
			for id, token := range good {
				got := do(t, method, h.urlOf(id, path), "X-Svc-Token", token, "X-API-Key", workerKey)
				if got.status != map[string]int{"unknown browser": 404, "forbidden": 403}[text] || method == "GET" && got.body != text {
					t.Errorf("%s %s of %s with every credential: %d %s", method, path, id, got.status, got.body)
				}
			}
		}
	}
}

func TestAuthorizer_ShowsPageForUnknownBrowserToPeople(t *testing.T) {
	h := newFixture(t, "https://browsers.example/w/7")
	people := []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, path := range []string{"/page", "/page?ct=garbage", "/view?t=garbage"} {
		want := raw(do(t, "GET", h.urlOf(unknown, path), people...))
		for _, part := range []string{"404", "text/html", "<h1>Unknown browser</h1>", `<a href="/w/7/">`, "style-src 'sha256-"} {
			if !strings.Contains(want, part) {
				t.Errorf("%s: %q is missing in\n%s", path, part, want)
			}
		}
		for what, id := range map[string]string{"a running browser": launch, "an ended browser": other} {
			if diff := cmp.Diff(want, raw(do(t, "GET", h.urlOf(id, path), people...))); diff != "" {
				t.Errorf("%s of %s: %s", path, what, diff)
			}
		}
	}
	for name, request := range map[string]struct {
		path    string
		headers []string
	}{
		"a program":       {"/page", []string{"Accept", "*/*"}},
		"a script's call": {"/page", []string{"Accept", "text/html", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}},
		"an asset":        {"/asset", people},
	} {
		if got := do(t, "GET", h.urlOf(unknown, request.path), request.headers...); got.status != 404 || got.body != "unknown browser" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

func TestAuthorizer_ReportsMethodsAndPathsToAuthorizedCallers(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for path, test := range map[string]struct{ method, allow string }{
		"/asset": {"POST", "GET, HEAD"}, "/page": {"PUT", "GET, HEAD"}, "/stream": {"DELETE", "GET, HEAD"}, "/view": {"OPTIONS", "GET, HEAD"},
		"/change": {"GET", "POST"}, "/many": {"GET", "PUT, POST"},
		"/page?ct=" + h.token(t, launch, ticket.Control): {"POST", "GET, HEAD"},
	} {
		got := do(t, test.method, h.urlOf(launch, path), "X-API-Key", workerKey)
		if got.status != 405 || got.header.Get("Allow") != test.allow || !strings.Contains(got.body, "VALIDATION_ERROR") {
			t.Errorf("%s %s: %d %s, allows %q", test.method, path, got.status, got.body, got.header.Get("Allow"))
		}
	}
	for method, path := range map[string]string{"POST": "/change", "PUT": "/many", "HEAD": "/asset"} {
		if got := do(t, method, h.urlOf(launch, path), "X-API-Key", workerKey); got.status != 200 {
			t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
		}
	}
	if got := do(t, "POST", h.urlOf(launch, "/many"), "X-API-Key", workerKey); got.status != 200 || !strings.HasPrefix(got.body, "POST ") {
		t.Errorf("the second method of a path: %d %s", got.status, got.body)
	}
	for _, path := range []string{"", "/", "/x", "/page/x/y"} {
		if got := do(t, "GET", h.urlOf(launch, path), "X-API-Key", workerKey); got.status != 404 || !strings.Contains(got.body, "RESOURCE_NOT_FOUND") {
			t.Errorf("%q: %d %s", path, got.status, got.body)
		}
	}
	if got := do(t, "GET", h.urlOf(launch, "/ends"), "X-API-Key", workerKey); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("a browser that ends during the request: %d %s", got.status, got.body)
	}
}

// TestAuthorizer_ChecksRequestAfterAuthorization checks that only authorized callers
// get validation errors.
func TestAuthorizer_ChecksRequestAfterAuthorization(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	h.checked = func(echo.Context) error { return fault.Field("x", "is wrong") }
	if got := do(t, "GET", h.urlOf(launch, "/asset")); got.status != 404 {
		t.Errorf("without a credential: got %d %s, want 404", got.status, got.body)
	}
	if got := do(t, "GET", h.urlOf(launch, "/asset"), "X-API-Key", workerKey); got.status != 400 || !strings.Contains(got.body, "is wrong") {
		t.Errorf("with the worker key: got %d %s, want 400", got.status, got.body)
	}
}

func TestAuthorizer_SetsSecurityHeaders(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for _, headers := range [][]string{nil, {"X-API-Key", workerKey}} {
		got := do(t, "GET", h.urlOf(launch, "/asset"), headers...)
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%d: %s: %q", got.status, name, got.header.Get(name))
			}
		}
	}
}
