package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// bidi is a WebDriver BiDi socket.
type bidi struct {
	*ws.Conn
	last int // id of a command
}

// bidi connects with the socket of a session.
func (d *webDriverSession) bidi(t *testing.T) *bidi {
	t.Helper()
	conn, err := ws.Dial(t.Context(), d.capabilities["webSocketUrl"].(string), nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &bidi{Conn: conn}
}

// bidiMessage is an answer or an event.
type bidiMessage struct {
	ID              int
	Method, Message string // of an event; of an error
	Result, Params  map[string]any
}

// read reads the next message of a kind.
func (b *bidi) read(t *testing.T, matches func(bidiMessage) bool) bidiMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, text, err := b.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m := decode[bidiMessage](t, text); matches(m) {
			return m
		}
	}
}

// try sends a command and returns its result and the message of its error.
func (b *bidi) try(t *testing.T, method string, params any) (result map[string]any, problem string) {
	t.Helper()
	b.last++
	raw, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), ws.Text, raw); err != nil {
		t.Fatal(err)
	}
	m := b.read(t, func(m bidiMessage) bool { return m.ID == b.last })
	return m.Result, m.Message
}

// do sends a command and returns its result.
func (b *bidi) do(t *testing.T, method string, params any) map[string]any {
	t.Helper()
	result, problem := b.try(t, method, params)
	if problem != "" {
		t.Fatalf("%s: %s", method, problem)
	}
	return result
}

// driverCommand is a command of WebDriver BiDi, or of chromedriver with a path.
type driverCommand struct {
	name   string // method or path
	params map[string]any
}

// viaBiDi and viaDriver are commands with a CDP call.
func viaBiDi(method string, params map[string]any) driverCommand {
	return driverCommand{"goog:cdp.sendCommand", map[string]any{"method": method, "params": params}}
}

func viaDriver(path, method string, params map[string]any) driverCommand {
	return driverCommand{path, map[string]any{"cmd": method, "params": params}}
}

// send sends a command and returns the message of its error.
func (c driverCommand) send(t *testing.T, d *webDriverSession, b *bidi) (problem string) {
	t.Helper()
	if !strings.HasPrefix(c.name, "/") {
		_, problem = b.try(t, c.name, c.params)
		return problem
	}
	body, err := json.Marshal(c.params)
	if err != nil {
		t.Fatal(err)
	}
	status, text := d.try(t, "POST", c.name, string(body))
	if status == http.StatusOK {
		return ""
	}
	return decode[struct{ Value webDriverError }](t, text).Value.Message
}

// downloadCommands choose where downloads are stored, by the name of a file that is downloaded then.
var downloadCommands = map[string]driverCommand{
	"bidi.txt":         {"browser.setDownloadBehavior", map[string]any{"downloadBehavior": map[string]any{"type": "allowed", "destinationFolder": "/tmp"}}},
	"bidi-browser.txt": viaBiDi("Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"}),
	"browser.txt":      viaDriver("/goog/cdp/execute", "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"}),
	"page.txt":         viaDriver("/goog/cdp/execute", "Page.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"}),
	"old.txt":          viaDriver("/chromium/send_command", "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"}),
}

