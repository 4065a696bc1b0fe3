package access_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

func TestPage_TurnsTokensIntoCookies(t *testing.T) {
	for public, want := range map[string]string{
		"http://worker.example:38923":      "; Path=/browsers/" + launch + "/; HttpOnly; SameSite=Strict",
		"https://edge.example/w/worker-1":  "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
		"https://edge.example/w/worker-1/": "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
	} {
		h := newFixture(t, public)
		const ctl, view = "ctl={ct}", "view={t}"
		for address, test := range map[string]struct {
			clean   string
			cookies []string
		}{
			"/page?ct={ct}":                  {"./page", []string{ctl}},
			"/page?theme=dark&ct={ct}&x=%26": {"./page?theme=dark&x=%26", []string{ctl}},
			"/page?ct={ct}&t={t}":            {"./page?t={t}", []string{ctl}}, // this page has no parameter t
			"/page/?ct={ct}":                 {"./", []string{ctl}},
			"/view?ct={ct}":                  {"./view", []string{ctl}},
			"/view?t={t}":                    {"./view", []string{view}},
			"/view?t={t}&scale=2":            {"./view?scale=2", []string{view}},
			"/view?ct={ct}&t={t}":            {"./view", []string{ctl, view}},
			"/view?ct=stale&t={t}":           {"./view", []string{view}},
			"/view?t=stale&ct={ct}":          {"./view", []string{ctl}},
		} {
			control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
			fill := strings.NewReplacer("{ct}", control, "{t}", view).Replace
			var cookies []string
			for _, cookie := range test.cookies {
				name, token, _ := strings.Cut(cookie, "=")
				cookies = append(cookies, ticket.CookieName(launch, map[string]ticket.Use{"ctl": ticket.Control, "view": ticket.View}[name])+"="+fill(token)+want)
			}
			got := do(t, "GET", h.urlOf(launch, fill(address)))
			if got.status != http.StatusSeeOther || !slices.Equal(got.header.Values("Set-Cookie"), cookies) {
				t.Errorf("%s: %d, cookies %q, want %q", address, got.status, got.header.Values("Set-Cookie"), cookies)
			}
			if got.header.Get("Location") != fill(test.clean) || got.header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: got Location %q, Referrer-Policy %q", address, got.header.Get("Location"), got.header.Get("Referrer-Policy"))
			}
		}
	}
}

func TestViewPage_OpensInFrameOfAncestorOnly(t *testing.T) {
	frame := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"}
	h := newFixture(t, "https://edge.example", "https://app.example", "https://*.app.example")
	got := do(t, "GET", h.urlOf(launch, "/view?t="+h.token(t, launch, ticket.View)), frame...)
	cookie := got.header.Get("Set-Cookie")
	if got.status != 200 || !strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=None; Partitioned") {
		t.Errorf("in a frame: %d, cookie %s", got.status, cookie)
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'self' https://app.example https://*.app.example;") || got.header.Get("X-Frame-Options") != "" {
		t.Errorf("in a frame: %v", got.header)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	if got := do(t, "GET", h.urlOf(launch, "/view"), append(frame, "Cookie", cookie)...); got.status != 200 {
		t.Errorf("with the cookie: %d %s", got.status, got.body)
	}
	without := newFixture(t, "https://edge.example")
	for name, test := range map[string]struct {
		fixture            *fixture
		path               string
		options, ancestors string
	}{
		"another page":      {h, "/page?ct=" + h.token(t, launch, ticket.Control), "DENY", "'none'"},
		"without ancestors": {without, "/view?t=" + without.token(t, launch, ticket.View), "SAMEORIGIN", "'self'"},
	} {
		got := do(t, "GET", test.fixture.urlOf(launch, test.path), frame...)
		if got.header.Get("Set-Cookie") != "" || got.header.Get("X-Frame-Options") != test.options ||
			!strings.Contains(got.header.Get("Content-Security-Policy"), "frame-ancestors "+test.ancestors+";") {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
	}
	own := append(slices.Clone(frame[:4]), "Sec-Fetch-Site", "same-origin")
	got = do(t, "GET", without.urlOf(launch, "/view?t="+without.token(t, launch, ticket.View)), own...)
	if cookie := got.header.Get("Set-Cookie"); got.status != 303 || !strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("in a frame of the worker: %d, cookie %s", got.status, cookie)
	}
}

func TestPage_StaleLinkKeepsValidCookie(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		cookie := ticket.CookieName(launch, use) + "=" + h.token(t, launch, use)
		got := do(t, "GET", h.urlOf(launch, "/view?ct=stale&t=stale"), "Cookie", cookie)
		if got.status != 303 || got.header.Get("Set-Cookie") != "" || got.header.Get("Location") != "./view" {
			t.Errorf("%s: %d %v", use, got.status, got.header)
		}
	}
}

