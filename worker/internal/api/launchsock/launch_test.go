package launchsock_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestLaunch_AcceptsKeyFromEachSource(t *testing.T) {
	w := newFixture(t)
	byID := url.Values{"profileId": {w.profile.String()}, "headless": {"true"}}
	encoded := base64.URLEncoding.EncodeToString([]byte(w.envOf("")))
	for name, tc := range map[string]struct {
		query  url.Values
		header http.Header
	}{
		"X-API-Key":                        {byID, key(callersKey)},
		"a launch that can wait":           {url.Values{"profileId": byID["profileId"], "waitSeconds": {"60"}}, key(callersKey)},
		"Bearer":                           {byID, http.Header{"Authorization": {"bearer " + callersKey}}},
		"token":                            {url.Values{"profile": {w.profile.String()}, "headless": {"true"}, "token": {callersKey}}, nil},
		"token and a header with it":       {url.Values{"profile": {w.profile.String()}, "token": {callersKey}}, key(callersKey)},
		"env as JSON":                      {url.Values{"env": {w.envOf("")}}, nil},
		"env as base64url":                 {url.Values{"env": {encoded}}, nil},
		"env without padding":              {url.Values{"env": {strings.TrimRight(encoded, "=")}}, nil},
		"a header has precedence over env": {url.Values{"env": {strings.Replace(w.envOf(""), callersKey, "svc_wrong", 1)}}, key(callersKey)},
		"its own origin":                   {byID, http.Header{"X-Api-Key": {callersKey}, "Origin": {"http://" + w.address}}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial(t, tc.query, tc.header)
			if got := call(t, conn, `{"id":1,"method":"Browser.getVersion"}`); got.ID != 1 || !strings.Contains(got.Result["product"].(string), w.build.Version) {
				t.Errorf("got %+v", got)
			}
			s := w.onlySession(t)
			calls := w.cloud.Calls(cloudtest.Authorize, cloudtest.Start)
			for _, c := range calls[len(calls)-2:] {
				if c.Key != callersKey || c.SessionID != s.ID {
					t.Errorf("%s of %s was charged to another key", c.Operation, c.SessionID)
				}
			}
			if err := conn.Close(ws.NormalClosure, ""); err != nil {
				t.Error(err)
			}
			w.awaitEnd(t, s.ID, session.Killed, session.ClientClose)
		})
	}
	assertNoSecrets(t, w)
	if files, _ := filepath.Glob(filepath.Join(w.dir, "reports", "*")); len(files) > 0 {
		t.Errorf("on disk: %v", files)
	}
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if text, _ := os.ReadFile(path); strings.Contains(string(text), callersKey) {
			t.Errorf("%s contains the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLaunch_RefusesBeforeUpgrade(t *testing.T) {
	w := newFixture(t)
	profile := "profileId=" + w.profile.String()
	env := func(text string) string { return url.Values{"env": {text}}.Encode() }
	for _, tc := range []struct {
		name, query string
		header      http.Header
		script      cloudtest.Answer
		status      int
		code        string
	}{
		{"no key", profile, nil, nil, 401, "AUTHENTICATION_ERROR"},
		{"no key in env", env(`{"profileId":"` + w.profile.String() + `"}`), nil, nil, 401, "AUTHENTICATION_ERROR"},
		{"a wrong key", profile, key("svc_wrong"), nil, 401, "AUTHENTICATION_ERROR"},
		{"a wrong key in env", env(strings.Replace(w.envOf(""), callersKey, "svc_wrong", 1)), nil, nil, 401, "AUTHENTICATION_ERROR"},
		{"the key as a query", profile + "&SVC_KEY=" + callersKey, key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"a foreign page", profile, http.Header{"X-Api-Key": {callersKey}, "Origin": {"http://evil.example"}}, nil, 403, "AUTHORIZATION_ERROR"},
		{"a page with an opaque origin", profile, http.Header{"X-Api-Key": {callersKey}, "Origin": {"null"}}, nil, 403, "AUTHORIZATION_ERROR"},
		{"no profile", "", key(callersKey), nil, 400, "VALIDATION_ERROR"}, // the parser of this test accepts no spec
		{"a token that is empty", profile + "&token=", nil, nil, 401, "AUTHENTICATION_ERROR"},
		{"a wrong token", profile + "&token=svc_wrong", nil, nil, 401, "AUTHENTICATION_ERROR"},
		{"an invalid headless", profile + "&headless=maybe", key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"a wait that is not a number", profile + "&waitSeconds=soon", key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"two profiles", profile + "&" + profile, key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"env and profile", env(w.envOf("")) + "&" + profile, key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"env that is not base64url", env("%%%"), key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"env that is truncated", env(`{"SVC_KEY":"` + callersKey + `","pro`), nil, nil, 400, "VALIDATION_ERROR"},
		{"env with two keys", env(`{"SVC_KEY":"a","SVC_KEY":"b"}`), nil, nil, 400, "VALIDATION_ERROR"},
		{"env with a key that is not a string", env(`{"SVC_KEY":7}`), nil, nil, 400, "VALIDATION_ERROR"},
		{"an invalid query", "env=%zz" + callersKey, key(callersKey), nil, 400, "VALIDATION_ERROR"},
		{"another profile", "profileId=" + uuid.NewString(), key(callersKey), nil, 404, "RESOURCE_NOT_FOUND"},
		{"no slot", profile, key(callersKey), cloudtest.JSON(402, `{"success":true,"data":{"allowed":false,"reason":"concurrency_limit","current":3,"limit":3}}`), 402, "AUTHORIZATION_ERROR"},
		{"no cloud", profile, key(callersKey), cloudtest.Reset, 503, "EXTERNAL_SERVICE_ERROR"},
		{"no version", "profileId=" + w.cloud.Profile(91).String(), key(callersKey), nil, 400, "RESOURCE_NOT_FOUND"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.script != nil {
				w.cloud.Script(cloudtest.Authorize, tc.script)
			}
			_, err := ws.Dial(t.Context(), "ws://"+w.address+"/launch?"+tc.query, tc.header, ws.Options{})
			refused, ok := errors.AsType[*ws.RefusedError](err)
			if !ok {
				t.Fatal(err)
			}
			var got struct {
				Success bool
				Error   struct {
					Code    string
					Details []fault.Detail
				}
			}
			if err := json.Unmarshal([]byte(refused.Body), &got); err != nil || got.Success || refused.Status != tc.status || got.Error.Code != tc.code {
				t.Errorf("answered %d %s, want %d %s", refused.Status, refused.Body, tc.status, tc.code)
			}
			if got.Error.Code == "VALIDATION_ERROR" && len(got.Error.Details) == 0 {
				t.Errorf("no details: %s", refused.Body)
			}
			malformed := strings.HasPrefix(tc.name, "env that") || strings.HasPrefix(tc.name, "env with") ||
				tc.name == "an invalid query"
			if malformed && (len(got.Error.Details) != 1 || got.Error.Details[0].Field != "env") {
				t.Errorf("details = %v, want one about env", got.Error.Details)
			}
			if strings.Contains(refused.Body, callersKey) {
				t.Errorf("the answer repeats the key: %s", refused.Body)
			}
		})
	}
	answer, err := http.Get("http://" + w.address + "/launch?" + env(w.envOf("")))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 400 {
		t.Errorf("without an upgrade: got %d", answer.StatusCode)
	}
	if live, _ := w.sessions.Live(); len(live) > 0 {
		t.Errorf("got %d running browsers", len(live))
	}
	w.cloud.Await(t, 0, 0)
	assertNoSecrets(t, w)
}

