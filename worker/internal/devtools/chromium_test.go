package devtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/activity"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/gate"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// newLauncher starts real browsers; each gets a user id of its own when the
// tests run as root.
func newLauncher(t testing.TB) func(launchID string, startURL string) *browser.Browser {
	t.Helper()
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(builds, func(b browser.Build) bool { return b.DevTools })
	if i < 0 {
		t.Fatal("no Chromium with its own DevTools is installed; these tests need one")
	}
	dir, err := os.MkdirTemp("", "dt") // short: Chromium makes a Unix socket below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // browsers run as another user
		t.Fatal(err)
	}
	l, err := browser.NewLauncher(browser.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return func(launchID, startURL string) *browser.Browser {
		b, err := l.Launch(t.Context(), browser.Spec{
			LaunchID: launchID, Build: builds[i], Headless: true, StartURLs: []string{startURL},
			Screen: &browser.Size{Width: 1280, Height: 800},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// newRealWorker serves a real browser, as launch, that shows a red page.
func newRealWorker(t testing.TB) (*worker, *browser.Browser, func(launchID, startURL string) *browser.Browser) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Inspected</title><body style="margin:0;background:#f00"><h1 id="greeting-of-the-page">Hello</h1>`)
	}))
	t.Cleanup(site.Close)
	start := newLauncher(t)
	b := start(launch, site.URL+"/")
	w := newWorker(t, "")
	w.add(b, true)
	return w, b, start
}

// add makes a real browser one of the worker's.
func (w *worker) add(b *browser.Browser, devtools bool) {
	w.finder.add(gate.Browser{
		LaunchID: b.LaunchID, DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, DevTools: devtools,
		Activity: activity.New(w.clock), Done: b.Done(),
	})
}

func TestCDPWorksThroughTheRelay(t *testing.T) {
	w, b, _ := newRealWorker(t)
	conn := w.dial(t, b.WebSocketPath)
	var version struct {
		ID     int
		Result struct{ Product string }
	}
	call(t, conn, `{"id":7,"method":"Browser.getVersion"}`, &version)
	if version.ID != 7 || !strings.Contains(version.Result.Product, "Chrom") {
		t.Errorf("%+v", version)
	}
	if err := b.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	closes(t, conn)
	if got := do(t, "GET", w.path("/screenshot"), "X-API-Key", workerKey); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("after the end: %d %s", got.status, got.body)
	}
}

func call(t testing.TB, conn *ws.Conn, request string, answer any) {
	t.Helper()
	if err := conn.Write(t.Context(), ws.Text, []byte(request)); err != nil {
		t.Fatal(err)
	}
	_, message, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(message, answer); err != nil {
		t.Fatal(err)
	}
}

// tab is a page of a person's own browser.
type tab struct {
	t        *testing.T
	conn     *cdp.Conn
	session  string
	messages *cdp.Subscription
}

func openTab(t *testing.T, b *browser.Browser, address string) *tab {
	t.Helper()
	p := &tab{t: t, conn: b.CDP()}
	var target struct{ TargetID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	p.messages = p.conn.Subscribe(1000, "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
	p.call("Log.enable", nil, nil)
	p.call("Runtime.enable", nil, nil)
	p.navigate(address)
	return p
}

func (p *tab) call(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	if err := p.conn.Call(ctx, p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) navigate(address string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": address}, nil)
}

// eval returns an expression's value as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var answer struct {
		Result struct{ Value any }
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &answer)
	return fmt.Sprint(answer.Result.Value)
}

func (p *tab) shows(what, expression, want string) {
	p.t.Helper()
	var got string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s = %q, want %q; said: %s", expression, got, want, p.said())
		}
	}()
	eventually(p.t, what, func() bool { got = p.eval(expression); return got == want })
}

// said is everything that the page wrote to its console.
func (p *tab) said() string {
	var b strings.Builder
	for {
		select {
		case e := <-p.messages.Events():
			if e.SessionID == p.session {
				fmt.Fprintf(&b, "%s %s\n", e.Method, e.Params)
			}
		default:
			return b.String()
		}
	}
}

// picture keeps a picture of the tab with the test's artifacts.
func (p *tab) picture(name string) {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), shot.Data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// deepText is a page's text, shadow trees included.
const deepText = `(function text(n) {
	let s = n.nodeType === Node.TEXT_NODE ? n.data : '';
	if (n.shadowRoot) s += text(n.shadowRoot);
	for (const c of n.childNodes) s += text(c);
	return s;
})(document.body)`

func TestDevToolsWorkInABrowser(t *testing.T) {
	w, _, start := newRealWorker(t)
	person := start(uuid.NewString(), "about:blank")
	p := openTab(t, person, w.path("/devtools/?ct="+w.token(t, ticket.Control)))
	p.shows("the inspector shows the page's elements", deepText+`.includes('greeting-of-the-page')`, "true")
	if address := p.eval("location.href"); !strings.HasPrefix(address, w.path("/devtools/inspector.html?ws=")) || strings.Contains(address, "ct=") {
		t.Errorf("at %s", address)
	}
	if got := w.Stats(); got.Open < 1 {
		t.Errorf("%+v", got)
	}
	p.picture("devtools.png")
	if said := p.said(); strings.Contains(said, "Content Security Policy") || strings.Contains(said, "Uncaught") {
		t.Errorf("the console says:\n%s", said)
	}
	p.navigate("about:blank")
	eventually(t, "relay ended", func() bool { return w.Stats().Open == 0 })
	if got := w.Stats(); got.ToBrowsers < 1000 || got.ToClients < 1000 {
		t.Errorf("little was said: %+v", got)
	}
}
