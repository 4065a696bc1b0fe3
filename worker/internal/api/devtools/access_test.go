package devtools_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestViewTicket_ReturnsViewAndControlTokens is specification 4.4.
func TestViewTicket_ReturnsViewAndControlTokens(t *testing.T) {
	for _, public := range []string{"http://worker.example:38923", "https://edge.example/w/worker-1"} {
		w, _ := newFakeTestServer(t, public)
		base := public + "/browsers/" + launch
		for body, life := range map[string]time.Duration{
			"": 15 * time.Minute, "{}": 15 * time.Minute, `{"ttlSeconds":30}`: 30 * time.Second, `{"ttlSeconds":900}`: 15 * time.Minute,
		} {
			got, decoded := post[workerapi.ViewTicketResponse](t, w, "/view-ticket", body)
			pair := decoded.Data
			if got.status != 200 || pair.LaunchId.String() != launch ||
				pair.ViewUrl != base+"/view?t="+pair.ViewTicket || pair.ControlUrl != base+"/?ct="+pair.ControlToken {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
			now := w.clock.Now().Truncate(time.Second)
			if !pair.ViewExpiresAt.Equal(now.Add(life)) || !pair.ControlExpiresAt.Equal(now.Add(12*time.Hour)) {
				t.Errorf("%s: expires at %s and %s", body, pair.ViewExpiresAt, pair.ControlExpiresAt)
			}
			_, errView := w.tickets.Verify(pair.ViewTicket, launch, ticket.View)
			_, errControl := w.tickets.Verify(pair.ControlToken, launch, ticket.Control)
			if err := errors.Join(errView, errControl); err != nil {
				t.Error(err)
			}
			if _, err := w.tickets.Verify(pair.ViewTicket, launch, ticket.Control); err == nil {
				t.Error("a view ticket was accepted for control")
			}
			if strings.Contains(w.log.String(), pair.ViewTicket) || strings.Contains(w.log.String(), pair.ControlToken) {
				t.Error("the log contains a token")
			}
		}
		for _, body := range []string{`{"ttlSeconds":29}`, `{"ttlSeconds":901}`, `{"ttlSeconds":"x"}`, `{"other":1}`, `[]`, `{`} {
			w.assertRefused(t, "/view-ticket", body, 400, "VALIDATION_ERROR")
		}
	}
}

// TestViewTicket_DoesNotOutliveCallerToken checks that a control token cannot extend
// itself: only the worker key creates a token that expires later.
func TestViewTicket_DoesNotOutliveCallerToken(t *testing.T) {
	w, _ := newFakeTestServer(t, "https://edge.example/w/worker-1")
	first, end, err := w.tickets.LaunchToken(launch)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(headers ...string) workerapi.ViewTicket {
		t.Helper()
		headers = append(headers, "Sec-Fetch-Site", "same-origin")
		return decodeAnswer[workerapi.ViewTicketResponse](t, do(t, "POST", w.path("/view-ticket"), headers...)).Data
	}
	cookie := func(token string) []string {
		return []string{"Cookie", ticket.CookieName(launch, ticket.Control) + "=" + token}
	}
	w.clock.Advance(11*time.Hour + 50*time.Minute)
	second := ask("X-Svc-Token", first)
	if !second.ControlExpiresAt.Equal(end) || !second.ViewExpiresAt.Equal(end) {
		t.Errorf("expires at %s and %s, want %s", second.ControlExpiresAt, second.ViewExpiresAt, end)
	}
	w.clock.Advance(9 * time.Minute)
	if third := ask(cookie(second.ControlToken)...); !third.ControlExpiresAt.Equal(end) || !third.ViewExpiresAt.Equal(end) {
		t.Errorf("expires at %s and %s, want %s", third.ControlExpiresAt, third.ViewExpiresAt, end)
	}
	now := w.clock.Now().Truncate(time.Second)
	long := ask("X-API-Key", workerKey)
	if !long.ControlExpiresAt.Equal(now.Add(12*time.Hour)) || !long.ViewExpiresAt.Equal(now.Add(15*time.Minute)) {
		t.Errorf("with the worker key: expires at %s and %s", long.ControlExpiresAt, long.ViewExpiresAt)
	}
	token, consoleEnds, err := w.tickets.MintConsole()
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	if now := ask("Cookie", "svc_console="+token); !now.ControlExpiresAt.Equal(consoleEnds) {
		t.Errorf("with the console cookie: expires at %s, want %s", now.ControlExpiresAt, consoleEnds)
	}
	if got := do(t, "POST", w.path("/view-ticket"), cookie(second.ControlToken)...); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("with an expired token: got %d %s", got.status, got.body)
	}
	if next := ask("X-Svc-Token", long.ControlToken); !next.ControlExpiresAt.Equal(long.ControlExpiresAt) {
		t.Errorf("expires at %s, want %s", next.ControlExpiresAt, long.ControlExpiresAt)
	}
}

