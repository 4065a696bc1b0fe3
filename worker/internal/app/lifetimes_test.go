package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// endOf waits for the end of a session and returns the reason, as the worker and the cloud know it.
func (r *testWorker) endOf(t *testing.T, id uuid.UUID) (reason, reported string) {
	t.Helper()
	var ended workerapi.BrowserSession
	testenv.Eventually(t, "the end of the session", func() bool {
		ended = r.session(t, "GET", "/sessions/"+id.String(), "")
		return ended.Status != "running"
	})
	if ended.ExpiresAt != nil || ended.ExpiresReason != nil || ended.MaxDurationSeconds != nil {
		t.Errorf("the ended session expires: %+v", ended)
	}
	testenv.Eventually(t, "the report of the end", func() bool {
		for _, call := range r.cloud.Calls(cloudtest.End) {
			if call.SessionID == id {
				reported = string(*call.End.EndReason)
			}
		}
		return reported != ""
	})
	return string(*ended.EndReason), reported
}

// TestLifetimes_EndForgottenSessions checks the defaults of the worker.
func TestLifetimes_EndForgottenSessions(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) {
		c.Lifetimes.Connect, c.Lifetimes.Idle, c.Lifetimes.WebDriverIdle = 2*time.Second, []time.Duration{4 * time.Second}, time.Second
	})
	own, _ := r.drive(t, nil).capabilities["svc:session"].(map[string]any)
	driven := uuid.MustParse(own["sessionId"].(string))
	used, unused := r.launch(t), r.launch(t)
	r.handovers(used).ask(t, "GET", "/screenshot", "", http.StatusOK)
	if *unused.ConnectTimeoutSeconds != 2 || *unused.IdleTimeoutSeconds != 4 || *unused.MaxDurationSeconds != 0 ||
		*unused.ExpiresReason != "never_connected" || !unused.ExpiresAt.Equal(unused.StartedAt.Add(2*time.Second)) {
		t.Errorf("launched as %+v", unused)
	}
	for _, tc := range []struct {
		id     uuid.UUID
		reason string
	}{{driven, "idle"}, {unused.Id, "never_connected"}, {used.Id, "idle"}} {
		if reason, reported := r.endOf(t, tc.id); reason != tc.reason || reported != tc.reason {
			t.Errorf("ended by %s, reported as %s, want %s", reason, reported, tc.reason)
		}
	}
}

// TestLifetimes_EveryClientCounts uses a session in each way that clients have.
func TestLifetimes_EveryClientCounts(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.Lifetimes.Connect = time.Hour })
	socket := func(t *testing.T, address string) {
		t.Helper()
		conn, err := ws.Dial(t.Context(), address, nil, ws.Options{ReadLimit: -1})
		if err != nil {
			t.Fatal(err)
		}
		over := cdp.OverWebSocket(conn)
		defer over.Close()
		if err := over.Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
			t.Error(err)
		}
	}
	isExpiring := func(t *testing.T, id uuid.UUID) bool {
		t.Helper()
		s := r.session(t, "GET", "/sessions/"+id.String(), "")
		return s.ExpiresReason != nil && *s.ExpiresReason == "never_connected"
	}
	for name, tc := range map[string]struct {
		use   func(t *testing.T, s workerapi.BrowserSession)
		count bool
	}{
		"CDP": {func(t *testing.T, s workerapi.BrowserSession) { socket(t, *s.WebSocketDebuggerUrl) }, true},
		"the debugging port": {func(t *testing.T, s workerapi.BrowserSession) {
			path := strings.SplitAfter(strings.SplitN(*s.WebSocketDebuggerUrl, "?", 2)[0], s.LaunchId.String())[1]
			socket(t, fmt.Sprintf("ws://127.0.0.1:%d%s", *s.DebugPort, path))
		}, true},
		"a list of tabs": {func(t *testing.T, s workerapi.BrowserSession) {
			r.handovers(s).ask(t, "GET", "/json/list", "", http.StatusOK)
		}, false},
		"a screenshot": {func(t *testing.T, s workerapi.BrowserSession) {
			r.handovers(s).ask(t, "GET", "/screenshot", "", http.StatusOK)
		}, true},
		"the live view": {func(t *testing.T, s workerapi.BrowserSession) { r.watch(t, *s.ViewUrl)() }, true},
		"a preview of the console": {func(t *testing.T, s workerapi.BrowserSession) {
			r.handovers(s).ask(t, "GET", "/screenshot?width=100&format=jpeg", "", http.StatusOK)
		}, false},
		"an update": {func(t *testing.T, s workerapi.BrowserSession) {
			r.session(t, "PATCH", "/sessions/"+s.Id.String(), `{"idleTimeoutSeconds":7200,"name":"a"}`)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.launch(t)
			if !isExpiring(t, s.Id) {
				t.Error("a new session does not expire")
			}
			tc.use(t, s)
			if isExpiring(t, s.Id) == tc.count {
				t.Errorf("counts: %t, want %t", !tc.count, tc.count)
			}
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		})
	}
	t.Run("MCP", func(t *testing.T) {
		c := r.openMCP(t, workerKey)
		c.do(t, "launch_browser", map[string]any{}, "Launched")
		id := decode[workerapi.BrowserSessionListResponse](t, r.get(t, "/sessions?status=running")).Data.Items[0].Id
		if !isExpiring(t, id) {
			t.Error("a new session does not expire")
		}
		if c.do(t, "snapshot", map[string]any{}); isExpiring(t, id) {
			t.Error("a call of a tool does not count")
		}
	})
}

