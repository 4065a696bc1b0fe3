package devtools_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/devtools"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// upgrade is a WebSocket handshake's own headers.
var upgrade = []string{
	"Connection", "keep-alive, Upgrade", "Upgrade", "websocket",
	"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
}

func TestCredentialsByRoute(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	control := w.token(t, launch, ticket.Control)
	cookie := ticket.CookieName(launch, ticket.Control) + "="
	newer := ticket.New(w.clock) // after a restart
	stale, _, err := newer.Mint(launch, ticket.Control)
	if err != nil {
		t.Fatal(err)
	}
	type statuses struct{ socket, page, asset int }
	open, shut := statuses{101, 200, 200}, statuses{404, 404, 404}

	for name, test := range map[string]struct {
		headers []string
		query   string
		want    statuses
	}{
		"nothing":                     {nil, "", shut},
		"token in the header":         {[]string{"X-Svc-Token", control}, "", open},
		"token in the cookie":         {[]string{"Cookie", cookie + control}, "", open},
		"token in the query":          {nil, "?ct=" + control, statuses{101, 303, 404}},
		"worker key":                  {[]string{"X-API-Key", workerKey}, "", open},
		"a wrong worker key":          {[]string{"X-API-Key", workerKey + "x"}, "", shut},
		"an empty worker key":         {[]string{"X-API-Key", ""}, "", shut},
		"garbage in the header":       {[]string{"X-Svc-Token", "garbage"}, "", shut},
		"garbage in the cookie":       {[]string{"Cookie", cookie + "garbage"}, "", shut},
		"garbage in the query":        {nil, "?ct=garbage", shut},
		"an empty query":              {nil, "?ct=", shut},
		"a view ticket":               {[]string{"X-Svc-Token", w.token(t, launch, ticket.View)}, "", shut},
		"a view ticket as cookie":     {[]string{"Cookie", cookie + w.token(t, launch, ticket.View)}, "", shut},
		"another launch's token":      {[]string{"X-Svc-Token", w.token(t, other, ticket.Control)}, "?ct=" + w.token(t, other, ticket.Control), shut},
		"the previous boot's token":   {[]string{"X-Svc-Token", stale}, "", shut},
		"the token as worker key":     {[]string{"X-API-Key", control}, "", shut},
		"the worker key as token":     {[]string{"X-Svc-Token", workerKey}, "?ct=" + workerKey, shut},
		"another launch's cookie":     {[]string{"Cookie", ticket.CookieName(other, ticket.Control) + "=" + control}, "", shut},
		"a stale cookie, a good link": {[]string{"Cookie", cookie + stale}, "?ct=" + control, statuses{101, 303, 404}},
		"two cookies, one good":       {[]string{"Cookie", cookie + stale + "; " + cookie + control}, "", open},
		"a good cookie, a stale link": {[]string{"Cookie", cookie + control}, "?ct=" + stale, statuses{101, 303, 200}},
		"a bad header, a good cookie": {[]string{"X-Svc-Token", "garbage", "Cookie", cookie + control}, "", open},
		"a token in the wrong header": {[]string{"Authorization", "Bearer " + control}, "", shut},
		"a token of the view's query": {nil, "?t=" + control, shut},
	} {
		t.Run(name, func(t *testing.T) {
			for path, want := range map[string]int{
				"/devtools/browser/a-b-c":  test.want.socket,
				"/devtools/page/ABC":       test.want.socket,
				"/view":                    test.want.page,
				"/view/view.js":            test.want.asset,
				"/devtools/inspector.html": test.want.asset,
				"/no/such/path":            404,
				"/devtools/":               map[int]int{200: 303, 303: 303, 404: 404}[test.want.page],
			} {
				headers := test.headers
				if strings.HasPrefix(path, "/devtools/browser") || strings.HasPrefix(path, "/devtools/page") {
					headers = append(headers[:len(headers):len(headers)], upgrade...)
				}
				got := do(t, "GET", w.path(path)+test.query, headers...)
				if got.status != want {
					t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
				}
				if allowed := test.want.asset != 404; path == "/no/such/path" && allowed == (got.body == "unknown browser") {
					t.Errorf("%s: %s", path, got.body)
				}
			}
		})
	}
	if strings.Contains(w.log.String(), control) || strings.Contains(w.log.String(), stale) {
		t.Error("a token is in the log")
	}
}

func TestAnExpiredTokenOpensNothing(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	control := w.token(t, launch, ticket.Control)
	if got := do(t, "GET", w.path("/view"), "X-Svc-Token", control); got.status != 200 {
		t.Fatalf("fresh: %d", got.status)
	}
	w.clock.Advance(12 * time.Hour)
	if got := do(t, "GET", w.path("/view"), "X-Svc-Token", control); got.status != 404 {
		t.Errorf("expired: %d", got.status)
	}
}

// raw is an answer as it comes, without what differs from request to request.
func raw(a answer) string {
	a.header.Del("Date")
	a.header.Del("X-Request-Id")
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	_ = a.header.Write(&b)
	return b.String() + "\n" + a.body
}