// TestClose_CookieNeedsOwnOrigin: GET /json/close and /json/activate have side
// effects, as in Chromium's own API.
func TestClose_CookieNeedsOwnOrigin(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	cookie := ticket.CookieName(launch, ticket.Control) + "=" + w.token(t, ticket.Control)
	for _, path := range []string{"/json/close/P1", "/json/close/P1/", "/json/activate/P1", "/json/activate/P1/"} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://127.0.0.1:1"}, {}} {
			if got := do(t, "GET", w.path(path), append(header, "Cookie", cookie)...); got.status != 404 || got.body != "unknown browser" {
				t.Errorf("%s from %v: %d %s", path, header, got.status, got.body)
			}
		}
	}
	if request := f.request(); request != nil {
		t.Errorf("Chromium got a request for %s", request.URL)
	}
	real, _, _ := newRealTestServer(t)
	cookie = ticket.CookieName(launch, ticket.Control) + "=" + real.token(t, ticket.Control)
	opened := decodeAnswer[map[string]string](t, send(t, "PUT", real.path("/json/new?about:blank"), "", real.controlHeader(t)...))
	for _, path := range []string{"/json/activate/", "/json/close/"} {
		if got := do(t, "GET", real.path(path+opened["id"]), "Sec-Fetch-Site", "same-origin", "Cookie", cookie); got.status != 200 {
			t.Errorf("%s from a page of the worker: got %d %s", path, got.status, got.body)
		}
	}
}

// TestFrontEnd_TokenOpensOneMorePage: a client can open the listed URLs even after
// its own token has opened a page.
func TestFrontEnd_TokenOpensOneMorePage(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	token := w.token(t, ticket.Control)
	listed := func() (socket, page string) {
		t.Helper()
		target := decodeAnswer[[]map[string]string](t, do(t, "GET", w.path("/json"), "X-Svc-Token", token))[0]
		return target["webSocketDebuggerUrl"], target["devtoolsFrontendUrl"]
	}
	socket, page := listed()
	if got := do(t, "GET", page); got.status != 303 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := do(t, "GET", page); got.status != 404 {
		t.Errorf("second use: got %d", got.status)
	}
	socketAfter, pageAfter := listed()
	if socketAfter != socket || pageAfter == page {
		t.Errorf("listed %s and %s", socketAfter, pageAfter)
	}
	if got := do(t, "GET", pageAfter); got.status != 303 {
		t.Errorf("with a new token: got %d %s", got.status, got.body)
	}
}

// TestRoutes_RefuseViewTicket is specification 5.5.5.
func TestRoutes_RefuseViewTicket(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	view := w.token(t, ticket.View)
	cookies := ticket.CookieName(launch, ticket.View) + "=" + view + "; " + ticket.CookieName(launch, ticket.Control) + "=" + view
	for _, route := range w.Routes() {
		method := route.Method
		if method == "" {
			method = "GET"
		}
		path := strings.NewReplacer(":browserGuid", "a", ":targetId", "P1", "*", "x.js").Replace(route.Path)
		for _, query := range []string{"", "?t=" + view, "?ct=" + view} {
			headers := append([]string{"Cookie", cookies, "X-Svc-Token", view}, upgrade...)
			if got := do(t, method, w.path(path)+query, headers...); got.status != 404 || got.body != "unknown browser" {
				t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
			}
		}
	}
	if f.request() != nil {
		t.Error("Chromium got a request")
	}
}