func TestPage_CrossSiteLinkIsRefreshedToCleanURL(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for _, link := range []string{"/view?ct=" + h.token(t, launch, ticket.Control), "/view?t=" + h.token(t, launch, ticket.View)} {
		got := do(t, "GET", h.urlOf(launch, link), "Sec-Fetch-Site", "cross-site")
		if got.status != 200 || got.header.Get("Refresh") != "0; url=./view" || got.header.Get("Set-Cookie") == "" {
			t.Errorf("%d %v", got.status, got.header)
		}
		if strings.Contains(got.body, "eyJ") {
			t.Error("the page contains the token")
		}
	}
}

// TestCookies_CountOnlyForOwnOrigin: browsers also send cookies with requests and
// upgrades of other sites' pages.
func TestCookies_CountOnlyForOwnOrigin(t *testing.T) {
	for public, origins := range map[string]map[string]bool{
		"http://worker.example:38923": {
			"http://worker.example:38923": true, "http://WORKER.example:38923": true, "": false,
			"https://worker.example:38923": false, "http://worker.example": false, "http://worker.example:3000": false,
			"http://evil.example": false, "null": false, "http://worker.example:38923.evil.example": false, "http://[": false,
		},
		"https://edge.example/w/worker-1": {
			"https://edge.example": true, "https://edge.example:443": true,
			"http://edge.example": false, "https://edge.example:8443": false, "https://sub.edge.example": false,
		},
	} {
		h := newFixture(t, public)
		control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
		cookies := ticket.CookieName(launch, ticket.Control) + "=" + control
		viewCookie := ticket.CookieName(launch, ticket.View) + "=" + view
		for origin, ours := range origins {
			for _, request := range []struct {
				method, path, cookies string
				refusal               int // 0: always open
			}{
				{"GET", "/socket", cookies, 404}, {"GET", "/stream", cookies, 403}, {"GET", "/stream", viewCookie, 403},
				{"POST", "/change", cookies, 404}, {"PUT", "/many", cookies, 404},
				{"GET", "/asset", cookies, 0}, {"GET", "/view", viewCookie, 0}, {"GET", "/act", cookies, 404},
			} {
				want := 200
				if !ours && request.refusal != 0 {
					want = request.refusal
				}
				if got := do(t, request.method, h.urlOf(launch, request.path), "Cookie", request.cookies, "Origin", origin); got.status != want {
					t.Errorf("%s %s by a page of %q at %s: got %d %s, want %d", request.method, request.path, origin, public, got.status, got.body, want)
				}
				// The token itself works from every origin.
				if got := do(t, request.method, h.urlOf(launch, request.path), "X-Svc-Token", control, "Origin", origin); got.status != 200 {
					t.Errorf("%s %s by a page of %q with the token in the header: got %d, want 200", request.method, request.path, origin, got.status)
				}
			}
		}
	}
}

// TestCookies_GetWithSideEffectsRequiresOwnOrigin: browsers send no Origin header
// with a GET, and send cookies to every port of a host.
func TestCookies_GetWithSideEffectsRequiresOwnOrigin(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	control := h.token(t, launch, ticket.Control)
	cookie := ticket.CookieName(launch, ticket.Control) + "=" + control
	for site, want := range map[string]int{"same-origin": 200, "none": 200, "same-site": 404, "cross-site": 404, "": 404, "unheard": 404} {
		if got := do(t, "GET", h.urlOf(launch, "/act"), "Cookie", cookie, "Sec-Fetch-Site", site); got.status != want {
			t.Errorf("GET by a page of %q: %d, want %d", site, got.status, want)
		}
		if want == 200 {
			want = 405
		}
		if got := do(t, "HEAD", h.urlOf(launch, "/act"), "Cookie", cookie, "Sec-Fetch-Site", site); got.status != want {
			t.Errorf("HEAD by a page of %q: %d, want %d", site, got.status, want)
		}
		for _, credential := range [][]string{{"X-Svc-Token", control}, {"X-API-Key", workerKey}} {
			if got := do(t, "GET", h.urlOf(launch, "/act"), "Sec-Fetch-Site", site, credential[0], credential[1]); got.status != 200 {
				t.Errorf("%s from a page of %q: got %d, want 200", credential[0], site, got.status)
			}
		}
		if got := do(t, "GET", h.urlOf(launch, "/act?ct="+control), "Sec-Fetch-Site", site, "Origin", "https://evil.example"); got.status != 200 {
			t.Errorf("the token in the URL from a page of %q: got %d, want 200", site, got.status)
		}
		if got := do(t, "GET", h.urlOf(launch, "/asset"), "Cookie", cookie, "Sec-Fetch-Site", site); got.status != 200 {
			t.Errorf("a GET without side effects by a page of %q: got %d, want 200", site, got.status)
		}
	}
	for site, want := range map[string]int{"same-origin": 200, "none": 404, "same-site": 404, "cross-site": 404, "": 404} {
		for _, request := range [][2]string{{"POST", "/change"}, {"PUT", "/many"}, {"GET", "/socket"}} {
			if got := do(t, request[0], h.urlOf(launch, request[1]), "Cookie", cookie, "Sec-Fetch-Site", site); got.status != want {
				t.Errorf("%s %s by a page of %q: got %d, want %d", request[0], request[1], site, got.status, want)
			}
		}
	}
}