func TestAWrongTokenLooksLikeNoBrowserByteForByte(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	ended := make(chan struct{})
	close(ended)
	w.finder.add(devtools.Target{LaunchID: other, DebugPort: 1, Done: ended})
	good := w.token(t, unknown, ticket.Control)

	paths := []string{"", "/", "/view", "/view/view.js", "/devtools/", "/devtools/inspector.html", "/devtools/browser/a", "/devtools/page/a", "/screenshot", "/x"}
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW"} {
		for _, path := range paths {
			for _, headers := range [][]string{nil, {"X-Svc-Token", "garbage"}, upgrade, {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}} {
				base := "http://" + w.address + "/browsers/"
				want := raw(do(t, method, base+unknown+path, headers...))
				if method == "GET" && !strings.HasSuffix(want, "\n\nunknown browser") {
					t.Fatalf("%s %s: %s", method, path, want)
				}
				for what, id := range map[string]string{"one that runs": launch, "one that has ended": other} {
					if got := raw(do(t, method, base+id+path, headers...)); got != want {
						t.Errorf("%s %s of %s: %s", method, path, what, cmp.Diff(want, got))
					}
				}
			}
			if got := do(t, method, "http://"+w.address+"/browsers/"+unknown+path, "X-Svc-Token", good, "X-API-Key", workerKey); got.status != 404 ||
				method == "GET" && got.body != "unknown browser" {
				t.Errorf("%s %s of none with every credential: %d %s", method, path, got.status, got.body)
			}
		}
	}
}

func TestOtherMethodsAreRefusedToThoseWhoMayKnow(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	for _, path := range []string{"/view", "/screenshot", "/devtools/", "/devtools/inspector.html", "/devtools/page/a"} {
		got := do(t, "POST", w.path(path), "X-API-Key", workerKey)
		if got.status != 405 || got.header.Get("Allow") != "GET, HEAD" || !strings.Contains(got.body, "VALIDATION_ERROR") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestAPageTurnsTheTokenIntoACookie(t *testing.T) {
	for public, want := range map[string]string{
		"http://worker.example:38923":      "; Path=/browsers/" + launch + "/; HttpOnly; SameSite=Strict",
		"https://edge.example/w/worker-1":  "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
		"https://edge.example/w/worker-1/": "; Path=/w/worker-1/browsers/" + launch + "/; HttpOnly; Secure; SameSite=Strict",
	} {
		w, _ := newFakeWorker(t, public)
		token := w.token(t, launch, ticket.Control)
		for path, clean := range map[string]string{
			"/view?ct=" + token:                       "./view",
			"/view?theme=dark&ct=" + token + "&x=%26": "./view?theme=dark&x=%26",
			"/devtools/?ct=" + token:                  "./",
		} {
			for range 2 { // a link may be opened again
				got := do(t, "GET", w.path(path))
				wantCookie := ticket.CookieName(launch, ticket.Control) + "=" + token + want
				if got.status != http.StatusSeeOther || got.header.Get("Set-Cookie") != wantCookie {
					t.Errorf("%s: %d, cookie %q, want %q", path, got.status, got.header.Get("Set-Cookie"), wantCookie)
				}
				if got.header.Get("Location") != clean || got.header.Get("Referrer-Policy") != "no-referrer" {
					t.Errorf("%s: to %q with %q", path, got.header.Get("Location"), got.header.Get("Referrer-Policy"))
				}
			}
		}
	}
}

func TestAStaleLinkDoesNotReplaceAGoodCookie(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	cookie := ticket.CookieName(launch, ticket.Control) + "=" + w.token(t, launch, ticket.Control)
	got := do(t, "GET", w.path("/view?ct=stale"), "Cookie", cookie)
	if got.status != 303 || got.header.Get("Set-Cookie") != "" || got.header.Get("Location") != "./view" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

func TestALinkOnAnotherSiteIsSentOnByAPage(t *testing.T) {
	w, _ := newFakeWorker(t, "")
	got := do(t, "GET", w.path("/view?ct="+w.token(t, launch, ticket.Control)), "Sec-Fetch-Site", "cross-site")
	if got.status != 200 || got.header.Get("Refresh") != "0; url=./view" || got.header.Get("Set-Cookie") == "" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if strings.Contains(got.body, "eyJ") {
		t.Error("the page shows the token")
	}
}

func TestACookieUpgradesOnlyForOurOwnPages(t *testing.T) {
	for public, origins := range map[string]map[string]int{
		"http://worker.example:38923": {
			"http://worker.example:38923": 101, "http://WORKER.example:38923": 101, "": 101,
			"https://worker.example:38923": 404, "http://worker.example": 404, "http://worker.example:3000": 404,
			"http://evil.example": 404, "null": 404, "http://worker.example:38923.evil.example": 404, "http://[": 404,
		},
		"https://edge.example/w/worker-1": {
			"https://edge.example": 101, "https://edge.example:443": 101,
			"http://edge.example": 404, "https://edge.example:8443": 404, "https://sub.edge.example": 404,
		},
	} {
		w, _ := newFakeWorker(t, public)
		token := w.token(t, launch, ticket.Control)
		for origin, want := range origins {
			cookie := append([]string{"Cookie", ticket.CookieName(launch, ticket.Control) + "=" + token, "Origin", origin}, upgrade...)
			got := do(t, "GET", w.path("/devtools/browser/a"), cookie...)
			if got.status != want || want == 404 && got.body != "unknown browser" {
				t.Errorf("a page of %q at %s: %d %s, want %d", origin, public, got.status, got.body, want)
			}
			// Whoever knows the token needs no cookie, wherever it runs.
			header := append([]string{"X-Svc-Token", token, "Origin", origin}, upgrade...)
			if got := do(t, "GET", w.path("/devtools/browser/a"), header...); got.status != 101 {
				t.Errorf("%q with the header: %d", origin, got.status)
			}
		}
	}
}
