package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// signIn fills the form of a page with the secret.
func (c *mcpClient) signIn(t *testing.T) {
	t.Helper()
	for label, field := range map[string]string{`textbox "User"`: "username", `textbox "Password"`: "password", `textbox "Code"`: "totp"} {
		ref := c.ref(t, label)
		c.do(t, "fill_secret", args{"ref": ref, "secret": "shop", "field": field}, "The field "+ref+" is filled.")
	}
}

func TestMCP_SignsInWithSecrets(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	site := newSignInSite(t, r)
	around := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<title>Around</title><iframe src=%q></iframe>", strings.Replace(site.URL, "127.0.0.1", "localhost", 1))
	}))
	t.Cleanup(around.Close)
	c := r.openMCP(t, workerKey)
	c.do(t, "launch_browser", nil)
	c.do(t, "navigate", args{"url": site.URL})
	c.signIn(t)
	snapshot := c.do(t, "snapshot", nil)
	if found := regexp.MustCompile(`textbox .*: \(filled with a secret\)`).FindAllString(snapshot, -1); len(found) != 3 || !strings.Contains(snapshot, "my note") {
		t.Errorf("got %s", snapshot)
	}
	c.do(t, "read_page", nil)
	c.refuse(t, "fill_secret", args{"ref": c.ref(t, `textbox "User"`), "secret": "shop", "field": "password"}, "is no password input")
	c.refuse(t, "fill_secret", args{"ref": c.ref(t, `textbox "User"`), "secret": "other", "field": "username"}, "No such secret.")
	c.refuse(t, "fill_secret", args{"ref": "e9999", "secret": "shop", "field": "username"}, "new snapshot")
	c.do(t, "click", args{"ref": c.ref(t, `button "Sign in"`)}, "Welcome")
	c.do(t, "network_requests", nil)
	c.do(t, "console_messages", nil)

	// A frame of another site is filled if that site may be, whatever the page around it is.
	c.do(t, "navigate", args{"url": around.URL}, "Around")
	text, failed := c.call(t, "fill_secret", args{"ref": c.ref(t, `textbox "Password"`), "secret": "shop", "field": "password"})
	if !failed || !strings.Contains(text, "origin: is not allowed") || strings.Contains(text, "key") {
		t.Errorf("got %s", text)
	}
	r.cloud.AddSecret("shop", cloudtest.Secret{ID: uuid.Must(uuid.NewV7()), Origin: strings.Replace(site.URL, "127.0.0.1", "localhost", 1), Values: site.values})
	c.signIn(t)
	c.do(t, "snapshot", nil, "(filled with a secret)")
}

// TestFillSecret_LeavesNoTrace signs in and searches everything that the worker returns about
// the session for the values.
func TestFillSecret_LeavesNoTrace(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	site := newSignInSite(t, r)
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":true,"record":["events"],"logs":true}}`, r.cloud.Profile(r.version)))
	f := fills{r.handovers(s)}
	f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, site.URL), 200)
	transcript := []string{}
	for field, selector := range map[cloudapi.SecretField]string{"username": "[name=user]", "password": "[type=password]", "totp": "[name=code]"} {
		transcript = append(transcript, string(f.post(t, 200, map[string]any{"field": field, "selector": selector})))
	}
	conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	target := decode[workerapi.FillResponse](t, []byte(transcript[0])).Data.TargetId
	var attached struct{ SessionID string }
	if err := conn.Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &attached); err != nil {
		t.Fatal(err)
	}
	answer := evaluate(t, conn, attached.SessionID, `fetch('/welcome', {method: 'POST', body: new URLSearchParams(new FormData(document.forms[0]))}).then(r => r.text())`)
	if !strings.Contains(answer, "Signed in") {
		t.Fatalf("the site answers %s", answer)
	}
	for _, path := range []string{"/logs", "/state", "/files", "/json/list"} {
		_, text := f.call(context.WithoutCancel(t.Context()), t, "GET", f.base+path, "", "X-Svc-Token", f.control)
		transcript = append(transcript, string(text))
	}
	session := r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	record, err := json.Marshal(session)
	if err != nil {
		t.Fatal(err)
	}
	transcript = append(transcript, string(record))
	r.awaitRecording(t, s)
	_, events := r.filesOfSession(t, s).expect(200, "GET", "/recording/events", "")
	if !strings.Contains(events, site.URL) {
		t.Errorf("the events lack the page: %s", events)
	}
	transcript = append(transcript, events)
	for _, text := range transcript {
		for field, value := range site.values {
			if strings.Contains(text, value) {
				t.Errorf("the %s is in %s", field, text)
			}
		}
	}
}
