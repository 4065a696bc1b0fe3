package e2e

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// serveSignIn serves a site that greets who signs in with all of these.
func serveSignIn(t *testing.T, username, password, seed string, codes *[]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == http.MethodPost {
			*codes = append(*codes, r.PostFormValue("code"))
			valid := totp.Validate(r.PostFormValue("code"), seed)
			_, _ = fmt.Fprintf(w, "<title>Answer</title><h1>name %t, password %t, code %t</h1>", r.PostFormValue("user") == username, r.PostFormValue("password") == password, valid)
			return
		}
		_, _ = fmt.Fprint(w, `<title>Sign in</title><form method="post"><input name="user" aria-label="User"><input name="password" type="password" aria-label="Password">
<input name="code" aria-label="Code" autocomplete="one-time-code"><button>Sign in</button></form>`)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// TestSecrets_SignInLeavesNoTrace signs in by MCP and with playwright, with a password and a
// code. Neither is in a transcript, an answer, a log or a recording.
func TestSecrets_SignInLeavesNoTrace(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, "LAUNCH_FILES_MB=16", "FILES_RETENTION=1h")
	username, password, seed := "robot-"+rand.Text(), rand.Text(), rand.Text() // base32
	var codes []string
	site := serveSignIn(t, username, password, seed, &codes)
	created, err := env.dashboard.CreateSecretWithResponse(t.Context(), cloudapi.CreateSecretRequest{
		Name: "shop-login", Username: &username, Password: &password, TotpSeed: &seed, Origins: cloudapi.SecretOrigins{site},
	})
	requireAnswer(t, err, created, http.StatusCreated)
	request := env.newLaunchRequest(t, true)
	request.Browser.Record = &sharedapi.RecordedParts{"events", "har"}
	session := env.worker.launch(t, request)
	var result struct{ Tools, Playwright, All string }
	runScript(t, "signin", map[string]any{
		"mcp": env.worker.url + "/mcp", "key": env.key, "profileId": request.ProfileId, "cdp": *session.WebSocketDebuggerUrl, "url": site, "secret": "shop-login",
	}, &result)
	const want = "name true, password true, code true"
	if !strings.Contains(result.Tools, want) || result.Playwright != want {
		t.Errorf("the site has said %q and %q", result.Tools, result.Playwright)
	}
	traces := map[string]string{"a transcript": result.All}
	for _, path := range []string{"/logs", "/state", "/json/list"} {
		traces[path] = string(env.worker.requireRoute(t, session, path, http.StatusOK))
	}
	ended := env.worker.killSession(t, session.Id)
	traces["the session"] = fmt.Sprintf("%+v", ended)
	traces["the recording"], traces["the archive"] = env.recordedPart(t, session, "events"), env.recordedPart(t, session, "har")
	if !strings.Contains(traces["the archive"], `"user=***&password=***&code=***"`) {
		t.Errorf("the form is not in the archive: %s", traces["the archive"])
	}
	used, err := env.dashboard.ListAuditEventsWithResponse(t.Context(), nil)
	requireAnswer(t, err, used, http.StatusOK)
	if count := strings.Count(string(used.Body), `"secret.used"`); count != 6 {
		t.Errorf("%d uses are in the audit log: %s", count, used.Body)
	}
	traces["the audit log"] = string(used.Body)
	traces["the worker's log"], traces["the cloud's log"] = env.worker.logText(), env.cloud.logText()
	for where, text := range traces {
		for _, secret := range append([]string{username, password, seed}, codes...) {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, where)
			}
		}
	}
	if len(codes) != 2 {
		t.Errorf("the site got the codes %q", codes)
	}
}

// recordedPart returns a part of the recording of a session when it is available.
func (s testEnv) recordedPart(t *testing.T, session workerapi.BrowserSession, part string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.worker.url+"/sessions/"+session.Id.String()+"/recording/"+part, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := contractClient(t, workerDocument, "X-API-Key", s.worker.key).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err == nil && answer.StatusCode == http.StatusOK {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the recording: %s %s", answer.Status, text)
		}
	}
}
