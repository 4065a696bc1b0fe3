package rest_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/webapp"
)

// dashboardBundle is a small dashboard.
func dashboardBundle(t *testing.T, public *url.URL) *webapp.Bundle {
	t.Helper()
	bundle, err := webapp.New(fstest.MapFS{
		"index.html":              {Data: []byte(`<!doctype html><base href="/"><script type="module" src="assets/main-4XBQ2T7C.js"></script>`)},
		"assets/main-4XBQ2T7C.js": {Data: []byte("document.title = 'svc'")},
	}, webapp.Options{Public: public})
	must(t, err)
	return bundle
}

// page returns the response of a GET request.
func (s *signInAPI) page(client *http.Client, path string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(contracttest.AllowUndocumentedRoute(s.t.Context()), http.MethodGet, s.url+path, nil)
	must(s.t, err)
	res, err := client.Do(r)
	must(s.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(s.t, err)
	return res, string(body)
}

func TestDashboard_ServesPageWithPolicy(t *testing.T) {
	s := newSignIn(t)
	paths := []string{"/account/verify-email", "/account/reset-password", "/account/accept-invitation"}
	for _, route := range rest.DashboardRoutes {
		paths = append(paths, strings.NewReplacer(":id", "019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a01", ":section", "members").Replace(route))
	}
	for _, path := range paths {
		res, body := s.page(s.client, path)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(body, `src="assets/main-4XBQ2T7C.js"`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		policy := res.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "unsafe") ||
			res.Header.Get("Referrer-Policy") != "no-referrer" || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
	if res, body := s.page(s.client, "/assets/main-4XBQ2T7C.js"); res.StatusCode != 200 || body != "document.title = 'svc'" {
		t.Errorf("the script: %d %s", res.StatusCode, body)
	}
	for _, path := range []string{"/unknown", "/settings/members/unknown", "/sessions/", "/assets/main-OLD.js", "/account/assets/page.js"} {
		if res, body := s.page(s.client, path); res.StatusCode != 404 || !strings.Contains(body, `"RESOURCE_NOT_FOUND"`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// Links in mails have their token in the fragment. A token in the query is not logged
// either.
func TestDashboard_QueryIsNotLogged(t *testing.T) {
	s := newSignIn(t)
	s.signUp("ada@example.com") // the log must not be empty
	const token = "5XoN3Vd6kQy2o0lEwq8rWJ9uTzM4bYhC7aGfKsPi1xU"
	for _, path := range []string{"/account/verify-email", "/account/reset-password", "/account/accept-invitation", "/sign-in/link", "/"} {
		if res, body := s.page(http.DefaultClient, path+"?token="+token); res.StatusCode != 200 || strings.Contains(body, token) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		if !strings.Contains(s.log.String(), "path="+path+" ") {
			t.Errorf("%s is not in the log", path)
		}
	}
	s.wantUnlogged(token)
}