func (r *testWorker) get(t *testing.T, path string) []byte {
	t.Helper()
	_, text := r.call(t.Context(), t, "GET", path, "", "X-API-Key", workerKey)
	return text
}

// TestLifetimes_ExtendByControlToken changes the limits with the token of the launch, which does not
// change anything else.
func TestLifetimes_ExtendByControlToken(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.Lifetimes.Max = []time.Duration{time.Hour, 2 * time.Hour} })
	s := r.launch(t)
	path, control := "/browsers/"+s.LaunchId.String()+"/lifetime", token(*s.WebSocketDebuggerUrl)
	update := func(body string, headers ...string) (int, []byte) {
		return r.call(t.Context(), t, "PATCH", path, body, headers...)
	}
	status, text := update(`{"maxDurationSeconds":7200,"idleTimeoutSeconds":60}`, "X-Svc-Token", control)
	got := decode[workerapi.BrowserLifetimeResponse](t, text).Data
	if status != http.StatusOK || *got.MaxDurationSeconds != 7200 || *got.IdleTimeoutSeconds != 60 || *got.ExpiresReason != "idle" {
		t.Fatalf("answered %d %s", status, text)
	}
	if read := r.session(t, "GET", "/sessions/"+s.Id.String(), ""); *read.MaxDurationSeconds != 7200 || !read.ExpiresAt.Equal(*got.ExpiresAt) {
		t.Errorf("the session has %+v", read)
	}
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"above the limit": {`{"maxDurationSeconds":7201}`, []string{"X-Svc-Token", control}, 400},
		"no limit":        {`{"maxDurationSeconds":0}`, []string{"X-Svc-Token", control}, 400},
		"no token":        {`{"maxDurationSeconds":60}`, nil, 404},
		"a view ticket":   {`{"maxDurationSeconds":60}`, []string{"X-Svc-Token", r.viewTicket(t, s)}, 404},
	} {
		if status, text := update(tc.body, tc.headers...); status != tc.status {
			t.Errorf("%s: answered %d %s", name, status, text)
		}
	}
	status, text = r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"maxDurationSeconds":7201}}`, r.cloud.Profile(r.version)), "X-API-Key", workerKey)
	if refused := decode[failure](t, text); status != 400 || refused.Error.Details[0].Field != "browser.maxDurationSeconds" || refused.Error.Details[0].Code != "TOO_BIG" {
		t.Errorf("a launch above the limit: %d %s", status, text)
	}
}
