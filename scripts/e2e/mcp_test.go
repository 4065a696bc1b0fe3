package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// serveForm serves a form that answers with what it was sent.
func serveForm(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if sent := r.URL.Query(); sent.Has("name") {
			_, _ = fmt.Fprintf(w, "<title>Sent</title><p>%s likes %s</p>", sent.Get("name"), sent.Get("color"))
			return
		}
		_, _ = fmt.Fprint(w, `<title>Form</title><form><label>Name <input name="name"></label>
<label>Color <select name="color"><option>Red<option>Green</select></label><button>Send</button></form>`)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// TestMCP_AgentFillsForm fills and submits a form over /mcp with the official TypeScript
// client, charged to an organization key. The end of the session ends the browser.
func TestMCP_AgentFillsForm(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	profile := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t)})
	var result struct {
		Tools                                   []string
		Launched, Submitted, Picture, Read, All string
	}
	runScript(t, "mcp", map[string]any{
		"endpoint": env.worker.url + "/mcp", "key": env.key, "profileId": profile, "url": serveForm(t),
	}, &result)
	if len(result.Tools) != 31 {
		t.Errorf("%d tools: %v", len(result.Tools), result.Tools)
	}
	for _, check := range []struct{ got, want string }{
		{result.Launched, "browser b1"}, {result.Submitted, `title "Sent"`}, {result.Picture, "[image/jpeg]"}, {result.Read, "Ada Lovelace likes Green"},
	} {
		if !strings.Contains(check.got, check.want) {
			t.Errorf("got %s, want %s", check.got, check.want)
		}
	}
	for _, secret := range []string{env.key, env.worker.key, "ct="} {
		if strings.Contains(result.All, secret) {
			t.Errorf("a result contains %.6s...", secret)
		}
	}
	env.waitForSlots(t, 0, 20*time.Second)
}
