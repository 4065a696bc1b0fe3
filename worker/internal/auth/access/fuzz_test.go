package access_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// authorizeResult is how a fuzzed request was authorized.
type authorizeResult struct {
	allowed bool
	use     ticket.Use
}

// newFuzzAuthorizer returns the routes of an Authorizer, without a network.
func newFuzzAuthorizer(f *testing.F, tickets *ticket.Tickets, saw *authorizeResult) (serve *echo.Echo, paths []string) {
	base, err := url.Parse("https://edge.example/w/worker-1")
	if err != nil {
		f.Fatal(err)
	}
	g := access.New(access.Options{
		Browsers: fakeBrowsers{launch: {LaunchID: launch, Done: make(chan struct{})}}, Tickets: tickets,
		WorkerKey: func(key string) bool { return key == workerKey }, Address: access.NewAddress(base),
	})
	var routes []access.Route
	for path, kind := range kinds {
		paths = append(paths, path)
		routes = append(routes, access.Route{Path: path, Kind: kind, Handle: func(c echo.Context, v access.AuthorizedRequest) error {
			*saw = authorizeResult{true, v.Use}
			return c.NoContent(http.StatusOK)
		}})
	}
	routes = append(routes, access.Route{Path: "/json/*", Handle: routes[0].Handle})
	slices.Sort(paths)
	serve = httpd.New(httpd.Options{})
	g.RegisterRoot(serve)
	g.Register(serve, routes...)
	return serve, paths
}

// FuzzAdmission sends credentials in every place and spelling. {ct} and {t} stand for
// valid tokens of the launch, {key} for the worker key. It checks that a request
// without a valid credential is refused, that a view ticket opens only views, that
// pages of another origin cannot use cookies where that matters, and that no answer
// repeats a token or redirects elsewhere.
func FuzzAdmission(f *testing.F) {
	const control, view = "svc_ctl_" + launchInCookies + "=", "svc_view_" + launchInCookies + "="
	for which := range uint8(len(kinds)) {
		f.Add(which, launch, "ct={ct}&theme=dark", "", "", "", "")
		f.Add(which, launch, "t={t}", "", "", "", "")
		f.Add(which, launch, "", control+"{ct}", "", "", "https://edge.example")
		f.Add(which, launch, "", control+"{ct}; "+view+"{t}", "", "", "https://evil.example")
		f.Add(which, launch, "", control+"x; "+control+`"{ct}"`, "", "", "")
		f.Add(which, launch, "", "", "{ct}", "", "")
		f.Add(which, launch, "", view+"{ct}", "{t}", "{key}", "null")
		f.Add(which, other, "ct={ct}&t={t}", "", "{ct}", "{key}", "")
		f.Add(which, launch, "ct=x&ct={ct}&%63t={ct}&t;={t}", "", " {ct}", "", "")
	}
	var saw authorizeResult
	tickets := ticket.New(clock.NewFake(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
	handler, paths := newFuzzAuthorizer(f, tickets, &saw)
	f.Fuzz(func(t *testing.T, which uint8, id, query, cookies, token, key, origin string) {
		tickets.Begin(launch) // no token is spent
		ct, vt := mint(t, tickets, launch, ticket.Control), mint(t, tickets, launch, ticket.View)
		fill := strings.NewReplacer("{ct}", ct, "{t}", vt, "{key}", workerKey).Replace
		where := paths[int(which)%len(paths)]
		kind := kinds[where]
		query, cookies, token, key = fill(query), fill(cookies), fill(token), fill(key)
		target, err := url.ParseRequestURI("/browsers/" + id + where + "?" + query)
		if err != nil || strings.ContainsAny(id, "/?#%") || strings.ContainsAny(cookies+token+key+origin, "\r\n\x00") {
			return // not a valid request
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL, r.RequestURI, r.Host = target, target.RequestURI(), "worker.internal"
		r.Header = http.Header{"Cookie": {cookies}, "X-Svc-Token": {token}, "X-Api-Key": {key}, "Origin": {origin}}
		w := httptest.NewRecorder()
		saw = authorizeResult{}
		handler.ServeHTTP(w, r)

		may := fuzzCredentials{kind: kind, query: target.Query(), cookies: cookies, origin: origin}
		held := token == ct || key == workerKey
		mayControl := held || may.have("svc_ctl_", "ct", ct)
		mayView := kind >= access.ViewPage && may.have("svc_view_", "t", vt)
		mustControl := held || may.query.Get("ct") == ct
		switch {
		case id != launch && (saw.allowed || w.Code < 400):
			t.Fatalf("got %d for an unknown browser", w.Code)
		case id == launch && (saw.allowed || w.Code < 400) && !mayControl && !mayView:
			t.Fatalf("%s: authorized with %q, %q, %q, %q from %q: got %d", where, query, cookies, token, key, origin, w.Code)
		case saw.allowed && saw.use == ticket.Control && !mayControl:
			t.Fatalf("%s: a view ticket got control", where)
		case id == launch && mustControl && w.Code >= 400:
			t.Fatalf("%s: refused with %q, %q: %d %s", where, query, token, w.Code, w.Body)
		case w.Code >= 400 && saw.allowed:
			t.Fatal("the handler ran for a refused request")
		}
		assertNoLeak(t, w, target, kind, ct, vt)
	})
}

// fuzzCredentials are the credentials of a request that count only in some places.
type fuzzCredentials struct {
	kind            access.Kind
	query           url.Values
	cookies, origin string
}

// have reports whether the token may be in the cookie or in the query.
func (c fuzzCredentials) have(cookie, query, token string) bool {
	socket := c.kind == access.Socket || c.kind == access.Stream
	trusted := !socket || strings.HasPrefix(strings.ToLower(c.origin), "https://edge.example")
	return trusted && strings.Contains(c.cookies, cookie+launchInCookies+"=") && strings.Contains(c.cookies, token) ||
		slices.Contains(c.query[query], token)
}

// launchInCookies is the launch id as the names of cookies contain it.
const launchInCookies = "019a5f3ea1b370019c4f6a6b7c8d9e06"

// assertNoLeak checks that an answer repeats no token and redirects only to the same path.
func assertNoLeak(t *testing.T, w *httptest.ResponseRecorder, source *url.URL, kind access.Kind, ct, vt string) {
	t.Helper()
	if body := w.Body.String(); strings.Contains(body, ct) || strings.Contains(body, vt) {
		t.Errorf("the answer repeats a token: %s", body)
	}
	location := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther {
		if location != "" || w.Header().Get("Refresh") != "" {
			t.Errorf("status %d has Location %q", w.Code, location)
		}
		return
	}
	there, err := url.Parse(location)
	if err != nil {
		t.Fatalf("invalid Location %q: %v", location, err)
	}
	target := (&url.URL{Scheme: "https", Host: "edge.example", Path: "/w/worker-1" + source.Path}).ResolveReference(there)
	if target.Host != "edge.example" || target.Path != "/w/worker-1"+source.Path || path.Dir(target.Path) != path.Dir("/w/worker-1"+source.Path) {
		t.Errorf("got Location %s", target)
	}
	if target.Query().Has("ct") || kind == access.ViewPage && (target.Query().Has("t") || strings.Contains(location, vt)) || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("got Location %s with Referrer-Policy %q", target, w.Header().Get("Referrer-Policy"))
	}
	for _, line := range w.Header().Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err != nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/w/worker-1/browsers/"+launch+"/" || cookie.Value != ct && cookie.Value != vt {
			t.Errorf("invalid Set-Cookie %q: %v", line, err)
		}
	}
}