// TestWebDriver_InterceptsCommands sends the commands that lead to intercepted CDP calls.
// downloadCommands has those for downloads.
func TestWebDriver_InterceptsCommands(t *testing.T) {
	site := testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>the site</title><input type="file">`)
	}))
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers, withFiles)
	rules := map[string]any{"uploads": "deny", "navigate": map[string]any{"allow": []string{strings.TrimPrefix(site.URL, "http://")}}}
	d := r.drive(t, map[string]any{"webSocketUrl": true, "svc:options": map[string]any{"spec": map[string]any{}, "browser": map[string]any{"network": rules}}})
	b := d.bidi(t)
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	window, _ := d.do(t, "GET", "/window", nil).(string)
	input := d.element(t, "input")
	nodes, _ := b.do(t, "browsingContext.locateNodes", map[string]any{"context": window, "locator": map[string]any{"type": "css", "value": "input"}})["nodes"].([]any)
	node, _ := nodes[0].(map[string]any)
	b.do(t, "session.subscribe", map[string]any{"events": []string{"network.beforeRequestSent"}})
	b.do(t, "network.addIntercept", map[string]any{"phases": []string{"beforeRequestSent"}, "urlPatterns": []any{map[string]any{"type": "string", "pattern": site.URL + "/paused"}}})
	d.script(t, `fetch("/paused").catch(() => {})`)
	event := b.read(t, func(m bidiMessage) bool {
		return m.Method == "network.beforeRequestSent" && m.Params["isBlocked"] == true
	})
	request, _ := event.Params["request"].(map[string]any)

	const (
		atLaunch = "Extensions are loaded at the launch only"
		document = "the rule navigate.allow of the launch"
		upload   = "the rule uploads of the launch"
		textPage = "data:text/html,x"
	)
	load := map[string]any{"path": "/tmp"}
	page, files := map[string]any{"url": textPage}, map[string]any{"files": []string{"/etc/passwd"}, "backendNodeId": 1}
	nested := map[string]any{"sessionId": "x", "message": `{"id":1,"method":"Extensions.loadUnpacked","params":{"path":"/tmp"}}`}
	for _, c := range []struct {
		driverCommand
		problem string // part of the error
	}{
		{driverCommand{"network.continueRequest", map[string]any{"request": request["request"], "url": "http://other.localhost/"}}, document},
		{driverCommand{"webExtension.install", map[string]any{"extensionData": map[string]any{"type": "path", "path": "/tmp"}}}, atLaunch},
		{viaBiDi("Extensions.loadUnpacked", load), atLaunch},
		{viaDriver("/goog/cdp/execute", "Extensions.loadUnpacked", load), atLaunch},
		{viaDriver("/chromium/send_command", "Extensions.loadUnpacked", load), atLaunch},
		{viaDriver("/chromium/send_command_and_get_result", "Extensions.loadUnpacked", load), atLaunch},
		{viaBiDi("Target.sendMessageToTarget", nested), "attach to the target with flatten: true"},
		{viaDriver("/goog/cdp/execute", "Target.sendMessageToTarget", nested), "attach to the target with flatten: true"},

		{driverCommand{"browsingContext.navigate", map[string]any{"context": window, "url": textPage}}, document},
		{viaBiDi("Target.createTarget", page), document},
		{viaDriver("/goog/cdp/execute", "Page.navigate", page), document},
		{driverCommand{"/url", page}, document},

		{driverCommand{"input.setFiles", map[string]any{"context": window, "element": map[string]any{"sharedId": node["sharedId"]}, "files": []string{"/etc/passwd"}}}, upload},
		{viaBiDi("DOM.setFileInputFiles", files), upload},
		{viaDriver("/goog/cdp/execute", "DOM.setFileInputFiles", files), upload},
		{driverCommand{input + "/value", map[string]any{"text": "/etc/passwd"}}, upload},

		{driverCommand{"browser.createUserContext", map[string]any{"proxy": map[string]any{"proxyType": "manual", "httpProxy": "127.0.0.1:1"}}}, "The proxyServer cannot be used"},
		{viaBiDi("Target.createBrowserContext", map[string]any{"proxyServer": "bad://x"}), "The proxyServer cannot be used"},
		{viaDriver("/goog/cdp/execute", "Target.createBrowserContext", map[string]any{"proxyServer": "bad://x"}), "The proxyServer cannot be used"},
		{viaBiDi("Svc.requestHuman", map[string]any{"reason": ""}), "reason must say what the person is to do"},
	} {
		if problem := c.send(t, d, b); !strings.Contains(problem, c.problem) {
			t.Errorf("%s %v: %q, want %q", c.name, c.params, problem, c.problem)
		}
	}
	b.do(t, "browser.close", map[string]any{})
	if reason := d.awaitSessionEnd(t); reason != "client_close" {
		t.Errorf("browser.close: the session ended because of %s", reason)
	}
}
