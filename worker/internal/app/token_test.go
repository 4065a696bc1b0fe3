package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestLaunchToken_OpensOnePage is specification 4.4, 5.1 and 5.5, on the assembled
// worker with a browser.
func TestLaunchToken_OpensOnePage(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers)
	launched := r.launch(t)
	ask := func(method, address string, headers ...string) (status int, text string) {
		t.Helper()
		got, body := r.call(contracttest.AllowInvalidRequest(t.Context()), t, method, address[strings.Index(address, "/browsers/"):], "", headers...)
		return got, string(body)
	}
	read := func() workerapi.BrowserSession {
		t.Helper()
		return r.session(t, "GET", "/sessions/"+launched.Id.String(), "")
	}
	if now := read(); *now.ViewUrl != *launched.ViewUrl || *now.WebSocketDebuggerUrl != *launched.WebSocketDebuggerUrl || *now.DevtoolsFrontendUrl != *launched.DevtoolsFrontendUrl {
		t.Error("reading the session returned other URLs than the launch")
	}
	for range 2 { // HEAD spends no token
		r.head(t, *launched.ViewUrl, http.StatusSeeOther)
	}
	if status, text := ask("GET", *launched.ViewUrl); status != http.StatusSeeOther {
		t.Fatalf("the first use: %d %s", status, text)
	}
	if status, text := ask("GET", *launched.DevtoolsFrontendUrl); status != http.StatusSeeOther {
		t.Errorf("the first use of another page: %d %s", status, text)
	}
	for _, address := range []string{*launched.ViewUrl, *launched.DevtoolsFrontendUrl} {
		if status, text := ask("GET", address); status != http.StatusNotFound || text != "unknown browser" {
			t.Errorf("a second use: %d %s", status, text)
		}
		cookie := ticket.CookieName(launched.LaunchId.String(), ticket.Control) + "=" + token(*launched.ViewUrl)
		if status, text := ask("GET", address, "Cookie", cookie); status != http.StatusSeeOther {
			t.Errorf("with the cookie: %d %s", status, text)
		}
	}
	for range 2 { // clients connect again with the same URL
		if status, text := ask("GET", *launched.WebSocketDebuggerUrl, handshake...); status != http.StatusSwitchingProtocols {
			t.Errorf("the socket: %d %s", status, text)
		}
	}
	now := read()
	if *now.WebSocketDebuggerUrl != *launched.WebSocketDebuggerUrl || *now.ViewUrl == *launched.ViewUrl || *read().ViewUrl != *now.ViewUrl {
		t.Errorf("after the first use the session has URLs %s and %s", *now.WebSocketDebuggerUrl, *now.ViewUrl)
	}
	if status, text := ask("GET", *now.ViewUrl); status != http.StatusSeeOther {
		t.Errorf("with a fresh token: %d %s", status, text)
	}
	fresh := *read().ViewUrl
	r.session(t, "DELETE", "/sessions/"+launched.Id.String(), "")
	if status, text := ask("GET", fresh); status != http.StatusNotFound || text != "unknown browser" {
		t.Errorf("after the end: %d %s", status, text)
	}
}

func (r *testWorker) head(t *testing.T, address string, want int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, r.url+address[strings.Index(address, "/browsers/"):], nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != want || answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD: %d %v", answer.StatusCode, answer.Header)
	}
}
