package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestFreeze_EveryClientThawsSession uses a frozen session in each way that clients have. Its
// activity log does not keep it awake.
func TestFreeze_EveryClientThawsSession(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken, withAudit, func(c *app.Config) { c.FreezeIdle = 1 })
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":false,"logs":true}}`, r.cloud.Profile(r.version)))
	if s.Frozen == nil || *s.Frozen {
		t.Fatalf("a new session has frozen %v", s.Frozen)
	}
	isFrozen := func() bool { return *r.session(t, "GET", "/sessions/"+s.Id.String(), "").Frozen }
	h := r.handovers(s)
	socket := func(address string) func() (end func()) {
		return func() func() {
			conn, err := ws.Dial(t.Context(), address, nil, ws.Options{ReadLimit: -1})
			if err != nil {
				t.Fatal(err)
			}
			over := cdp.OverWebSocket(conn)
			if err := over.Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
				t.Error(err)
			}
			return func() { _ = over.Close() }
		}
	}
	route := func(method, path string) func() func() {
		return func() func() {
			h.ask(t, method, path, "", http.StatusOK)
			return nil
		}
	}
	_, path, _ := strings.Cut(*s.WebSocketDebuggerUrl, h.base)
	path, _, _ = strings.Cut(path, "?")
	for name, use := range map[string]func() (end func()){
		"CDP":                   socket(*s.WebSocketDebuggerUrl),
		"the debugging port":    socket(fmt.Sprintf("ws://127.0.0.1:%d%s", *s.DebugPort, path)),
		"a screenshot":          route("GET", "/screenshot"),
		"the state":             route("GET", "/state"),
		"the logs":              route("GET", "/logs"),
		"the list of tabs":      route("GET", "/json/list"),
		"the live view":         func() func() { return r.watch(t, *s.ViewUrl) },
		"a handover to a human": func() func() { h.start(t); return func() { h.state(t, "DELETE", "/handover") } },
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Eventually(t, "a frozen session", isFrozen)
			r.awaitMetric(t, 1, "svc_worker_frozen_sessions")
			began := time.Now()
			end := use()
			t.Logf("answered after %s", time.Since(began).Round(time.Millisecond))
			if isFrozen() {
				t.Error("the session is still frozen")
			}
			if end == nil {
				return
			}
			time.Sleep(1500 * time.Millisecond) // longer than FREEZE_IDLE_SECONDS
			if isFrozen() {
				t.Error("the session was frozen while it was in use")
			}
			end()
		})
	}
	testenv.Eventually(t, "a frozen session", isFrozen)
	if ended := r.session(t, "DELETE", "/sessions/"+s.Id.String(), ""); ended.Frozen != nil || ended.Status != "killed" {
		t.Errorf("the ended session has frozen %v, status %s", ended.Frozen, ended.Status)
	}
	r.awaitMetric(t, 0, "svc_worker_frozen_sessions")
}

// watch opens the live view and waits for its first message.
func (r *testWorker) watch(t *testing.T, viewURL string) (end func()) {
	t.Helper()
	address := strings.Replace(strings.Replace(viewURL, "/view?", "/vnc?", 1), "http", "ws", 1)
	conn, err := ws.Dial(t.Context(), address, http.Header{"Sec-Websocket-Protocol": {"binary"}}, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.CloseNow() }
}
