package access_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// links are the URLs of pages that take a token. A token opens a page once
// (specification 4.4, 5.1).
var links = map[string]ticket.Use{"/page?ct=": ticket.Control, "/page/?ct=": ticket.Control, "/view?ct=": ticket.Control, "/view?t=": ticket.View}

func TestPage_AcceptsTokenFromURLOnce(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for link, use := range links {
		token := h.token(t, launch, use)
		if got := do(t, "GET", h.urlOf(launch, link+token)); got.status != 303 || got.header.Get("Set-Cookie") == "" {
			t.Fatalf("%s: %d %v", link, got.status, got.header)
		}
		want := raw(do(t, "GET", h.urlOf(unknown, link+token)))
		for other, itsUse := range links {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				if isView(other) != isView(link) {
					continue
				}
				got := do(t, method, h.urlOf(launch, other+token))
				if itsUse != use || method != "GET" {
					if got.status != 404 {
						t.Errorf("%s %s after %s: %d", method, other, link, got.status)
					}
				} else if raw(got) != want {
					t.Errorf("%s after %s: %s", other, link, raw(got))
				}
			}
		}
		cookie := ticket.CookieName(launch, use) + "=" + token
		for range 2 {
			got := do(t, "GET", h.urlOf(launch, link+token), "Cookie", cookie)
			if got.status != 303 || got.header.Get("Set-Cookie") != "" || strings.Contains(got.header.Get("Location"), token) {
				t.Errorf("%s with its cookie: %d %v", link, got.status, got.header)
			}
		}
		if page, _, _ := strings.Cut(link, "?"); do(t, "GET", h.urlOf(launch, page), "Cookie", cookie).status != 200 {
			t.Errorf("%s: the cookie does not open the page", page)
		}
		h.expectStillOpen(t, token, use)
	}
}

func isView(link string) bool { return strings.HasPrefix(link, "/view") }

func TestPage_TokenOpensViewAndBrowserOnceEach(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token := h.token(t, launch, ticket.Control)
	for _, tc := range []struct {
		link   string
		status int
	}{{"/view?ct=", 303}, {"/page?ct=", 303}, {"/view?ct=", 404}, {"/page/?ct=", 404}} {
		if got := do(t, "GET", h.urlOf(launch, tc.link+token)); got.status != tc.status {
			t.Errorf("%s: %d, want %d", tc.link, got.status, tc.status)
		}
	}
}

// expectStillOpen checks that a token that has opened a page still opens the routes
// that programs use.
func (h *fixture) expectStillOpen(t *testing.T, token string, use ticket.Use) {
	t.Helper()
	paths, query := []string{"/socket", "/asset", "/stream", "/view-asset"}, "?ct="
	if use == ticket.View {
		paths, query = []string{"/stream", "/view-asset"}, "?t="
	}
	for _, path := range paths {
		for range 2 {
			if got := do(t, "GET", h.urlOf(launch, path)+query+token); got.status != 200 {
				t.Errorf("%s with a token that has opened a page: %d", path, got.status)
			}
		}
	}
}

func TestPage_ConcurrentRequestsSpendTokenOnce(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for link, use := range links {
		address := h.urlOf(launch, link+h.token(t, launch, use))
		var opened, refused atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				switch {
				case res.StatusCode == 303 && res.Header.Get("Set-Cookie") != "":
					opened.Add(1)
				case res.StatusCode == 404 && res.Header.Get("Set-Cookie") == "":
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if opened.Load() != 1 || refused.Load() != 15 {
			t.Errorf("%s: opened %d times, refused %d times", link, opened.Load(), refused.Load())
		}
	}
}

// TestPrefetch_SpendsNoToken also covers previews and pages in frames.
func TestPrefetch_SpendsNoToken(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for link, use := range links {
		address := h.urlOf(launch, link+h.token(t, launch, use))
		for _, ahead := range [][]string{
			{"HEAD"}, {"GET", "Sec-Purpose", "prefetch"}, {"GET", "Sec-Purpose", "prefetch;prerender"}, {"GET", "Purpose", "prefetch"}, {"GET", "X-Moz", "prefetch"},
			{"GET", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, {"GET", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"},
			{"GET", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, {"HEAD", "Sec-Fetch-Site", "cross-site"},
		} {
			got := do(t, ahead[0], address, ahead[1:]...)
			if got.status != 303 || got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s, %v: %d %v", link, ahead, got.status, got.header)
			}
		}
		got := do(t, "GET", address, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none")
		if got.status != 303 || got.header.Get("Set-Cookie") == "" {
			t.Errorf("%s: %d %v", link, got.status, got.header)
		}
		if got := do(t, "HEAD", address); got.status != 404 {
			t.Errorf("HEAD of %s, spent: %d", link, got.status)
		}
	}
}

// TestCrossSiteLink_CanBeFollowedAgain: the browser does not send the cookie with the
// cross-site request, only with the request for the clean URL.
func TestCrossSiteLink_CanBeFollowedAgain(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	address := "/view?ct=" + h.token(t, launch, ticket.Control)
	for i := range 3 {
		got := do(t, "GET", h.urlOf(launch, address), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		if got.status != 200 || got.header.Get("Refresh") != "0; url=./view" || (got.header.Get("Set-Cookie") != "") != (i == 0) {
			t.Errorf("%d: %d %v", i, got.status, got.header)
		}
	}
	if got := do(t, "GET", h.urlOf(launch, "/view"), "Sec-Fetch-Site", "cross-site"); got.status != 404 {
		t.Errorf("the clean URL without a cookie: got %d, want 404", got.status)
	}
	if got := do(t, "GET", h.urlOf(launch, "/view?ct=x"), "Sec-Fetch-Site", "cross-site"); got.status != 404 {
		t.Errorf("a wrong token: got %d, want 404", got.status)
	}
}

func TestSpentToken_OpensNoPageAfterExpiryOrEnd(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token := h.token(t, launch, ticket.View)
	if got := do(t, "GET", h.urlOf(launch, "/view?t="+token)); got.status != 303 {
		t.Fatalf("%d", got.status)
	}
	h.clock.Advance(15 * time.Minute)
	if got := do(t, "GET", h.urlOf(launch, "/view?t="+token)); got.status != 404 {
		t.Errorf("an expired token: got %d, want 404", got.status)
	}
	fresh := h.token(t, launch, ticket.Control)
	h.tickets.End(launch)
	if got := do(t, "GET", h.urlOf(launch, "/view?ct="+fresh)); got.status != 404 {
		t.Errorf("a token of a launch that has ended: got %d, want 404", got.status)
	}
}
