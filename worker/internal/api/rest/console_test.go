package rest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// signIn creates a console session with the worker key and returns its token.
func (r *testServer) signIn(t *testing.T) string {
	t.Helper()
	answer, err := r.client.Do(request(t.Context(), t, "POST", r.url+"/console/session", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	cookie, err := http.ParseSetCookie(answer.Header.Get("Set-Cookie"))
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%d %v: %v", answer.StatusCode, answer.Header, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || strings.Contains(string(body), cookie.Value) || strings.Contains(cookie.Value, key) {
		t.Errorf("the body contains the token, or the cookie contains the key: %v", err)
	}
	if cookie.Name != "svc_console" || cookie.Path != "/w/worker-1/" || cookie.MaxAge != 43200 || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("got cookie %q", answer.Header.Get("Set-Cookie"))
	}
	return cookie.Value
}

// ask sends a request with headers and returns the status and the body.
func (r *testServer) ask(ctx context.Context, t *testing.T, method, path string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	answer, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestConsoleSession_CookieReplacesWorkerKey(t *testing.T) {
	r := newTestServer(t, "https://edge.example/w/worker-1")
	ctx := contracttest.AllowInvalidRequest(t.Context())
	session := r.add(started)
	token := r.signIn(t)
	good := "svc_console=" + token
	control, _, err := r.tokens.Mint(session.LaunchID.String(), ticket.Control)
	if err != nil {
		t.Fatal(err)
	}
	view, _, err := r.tokens.Mint(session.LaunchID.String(), ticket.View)
	if err != nil {
		t.Fatal(err)
	}
	earlier, _, err := ticket.New(r.clock).MintConsole()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, cookie, header, value string
		want                        int
	}{
		{"the cookie", good, "", "", 200},
		{"a stale cookie and the cookie", "svc_console=" + earlier + "; " + good, "", "", 200},
		{"a bad cookie and the worker key", "svc_console=garbage", "X-API-Key", key, 200},
		{"the cookie and a wrong worker key", good, "X-API-Key", "wrong", 401},
		{"no cookie", "", "", "", 401},
		{"an empty cookie", "svc_console=", "", "", 401},
		{"another signature", good + "A", "", "", 401},
		{"the previous boot's cookie", "svc_console=" + earlier, "", "", 401},
		{"a control token in the cookie", "svc_console=" + control, "", "", 401},
		{"a view ticket in the cookie", "svc_console=" + view, "", "", 401},
		{"the worker key in the cookie", "svc_console=" + key, "", "", 401},
		{"the token as worker key", "", "X-API-Key", token, 401},
		{"the token as control token", "", "X-Svc-Token", token, 401},
		{"the token as bearer", "", "Authorization", "Bearer " + token, 401},
	} {
		for _, path := range []string{
			"/sessions", "/sessions/" + session.ID.String(), "/profiles", "/profiles/versions", "/profiles/android-models?browserVersion=156", "/fleet/status", "/fleet/live",
		} {
			if status, body := r.ask(ctx, t, "GET", path, "Cookie", test.cookie, test.header, test.value); status != test.want || status == 401 && !strings.Contains(body, "AUTHENTICATION_ERROR") {
				t.Errorf("GET %s with %s: got %d %s, want %d", path, test.name, status, body, test.want)
			}
		}
	}
	if status, body := r.ask(ctx, t, "POST", "/console/session", "Cookie", good); status != 401 {
		t.Errorf("the cookie created a console session: got %d %s", status, body)
	}
	r.clock.Advance(12*time.Hour - time.Second)
	if status, _ := r.ask(ctx, t, "GET", "/sessions", "Cookie", good); status != 200 {
		t.Errorf("before it expires: got %d", status)
	}
	r.clock.Advance(time.Second)
	if status, body := r.ask(ctx, t, "GET", "/sessions", "Cookie", good); status != 401 || !strings.Contains(body, "has expired") {
		t.Errorf("an expired cookie: got %d %s", status, body)
	}
}

func TestConsoleSession_ChangesRequireOwnOrigin(t *testing.T) {
	r := newTestServer(t, "https://edge.example/w/worker-1")
	ctx := contracttest.AllowInvalidRequest(t.Context())
	cookie := "svc_console=" + r.signIn(t)
	for _, origin := range []struct {
		header, value string
		want          int
	}{
		{"Origin", "https://edge.example", 200}, {"Sec-Fetch-Site", "same-origin", 200}, {"Origin", "", 401},
		{"Origin", "https://evil.example", 401}, {"Origin", "http://edge.example", 401}, {"Origin", "https://edge.example:8443", 401}, {"Origin", "null", 401},
		{"Sec-Fetch-Site", "cross-site", 401}, {"Sec-Fetch-Site", "same-site", 401},
	} {
		for _, method := range []string{"POST", "DELETE"} {
			r.draining = method == "DELETE"
			status, body := r.ask(ctx, t, method, "/fleet/drain", "Cookie", cookie, origin.header, origin.value)
			if status != origin.want || status == 401 && !strings.Contains(body, "PUBLIC_URL") {
				t.Errorf("%s with %s %q: got %d %s, want %d", method, origin.header, origin.value, status, body, origin.want)
			}
			if changed := r.draining == (method == "POST"); changed != (status == 200) {
				t.Errorf("%s with %s %q: draining is %v", method, origin.header, origin.value, r.draining)
			}
			if status, _ := r.ask(ctx, t, method, "/fleet/drain", "Cookie", cookie, "X-API-Key", key, origin.header, origin.value); status != 200 {
				t.Errorf("%s with the worker key and %s %q: got %d", method, origin.header, origin.value, status)
			}
		}
		if status, _ := r.ask(ctx, t, "GET", "/sessions", "Cookie", cookie, origin.header, origin.value); status != 200 {
			t.Errorf("GET with %s %q: got %d, want 200", origin.header, origin.value, status)
		}
	}
}

func TestConsoleSession_DeleteNeedsNoCredential(t *testing.T) {
	r := newTestServer(t, "https://edge.example/w/worker-1")
	for _, cookie := range []string{"", "svc_console=garbage", "svc_console=" + r.signIn(t)} {
		req, err := http.NewRequestWithContext(t.Context(), "DELETE", r.url+"/console/session", nil)
		if err != nil {
			t.Fatal(err)
		}
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		answer, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Set-Cookie"); answer.StatusCode != 200 || got != "svc_console=; Path=/w/worker-1/; Max-Age=0; HttpOnly; Secure; SameSite=Strict" {
			t.Errorf("got %d %q", answer.StatusCode, got)
		}
	}
}
