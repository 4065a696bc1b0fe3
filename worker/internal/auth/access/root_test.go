package access_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// upgrade are the headers of a WebSocket handshake.
var upgrade = []string{
	"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
}

func basic(userinfo string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(userinfo))}
}

func TestRoot_TokenNamesLaunch(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token := h.token(t, launch, ticket.Control)
	for name, tc := range map[string]struct {
		query   string
		headers []string
	}{
		"bearer":                {"", []string{"Authorization", "bearer " + token}},
		"user and password":     {"", basic("user:" + token)},
		"user only":             {"", basic(token + ":")},
		"X-Svc-Token":           {"", []string{"X-Svc-Token", token}},
		"query":                 {"?ct=" + token, nil},
		"query with more":       {"?theme=dark&ct=" + token, nil},
		"the second is valid":   {"?ct=" + token, []string{"X-Svc-Token", "x", "Authorization", "Bearer y"}},
		"own origin, basic":     {"", append(basic("u:"+token), "Origin", "http://worker.example:38923")},
		"other origin, bearer":  {"", []string{"Authorization", "Bearer " + token, "Origin", "https://evil.example"}},
		"foreign cookies":       {"?ct=" + token, []string{"Cookie", ticket.CookieName(launch, ticket.Control) + "=x"}},
		"worker key beside":     {"?ct=" + token, []string{"X-API-Key", "wrong"}},
		"typed into an address": {"", append(basic("u:"+token), "Sec-Fetch-Site", "none")},
	} {
		for _, path := range []string{"/json/version", "/json/list/", "/devtools/browser/G", "/devtools/page/P", "/json/close/P"} {
			got := do(t, "GET", "http://"+h.address+path+tc.query, tc.headers...)
			if want := "GET " + launch + " control " + token; got.status != 200 || got.body != want {
				t.Errorf("%s, %s: %d %s", name, path, got.status, got.body)
			}
		}
	}
	if got := do(t, "get", "http://"+h.address+"/json/version?ct="+token); got.status != 200 {
		t.Errorf("a method in lower case: %d %s", got.status, got.body)
	}
	for path, status := range map[string]int{"/json/version": 405, "/json/nothing": 404} {
		if got := do(t, "POST", "http://"+h.address+path+"?ct="+token); got.status != status {
			t.Errorf("POST %s: %d %s", path, got.status, got.body)
		}
	}
	if got := do(t, "GET", "http://"+h.address+"/json/version?ct="+h.token(t, other, ticket.Control)); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("of a browser that ended: %d %s", got.status, got.body)
	}
}

func TestRoot_RefusesEverythingElse(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
	console, _, err := h.tickets.MintConsole()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		query   string
		headers []string
	}{
		"nothing":                    {},
		"control cookie":             {"", []string{"Cookie", ticket.CookieName(launch, ticket.Control) + "=" + token}},
		"console cookie":             {"", []string{"Cookie", ticket.ConsoleCookie + "=" + console}},
		"console token":              {"", []string{"Authorization", "Bearer " + console}},
		"worker key":                 {"", []string{"X-API-Key", workerKey}},
		"worker key as bearer":       {"", []string{"Authorization", "Bearer " + workerKey}},
		"view ticket":                {"?ct=" + view, []string{"X-Svc-Token", view}},
		"view ticket as t":           {"?t=" + view, nil},
		"a token of an earlier boot": {"?ct=" + mint(t, ticket.New(h.clock), launch, ticket.Control), nil},
		"basic of another origin":    {"", append(basic("u:"+token), "Origin", "https://evil.example")},
		"basic of another site":      {"", append(basic("u:"+token), "Sec-Fetch-Site", "cross-site")},
		"basic of the same site":     {"", append(basic("u:"+token), "Sec-Fetch-Site", "same-site")},
		"an encoded slash":           {"?ct=" + token + "%2Fjson", nil},
	} {
		for _, path := range []string{"/json", "/json/version", "/json/close/P", "/devtools/browser/G", "/devtools/page/P", "/"} {
			headers := tc.headers
			if path == "/" {
				headers = append(append([]string{}, headers...), upgrade...)
			}
			got := do(t, "GET", "http://"+h.address+path+tc.query, headers...)
			if got.status != 401 || !strings.Contains(got.body, `"AUTHENTICATION_ERROR"`) || !strings.Contains(got.body, "Authorization: Bearer TOKEN") ||
				!strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s, %s: %d %s", name, path, got.status, got.body)
			}
		}
	}
	h.clock.Advance(12 * time.Hour)
	if got := do(t, "GET", "http://"+h.address+"/json/version?ct="+token); got.status != 401 || !strings.Contains(got.body, "has expired") {
		t.Errorf("an expired token: %d %s", got.status, got.body)
	}
	if log := h.log.String(); strings.Contains(log, token) || strings.Contains(log, view) {
		t.Error("the log contains a token")
	}
}

