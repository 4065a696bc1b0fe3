package access_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

const consoleCookie = "svc_console="

func mintConsole(t *testing.T, tickets *ticket.Tickets) string {
	t.Helper()
	token, _, err := tickets.MintConsole()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestConsoleCookie_GrantsSameAccessAsWorkerKey sends the console token in every place
// of a credential: it counts only in its cookie.
func TestConsoleCookie_GrantsSameAccessAsWorkerKey(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token, earlier := mintConsole(t, h.tickets), mintConsole(t, ticket.New(h.clock))
	ctl, view := ticket.CookieName(launch, ticket.Control)+"=", ticket.CookieName(launch, ticket.View)+"="
	for name, test := range map[string]struct {
		headers []string
		query   string
		want    statuses
	}{
		"the console cookie":             {[]string{"Cookie", consoleCookie + token}, "", open},
		"two cookies, one good":          {[]string{"Cookie", consoleCookie + earlier + "; " + consoleCookie + token}, "", open},
		"the cookie, a bad worker key":   {[]string{"Cookie", consoleCookie + token, "X-API-Key", "wrong"}, "", open},
		"a bad cookie, the worker key":   {[]string{"Cookie", consoleCookie + "garbage", "X-API-Key", workerKey}, "", open},
		"a bad cookie, a control token":  {[]string{"Cookie", consoleCookie + "garbage", "X-Svc-Token", "{ct}"}, "", open},
		"a bad cookie, a view ticket":    {[]string{"Cookie", consoleCookie + "garbage; " + view + "{t}"}, "", watch},
		"an empty cookie":                {[]string{"Cookie", consoleCookie}, "", shut},
		"garbage":                        {[]string{"Cookie", consoleCookie + "garbage"}, "", shut},
		"the previous boot's cookie":     {[]string{"Cookie", consoleCookie + earlier}, "", shut},
		"a control token in the cookie":  {[]string{"Cookie", consoleCookie + "{ct}"}, "", shut},
		"a view ticket in the cookie":    {[]string{"Cookie", consoleCookie + "{t}"}, "", shut},
		"the worker key in the cookie":   {[]string{"Cookie", consoleCookie + workerKey}, "", shut},
		"the token as control token":     {[]string{"X-Svc-Token", token}, "", shut},
		"the token as worker key":        {[]string{"X-API-Key", token}, "", shut},
		"the token as bearer":            {[]string{"Authorization", "Bearer " + token}, "", shut},
		"the token as control cookie":    {[]string{"Cookie", ctl + token}, "", shut},
		"the token as view cookie":       {[]string{"Cookie", view + token}, "", shut},
		"the token in the query":         {nil, "?ct=" + token + "&t=" + token, shut},
		"the cookie with a control link": {[]string{"Cookie", consoleCookie + token}, "?ct={ct}", link},
		"the cookie with a spent link":   {[]string{"Cookie", consoleCookie + token}, "?ct=garbage", link},
	} {
		t.Run(name, func(t *testing.T) { h.expect(t, test.headers, test.query, test.want) })
	}
	for name, forged := range forgedTokens(t, token) {
		t.Run(name, func(t *testing.T) { h.expect(t, []string{"Cookie", consoleCookie + forged}, "", shut) })
	}
	h.clock.Advance(12*time.Hour - time.Second)
	h.expect(t, []string{"Cookie", consoleCookie + token}, "", open)
	h.clock.Advance(time.Second)
	h.expect(t, []string{"Cookie", consoleCookie + token}, "", shut)
	for _, secret := range []string{token, earlier} {
		if strings.Contains(h.log.String(), secret) {
			t.Error("the log contains a console token")
		}
	}
}

// TestConsoleCookie_CountsOnlyForOwnOrigin: the rules are those of control cookies.
func TestConsoleCookie_CountsOnlyForOwnOrigin(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	cookie := consoleCookie + mintConsole(t, h.tickets)
	for _, request := range []struct {
		method, path string
		refusal      int
	}{{"GET", "/socket", 404}, {"GET", "/stream", 403}, {"POST", "/change", 404}, {"PUT", "/many", 404}, {"GET", "/act", 404}} {
		for _, origin := range []struct {
			header, value string
			ours          bool
		}{
			{"Origin", "http://worker.example:38923", true}, {"Origin", "http://worker.example:3000", false},
			{"Origin", "https://evil.example", false}, {"Origin", "null", false},
			{"Sec-Fetch-Site", "same-origin", true}, {"Sec-Fetch-Site", "same-site", false}, {"Sec-Fetch-Site", "cross-site", false},
			{"Origin", "", false},
		} {
			want := request.refusal
			if origin.ours {
				want = http.StatusOK
			}
			if got := do(t, request.method, h.urlOf(launch, request.path), "Cookie", cookie, origin.header, origin.value); got.status != want {
				t.Errorf("%s %s with %s %q: got %d %s, want %d", request.method, request.path, origin.header, origin.value, got.status, got.body, want)
			}
		}
	}
	for _, path := range []string{"/asset", "/view", "/page"} { // these change nothing
		if got := do(t, "GET", h.urlOf(launch, path), "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); got.status != 200 {
			t.Errorf("GET %s: got %d, want 200", path, got.status)
		}
	}
}

// TestConsoleCookie_UnknownBrowserLooksLikeWrongCookie is specification 5.5.4.
func TestConsoleCookie_UnknownBrowserLooksLikeWrongCookie(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	want := raw(do(t, "GET", h.urlOf(launch, "/asset"), "Cookie", consoleCookie+"garbage"))
	for _, id := range []string{unknown, other, "console"} {
		if got := raw(do(t, "GET", h.urlOf(id, "/asset"), "Cookie", consoleCookie+mintConsole(t, h.tickets))); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
}

func TestConsole_CookieIsLimitedToPublicPath(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for public, want := range map[string]string{
		"http://worker.example:38923":     "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
		"https://edge.example/w/worker-1": "; Path=/w/worker-1/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict",
	} {
		console := access.Console{Address: addressOf(t, public), Tokens: h.tickets}
		header, expires, err := console.NewCookie()
		if err != nil || !strings.HasPrefix(header, consoleCookie+"eyJ") || !strings.HasSuffix(header, want) {
			t.Errorf("%s: got %q, want %q: %v", public, header, want, err)
		}
		if left := expires.Sub(h.clock.Now()); left <= 12*time.Hour-time.Second || left > 12*time.Hour {
			t.Errorf("%s: expires in %s", public, left)
		}
		if got := console.NoCookie(); got != consoleCookie+strings.Replace(want, "Max-Age=43200", "Max-Age=0", 1) {
			t.Errorf("%s: got %q", public, got)
		}
	}
}