// TestLaunch_AnswersCarryOneToken is specification 5.5.1: only the URLs of pages get
// a new token after a page was opened.
func TestLaunch_AnswersCarryOneToken(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	launchID := w.onlySession(t).LaunchID.String()
	ask := func() (token string, urls map[string]any) {
		token = call(t, conn, `{"id":1,"method":"Svc.getSessionInfo"}`).Result["controlToken"].(string)
		return token, call(t, conn, `{"id":2,"method":"Svc.getBrowserURLs"}`).Result
	}
	token, urls := ask()
	again, urlsAgain := ask()
	if diff := cmp.Diff(urls, urlsAgain); diff != "" || again != token {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	claims, err := w.tickets.Verify(token, launchID, ticket.Control)
	if err != nil || !w.tickets.Spend(launchID, claims, ticket.LivePage) {
		t.Fatalf("the token has already opened a page, or error %v", err)
	}
	after, urls := ask()
	if after != token {
		t.Error("a spent token was replaced in URLs that open no page")
	}
	for name, address := range urls {
		if carries := strings.HasSuffix(address.(string), "?ct="+token); carries != (name != "viewUrl") {
			t.Errorf("%s contains the token that has opened the live view: %v", name, carries)
		}
	}
	conn.CloseNow()
	testenv.Eventually(t, "the launch's tokens are removed", func() bool { return w.tickets.IsSpent(launchID, ticket.Claims{}, ticket.LivePage) })
}

func TestLaunch_AnswersSvcMethods(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	s := w.onlySession(t)
	info := call(t, conn, `{"id":7,"sessionId":"FLAT","method":"Svc.getSessionInfo","params":{}}`)
	if info.ID != 7 || info.SessionID != "FLAT" {
		t.Errorf("got %+v", info)
	}
	for name, want := range map[string]any{
		"sessionId": s.ID.String(), "launchId": s.LaunchID.String(), "status": "running", "startedAt": s.StartedAt.Format(time.RFC3339Nano),
		"profileId": w.profile.String(), "profileName": "Checkout", "browserVersion": float64(w.build.Major), "headless": true, "bundle": nil,
	} {
		if info.Result[name] != want {
			t.Errorf("%s is %v, want %v", name, info.Result[name], want)
		}
	}
	if claims, err := w.tickets.Verify(info.Result["controlToken"].(string), s.LaunchID.String(), ticket.Control); err != nil || claims.Expires.After(s.StartedAt.Add(12*time.Hour)) {
		t.Errorf("controlToken: expires at %s, %v", claims.Expires, err)
	}
	if expiry, err := time.Parse(time.RFC3339, info.Result["expiresAt"].(string)); err != nil || time.Until(expiry) < 11*time.Hour || time.Until(expiry) > 12*time.Hour {
		t.Errorf("expiresAt is %v", info.Result["expiresAt"])
	}
	urls := call(t, conn, `{"id":8,"method":"Svc.getBrowserURLs"}`)
	base := w.address + "/browsers/" + s.LaunchID.String()
	for name, want := range map[string]string{
		"webSocketDebuggerUrl": "ws://" + base + s.DebugPath, "devtoolsFrontendUrl": "http://" + base + "/devtools",
		"viewUrl": "http://" + base + "/view", "pageUrl": "http://" + base + "/",
	} {
		bare, token, _ := strings.Cut(urls.Result[name].(string), "?ct=")
		if bare != want || token != info.Result["controlToken"] {
			t.Errorf("%s is %v, want %s?ct=... with the launch's token", name, urls.Result[name], want)
		}
	}
	for message, code := range map[string]int{
		`{"id":9,"method":"Svc.close"}`:                                            -32601,
		`{"id":"x","method":"Svc.getSessionInfo"}`:                                 -32600,
		`{"method":"Svc.getSessionInfo"}`:                                          -32600,
		`{"method":"Svc.getSessionInfo"`:                                           -32600,
		`{"id":1,"method":"Svc.x","params":"` + strings.Repeat("x", 20<<10) + `"}`: -32600,
		`{"id":1,"method":"Nobody.knows"}`:                                         -32601,
	} {
		if got := call(t, conn, message); got.Error == nil || got.Error.Code != code {
			t.Errorf("%.60s: %+v, want %d", message, got, code)
		}
	}
	assertNoSecrets(t, w)
}

// The worker gives up the report of the start and reports both start and end from its
// journal. The cloud handles the report that was given up last.
func TestLaunch_ClientDisconnectReleasesResources(t *testing.T) {
	w := newFixture(t)
	held, release := context.WithCancel(context.Background())
	defer release()
	w.cloud.Script(cloudtest.Start, func(http.ResponseWriter, *http.Request) { <-held.Done() })
	conn := w.raw(t)
	testenv.Eventually(t, "the report of the start", func() bool { return w.cloud.CallCount(cloudtest.Start) == 1 })
	s := w.onlySession(t)
	conn.Close()
	testenv.Eventually(t, "the report of the end", func() bool { return len(w.cloud.Calls(cloudtest.End)) == 1 })
	release()
	testenv.Eventually(t, "the late report of the start", func() bool { return len(w.cloud.Calls(cloudtest.Start)) == 2 })
	w.awaitEnd(t, s.ID, session.Killed, session.ClientClose)
}

func TestLaunch_RevokedKeyIsRefusedAndEndsNoSession(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	w.cloud.RevokeKey(callersKey, true)
	_, err := ws.Dial(t.Context(), w.url(url.Values{"env": {w.envOf("")}}), nil, ws.Options{})
	if refused, ok := errors.AsType[*ws.RefusedError](err); !ok || refused.Status != fault.Unauthenticated.Status() {
		t.Errorf("a launch with a revoked key: %v", err)
	}
	if got := call(t, conn, `{"id":1,"method":"Browser.getVersion"}`); got.Error != nil {
		t.Errorf("got %+v", got)
	}
}