// TestRoot_AppendedPath: clients append paths to URLs with a query.
func TestRoot_AppendedPath(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token := h.token(t, launch, ticket.Control)
	for _, base := range []string{"/", "/browsers/" + launch, "/browsers/" + launch + "/"} {
		for _, query := range []string{"?ct=" + token, "?a=b&ct=" + token, "?ct=" + token + "&a=b"} {
			for _, appended := range []string{"/json/version", "/json/list/", "/devtools/browser/G", "/devtools/page/P", "/json/close/P"} {
				got := do(t, "GET", "http://"+h.address+base+query+appended)
				if got.status != 200 || got.body != "GET "+launch+" control "+token {
					t.Errorf("%s %s: %d %s", base, appended, got.status, got.body)
				}
			}
		}
		got := do(t, "PUT", "http://"+h.address+base+"?ct="+token+"/json/new?https://site.example/?ct=1&b=/json/version")
		if want := "https://site.example/?ct=1&b=/json/version"; got.status != 200 || strings.TrimSuffix(got.body, "&ct="+token) != want {
			t.Errorf("%s: %d %s", base, got.status, got.body)
		}
	}
	got := do(t, "PUT", "http://"+h.address+"/json/new?https://site.example/?q=/json/version&ct="+token)
	if got.status != 200 || got.body != "https://site.example/?q=/json/version" {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, path := range []string{"/?ct=" + token + "/elsewhere", "/?ct=" + token, "/"} {
		if got := do(t, "GET", "http://"+h.address+path); got.body != "the console" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestRoot_UpgradeOfPageConnects: a WebSocket never gets a redirect or a page.
func TestRoot_UpgradeOfPageConnects(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	token := h.token(t, launch, ticket.Control)
	cookie := []string{"Cookie", ticket.CookieName(launch, ticket.Control) + "=" + token}
	page := "/browsers/" + launch
	for path, tc := range map[string]struct {
		headers []string
		status  int
	}{
		"/?ct=" + token:                  {nil, 200},
		"/":                              {basic("u:" + token), 200},
		"/?ct=" + token + "/":            {nil, 200},
		page + "?ct=" + token:            {nil, 200},
		page + "/?ct=" + token:           {nil, 200},
		page + "/":                       {[]string{"X-Svc-Token", token}, 200},
		page:                             {cookie, 404},
		page + "/?a=1":                   {append(cookie, "Origin", "https://evil.example"), 404},
		page + "/?a=2":                   {append(cookie, "Origin", "http://worker.example:38923"), 200},
		page + "/?a=3":                   {nil, 404},
		"/browsers/" + unknown:           {nil, 404},
		page + "/page?ct=" + token:       {nil, 400},
		page + "/view?ct=" + token:       {nil, 400},
		page + "/view?ct=" + token + "x": {nil, 404},
	} {
		got := do(t, http.MethodGet, "http://"+h.address+path, append(append([]string{}, tc.headers...), upgrade...)...)
		if got.status != tc.status || got.header.Get("Location")+got.header.Get("Set-Cookie") != "" {
			t.Errorf("%.50s: %d %s, want %d", path, got.status, got.body, tc.status)
		}
	}
	if got := do(t, "GET", h.urlOf(launch, "/page?ct="+token)); got.status != 303 {
		t.Errorf("an upgrade spent the token: %d", got.status)
	}
}

// FuzzRoot checks that, with any URL, no request without a valid token reaches a launch,
// and the token of one launch reaches no other.
func FuzzRoot(f *testing.F) {
	for _, uri := range []string{
		"/json/version?ct={ct}", "/?ct={ct}/json/version", "/browsers/" + launch + "?ct={ct}/json/new?ct=x", "//json/version?ct={ct}",
		"/browsers/" + other + "/?ct={ct}/devtools/browser/G", "/json/../browsers/" + other + "/asset?ct={ct}", "/json/%2e%2e/asset?ct={ct}", "/json/%2Fasset",
	} {
		f.Add(uri, true)
		f.Add(uri, false)
	}
	var saw authorizeResult
	now := clock.NewFake(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	tickets := ticket.New(now)
	tickets.Begin(launch)
	good, bad := mint(f, tickets, launch, ticket.Control), mint(f, ticket.New(now), launch, ticket.Control)
	server, _ := newFuzzAuthorizer(f, tickets, &saw)
	f.Fuzz(func(t *testing.T, uri string, valid bool) {
		token := bad
		if valid {
			token = good
		}
		target, err := url.ParseRequestURI(strings.ReplaceAll(uri, "{ct}", token))
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL, r.RequestURI = target, target.RequestURI()
		w := httptest.NewRecorder()
		saw = authorizeResult{}
		server.ServeHTTP(w, r)
		if saw.allowed && (!valid || !strings.Contains(uri, "{ct}")) {
			t.Fatalf("authorized, status %d", w.Code)
		}
	})
}
