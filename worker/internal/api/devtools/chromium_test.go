package devtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session/activity"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// newRealTestServer serves a real browser, as launch, that shows a red page. person
// opens a URL in another browser.
func newRealTestServer(t testing.TB) (w *testServer, b *browser.Browser, person func(address string) *browsertest.Tab) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Inspected</title><body style="margin:0;background:#f00"><h1 id="greeting-of-the-page">Hello</h1>`)
	}))
	t.Cleanup(site.Close)
	launcher := browsertest.NewLauncher(t)
	start := func(launchID, address string) *browser.Browser {
		return launcher(browser.Spec{LaunchID: launchID, Headless: true, Emulation: settings.Emulation{Screen: &settings.Size{Width: 1280, Height: 800}}, Options: settings.Options{StartURLs: []string{address}}})
	}
	b = start(launch, site.URL+"/")
	w = newTestServer(t, "")
	w.add(b, true)
	return w, b, func(address string) *browsertest.Tab {
		return browsertest.OpenTab(t, start(uuid.NewString(), "about:blank"), address)
	}
}

// add registers a real browser with the server.
func (w *testServer) add(b *browser.Browser, devtools bool) {
	w.finder.add(access.Browser{
		LaunchID: b.LaunchID, DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, DevTools: devtools,
		Activity: activity.New(w.clock), Done: b.Done(),
	})
}

func TestRelay_RealCDP(t *testing.T) {
	w, b, _ := newRealTestServer(t)
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
	assertCloses(t, conn)
	if got := do(t, "GET", w.path("/screenshot"), "X-API-Key", workerKey); got.status != 404 || got.body != "unknown browser" {
		t.Errorf("after the end of the browser: got %d %s", got.status, got.body)
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

// deepText returns a page's text, including shadow trees.
const deepText = `(function text(n) {
	let s = n.nodeType === Node.TEXT_NODE ? n.data : '';
	if (n.shadowRoot) s += text(n.shadowRoot);
	for (const c of n.childNodes) s += text(c);
	return s;
})(document.body)`

func TestFrontEnd_RealBrowser(t *testing.T) {
	w, _, person := newRealTestServer(t)
	p := person(w.path("/devtools/?ct=" + w.token(t, ticket.Control)))
	p.WaitFor("the inspector shows the page's elements", deepText+`.includes('greeting-of-the-page')`, "true")
	if address := p.Eval("location.href"); !strings.HasPrefix(address, w.path("/devtools/inspector.html?ws=")) || strings.Contains(address, "ct=") {
		t.Errorf("got URL %s", address)
	}
	if open := w.OpenTasks(); open < 1 {
		t.Errorf("%d connections are open", open)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "devtools.png"), p.Screenshot(), 0o644); err != nil {
		t.Error(err)
	}
	if output := p.ConsoleOutput(); strings.Contains(output, "Content Security Policy") || strings.Contains(output, "Uncaught") {
		t.Errorf("the console contains:\n%s", output)
	}
	p.Navigate("about:blank")
	testenv.Eventually(t, "relay ended", func() bool { return w.OpenTasks() == 0 })
}
