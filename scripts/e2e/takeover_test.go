package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
)

// takeoverAttempt contains the results of a page's requests to a debugging port and
// to a server of the host, with one of the host's names.
type takeoverAttempt struct {
	Version, Cookies, Tab, Server string
}

// TestTakeover_CannotReachOtherWorkersBrowser uses a browser of one organization to
// attack a browser of another organization's worker on the same host: with the
// default settings, with local servers allowed, and with a minimal DENIED_HOSTS.
func TestTakeover_CannotReachOtherWorkersBrowser(t *testing.T) {
	t.Parallel()
	theirs := newTestEnv(t)
	victim := theirs.worker.launch(t, theirs.newLaunchRequest(t, true))
	server := servePage(t)
	mine := theirs.cloud.signUp(t)
	for name, tc := range map[string]struct {
		environment []string
		server      bool // whether a server of the host is reachable
	}{
		"default settings":      {[]string{"ALLOWED_HOSTS="}, false},
		"local servers allowed": {[]string{"ALLOWED_HOSTS=127.0.0.0/8,localhost,[::1]"}, true},
		"minimal denied hosts":  {[]string{"DENIED_HOSTS=10.0.0.0/8"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			attacker := testEnv{account: mine, cloud: theirs.cloud, worker: startWorker(t, theirs.cloud, mine.key, tc.environment...)}
			session := attacker.worker.launch(t, attacker.newLaunchRequest(t, true))
			var found map[string]takeoverAttempt
			runScript(t, "takeover", map[string]any{
				"endpoint": *session.WebSocketDebuggerUrl, "port": *victim.DebugPort, "path": debugPath(t, victim), "server": server,
			}, &found)
			if len(found) != 3 {
				t.Fatalf("%d host names were tried, want 3: %+v", len(found), found)
			}
			for host, a := range found {
				if !strings.Contains(a.Version, " is denied by the egress policy ") || a.Cookies != "failed" || a.Tab != "403" && a.Tab != "failed" {
					t.Errorf("%s: the debugging port is reachable: %+v", host, a)
				}
				if denied := strings.Contains(a.Server, " is denied by the egress policy "); denied == tc.server || strings.HasPrefix(a.Server, "failed") {
					t.Errorf("%s: access to a server of the host is denied: %v; the page shows %q", host, denied, a.Server)
				}
			}
			if tc.server {
				return
			}
			var api map[string]takeoverAttempt // against the API of the other worker
			runScript(t, "takeover", map[string]any{"endpoint": *session.WebSocketDebuggerUrl, "port": 9, "path": "/", "server": "http://" + theirs.worker.address + "/health"}, &api)
			for host, a := range api {
				if !strings.Contains(a.Server, " is denied by the egress policy ") {
					t.Errorf("%s: the other worker's API shows %q", host, a.Server)
				}
			}
		})
	}
	assertDrivable(t, victim, server)
	theirs.worker.killSession(t, victim.Id)
}

// debugPath returns the WebSocket path of a browser's debugging server.
func debugPath(t *testing.T, s workerapi.BrowserSession) string {
	t.Helper()
	address, err := url.Parse(*s.WebSocketDebuggerUrl)
	if err != nil {
		t.Fatal(err)
	}
	return address.Path[strings.Index(address.Path, "/devtools/browser/"):]
}

// TestDebugPort_RefusesPages connects to a debugging port without an Origin header,
// as clients do, and with one, as pages do.
func TestDebugPort_RefusesPages(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t), servePage(t)
	s := env.worker.launch(t, env.newLaunchRequest(t, true))
	address := fmt.Sprintf("127.0.0.1:%d", *s.DebugPort)
	var result visit
	runScript(t, "puppeteer", map[string]any{"endpoint": "ws://" + address + debugPath(t, s), "url": page, "expression": "6*7"}, &result)
	if !result.matches(s) {
		t.Errorf("puppeteer saw %+v", result)
	}
	for origin, status := range map[string]int{"": http.StatusSwitchingProtocols, "http://" + address: http.StatusForbidden, "https://evil.example": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+debugPath(t, s), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("Origin %q: got %s, want %d", origin, answer.Status, status)
		}
	}
	env.worker.killSession(t, s.Id)
}
