package gate_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

func TestAPageTurnsTokensIntoCookies(t *testing.T) {
	for public, want := range map[string]string{
		"http://worker.example:38923":      "; Path=/browsers/" + launch + "/; HttpOnly; SameSite=Strict",
		"https://edge.example/w/worker-1":  "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
		"https://edge.example/w/worker-1/": "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
	} {
		h := newHouse(t, public)
		control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
		ctl := ticket.CookieName(launch, ticket.Control) + "=" + control + want
		seen := ticket.CookieName(launch, ticket.View) + "=" + view + want
		for address, test := range map[string]struct {
			clean   string
			cookies []string
		}{
			"/page?ct=" + control:                       {"./page", []string{ctl}},
			"/page?theme=dark&ct=" + control + "&x=%26": {"./page?theme=dark&x=%26", []string{ctl}},
			"/page?ct=" + control + "&t=" + view:        {"./page?t=" + view, []string{ctl}}, // t is no token there
			"/page/?ct=" + control:                      {"./", []string{ctl}},
			"/view?ct=" + control:                       {"./view", []string{ctl}},
			"/view?t=" + view:                           {"./view", []string{seen}},
			"/view?t=" + view + "&scale=2":              {"./view?scale=2", []string{seen}},
			"/view?ct=" + control + "&t=" + view:        {"./view", []string{ctl, seen}},
			"/view?ct=stale&t=" + view:                  {"./view", []string{seen}},
			"/view?t=stale&ct=" + control:               {"./view", []string{ctl}},
		} {
			for _, method := range []string{"GET", "HEAD", "GET"} { // a link may be opened again
				got := do(t, method, h.at(launch, address))
				if got.status != http.StatusSeeOther || !slices.Equal(got.header.Values("Set-Cookie"), test.cookies) {
					t.Errorf("%s: %d, cookies %q, want %q", address, got.status, got.header.Values("Set-Cookie"), test.cookies)
				}
				if got.header.Get("Location") != test.clean || got.header.Get("Referrer-Policy") != "no-referrer" {
					t.Errorf("%s: to %q with %q", address, got.header.Get("Location"), got.header.Get("Referrer-Policy"))
				}
			}
		}
	}
}

func TestAStaleLinkDoesNotReplaceAGoodCookie(t *testing.T) {
	h := newHouse(t, "http://worker.example:38923")
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		cookie := ticket.CookieName(launch, use) + "=" + h.token(t, launch, use)
		got := do(t, "GET", h.at(launch, "/view?ct=stale&t=stale"), "Cookie", cookie)
		if got.status != 303 || got.header.Get("Set-Cookie") != "" || got.header.Get("Location") != "./view" {
			t.Errorf("%s: %d %v", use, got.status, got.header)
		}
	}
}

func TestALinkOnAnotherSiteIsSentOnByAPage(t *testing.T) {
	h := newHouse(t, "http://worker.example:38923")
	for _, link := range []string{"/view?ct=" + h.token(t, launch, ticket.Control), "/view?t=" + h.token(t, launch, ticket.View)} {
		got := do(t, "GET", h.at(launch, link), "Sec-Fetch-Site", "cross-site")
		if got.status != 200 || got.header.Get("Refresh") != "0; url=./view" || got.header.Get("Set-Cookie") == "" {
			t.Errorf("%d %v", got.status, got.header)
		}
		if strings.Contains(got.body, "eyJ") {
			t.Error("the page shows the token")
		}
	}
}

// TestCookiesCountOnlyForOurOwnPages: browsers send them along with what other
// sites' pages ask for, upgrades included.
func TestCookiesCountOnlyForOurOwnPages(t *testing.T) {
	for public, origins := range map[string]map[string]bool{
		"http://worker.example:38923": {
			"http://worker.example:38923": true, "http://WORKER.example:38923": true, "": true,
			"https://worker.example:38923": false, "http://worker.example": false, "http://worker.example:3000": false,
			"http://evil.example": false, "null": false, "http://worker.example:38923.evil.example": false, "http://[": false,
		},
		"https://edge.example/w/worker-1": {
			"https://edge.example": true, "https://edge.example:443": true,
			"http://edge.example": false, "https://edge.example:8443": false, "https://sub.edge.example": false,
		},
	} {
		h := newHouse(t, public)
		control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
		cookies := ticket.CookieName(launch, ticket.Control) + "=" + control
		seen := ticket.CookieName(launch, ticket.View) + "=" + view
		for origin, ours := range origins {
			for _, request := range []struct {
				method, path, cookies string
				refusal               int // 0: always open
			}{
				{"GET", "/socket", cookies, 404}, {"GET", "/stream", cookies, 403}, {"GET", "/stream", seen, 403},
				{"POST", "/change", cookies, 404}, {"PUT", "/many", cookies, 404},
				{"GET", "/asset", cookies, 0}, {"GET", "/view", seen, 0},
			} {
				want := 200
				if !ours && request.refusal != 0 {
					want = request.refusal
				}
				if got := do(t, request.method, h.at(launch, request.path), "Cookie", request.cookies, "Origin", origin); got.status != want {
					t.Errorf("%s %s by a page of %q at %s: %d %s, want %d", request.method, request.path, origin, public, got.status, got.body, want)
				}
				// Whoever knows the token needs no cookie, wherever it runs.
				if got := do(t, request.method, h.at(launch, request.path), "X-Svc-Token", control, "Origin", origin); got.status != 200 {
					t.Errorf("%s %s by %q with the header: %d", request.method, request.path, origin, got.status)
				}
			}
		}
	}
}