func TestRelay_BoundsConnectionsPerLaunch(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	w.finder.add(f.browser(other, w.clock))
	resumable := w.open(t, "/devtools/page/resumable") // also counts while its client is disconnected
	resumable.cut()
	var conns []*ws.Conn
	for range sandbox.MaxConnections - 1 {
		conns = append(conns, w.dial(t, "/devtools/page/a"))
	}
	headers := append([]string{"X-API-Key", workerKey}, upgrade...)
	for range 3 {
		for _, query := range []string{"", "?resume=0"} {
			if got := do(t, "GET", w.path("/devtools/page/a"+query), headers...); got.status != 503 || !strings.Contains(got.body, "limit of 64 connections") {
				t.Fatalf("connection above the limit: got %d %s", got.status, got.body)
			}
		}
	}
	resumable.noError(resumable.connect())
	if got := do(t, "GET", w.path("/screenshot"), headers...); got.status != 503 {
		t.Errorf("a screenshot above the limit: got %d %s", got.status, got.body)
	}
	if got := do(t, "GET", strings.Replace(w.path("/devtools/page/a"), launch, other, 1), headers...); got.status != 101 {
		t.Errorf("another launch: got %d %s", got.status, got.body)
	}
	conns[0].CloseNow()
	testenv.Eventually(t, "a free connection", func() bool { return do(t, "GET", w.path("/devtools/page/a"), headers...).status == 101 })
}

func TestActivity_CountsClientActions(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	browser, _ := w.finder.Find(launch)
	meter := browser.Activity
	silent := func(what string) {
		t.Helper()
		w.clock.Advance(time.Minute)
		if got := w.clock.Now().Sub(meter.Last()); got < time.Minute {
			t.Errorf("%s was counted as activity", what)
		}
	}
	noted := func(what string) {
		t.Helper()
		testenv.Eventually(t, what+" is activity", func() bool { return meter.Last().Equal(w.clock.Now()) })
	}
	silent("nothing")
	conn := w.dial(t, "/devtools/page/a")
	noted("a connection")
	if meter.Clients() != 1 {
		t.Errorf("%d clients", meter.Clients())
	}
	silent("an open connection")
	echoed(t, conn, []byte("hello"))
	noted("a message")
	w.clock.Advance(time.Minute)
	conn.CloseNow()
	testenv.Eventually(t, "the client is gone", func() bool { return meter.Clients() == 0 })
	noted("leaving")
	w.clock.Advance(time.Minute)
	do(t, "GET", w.path("/devtools/inspector.html"), "X-API-Key", workerKey)
	do(t, "GET", w.path("/json/list"), "X-API-Key", workerKey)
	do(t, "GET", w.path("/screenshot?width=320&targetId=gone"), "X-API-Key", workerKey)
	silent("reading lists and pages, and a preview")
	ln, err := net.Listen("tcp", "127.0.0.1:0") // a browser that never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	browser.DebugPort = ln.Addr().(*net.TCPAddr).Port
	w.finder.add(browser)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.path("/screenshot"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", workerKey)
	go func() {
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
		}
	}()
	testenv.Eventually(t, "a running screenshot counts as a client", func() bool { return meter.Clients() == 1 })
	leave()
	testenv.Eventually(t, "the screenshot has ended", func() bool { return meter.Clients() == 0 })
	w.finder.add(f.browser(launch, w.clock))
	now, _ := w.finder.Find(launch)
	meter = now.Activity
	for _, call := range [][2]string{{"GET", "/screenshot"}, {"GET", "/pdf"}, {"POST", "/view-ticket"}, {"POST", "/close"}, {"GET", "/json/activate/P1"}} {
		w.clock.Advance(time.Minute)
		do(t, call[0], w.path(call[1]), "X-API-Key", workerKey)
		noted(call[1])
	}
}

func TestFrontEnd_PageURLCarriesToken(t *testing.T) {
	w, _ := newFakeTestServer(t, "https://edge.example/w/worker-1")
	token := w.token(t, ticket.Control)
	socket := url.Values{"wss": {"edge.example/w/worker-1/browsers/" + launch + "/devtools/page/P1"}}.Encode()
	got := do(t, "GET", w.path("/devtools/inspector.html?ct="+token+"&"+socket))
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "./inspector.html?"+socket ||
		!strings.Contains(got.header.Get("Set-Cookie"), "Path=/w/worker-1/browsers/"+launch+"/; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("%d %v", got.status, got.header)
	}
}
