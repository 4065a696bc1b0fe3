package app_test

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/trace"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const shopPage = `<!doctype html><title>Shop</title><style>h1 { color: rgb(0, 100, 0) }</style><h1>Welcome to the shop</h1>
<input id=name><input id=password type=password aria-label=Secret><input id=code autocomplete=off><select id=color><option>red<option>green</select>
<button id=buy onclick="console.log('bought'); fetch('/order').then(() => { const p = document.createElement('p'); p.id = 'done'; p.textContent = 'Thank you'; document.body.append(p) })">Buy</button>
<script>console.log('welcome')</script>`

// shop is a site with a form. Its page /ready waits until a trace has a page of the site.
type shop struct {
	URL      string
	extra    string                 // at the end of its page
	traced   atomic.Pointer[string] // path of the trace
	requests atomic.Int64
	recorded int64 // requests until the end of the recording
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s, mux := &shop{}, http.NewServeMux()
	mux.HandleFunc("/shop", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, shopPage+s.extra)
	})
	mux.HandleFunc("/order", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ordered") })
	mux.HandleFunc("/ready", func(_ http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil && !s.hasSnapshot() {
			time.Sleep(10 * time.Millisecond)
		}
	})
	mux.HandleFunc("/picture.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`)
	})
	mux.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "Framed")
	})
	s.URL = testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		mux.ServeHTTP(w, r)
	})).URL
	return s
}

func (s *shop) hasSnapshot() bool { return len(s.lines("frame-snapshot", s.URL+"/shop")) > 0 }

// lines returns the lines of the trace that contain these texts.
func (s *shop) lines(texts ...string) (lines []string) {
	raw, _ := os.ReadFile(*s.traced.Load()) // empty until it exists
	for line := range strings.Lines(string(raw)) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// record starts to use the trace of a session.
func (s *shop) record(t *testing.T, r *testWorker, session workerapi.BrowserSession) {
	t.Helper()
	s.traced.Store(new(filepath.Join(r.directoryOf(session), trace.EventsName)))
}

// end waits until the last action, whose line has these texts, has its snapshot, and ends the session.
func (s *shop) end(t *testing.T, r *testWorker, session workerapi.BrowserSession, texts ...string) {
	t.Helper()
	testenv.Eventually(t, "the snapshot of the last action", func() bool {
		for _, line := range s.lines(append(texts, `"type":"before"`)...) {
			if id := decode[struct{ CallID string }](t, []byte(line)).CallID; len(s.lines(`"type":"after"`, `"callId":"`+id+`"`, "afterSnapshot")) > 0 {
				return true
			}
		}
		return false
	})
	r.session(t, "DELETE", "/sessions/"+session.Id.String(), "")
	if got := r.awaitRecording(t, session); got.State != workerapi.RecordingStateComplete {
		t.Errorf("recording %+v", got)
	}
	s.recorded = s.requests.Load()
}

// traced is a trace as the viewer shows it.
type traced struct {
	Actions          []string
	Snapshot         string
	Values           []string
	Console, Network string
}

// traceOf returns the trace of an ended session, and its files.
func (r *testWorker) traceOf(t *testing.T, s workerapi.BrowserSession) (archive string, files map[string]string) {
	t.Helper()
	answer, text := r.filesOfSession(t, s).expect(200, "GET", "/recording/trace", "")
	if answer.Header.Get("Content-Type") != "application/zip" || !strings.Contains(answer.Header.Get("Content-Disposition"), "trace.zip") {
		t.Errorf("headers %v", answer.Header)
	}
	archive = filepath.Join(t.TempDir(), "trace.zip")
	if err := os.WriteFile(archive, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range opened.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(raw)
	}
	assertSnapshotsFollow(t, files["trace.trace"])
	return archive, files
}

// assertSnapshotsFollow checks that the snapshot of each action is after it: the viewer of Playwright 1.63 and later finds no others.
func assertSnapshotsFollow(t *testing.T, events string) {
	t.Helper()
	earlier := map[string]bool{}
	for line := range strings.Lines(events) {
		event := decode[struct {
			AfterSnapshot string
			Snapshot      struct{ SnapshotName string }
		}](t, []byte(line))
		if earlier[event.AfterSnapshot] {
			t.Errorf("the snapshot is before its action: %.300s", line)
		}
		if name := event.Snapshot.SnapshotName; name != "" {
			earlier[name] = true
		}
	}
}

// view opens a trace in the viewer, with another browser of the worker, and selects an action.
func (r *testWorker) view(t *testing.T, archive, action string) traced {
	t.Helper()
	viewer := r.launch(t)
	defer r.session(t, "DELETE", "/sessions/"+viewer.Id.String(), "")
	return decode[traced](t, node(t, "testdata/viewer.cjs", *viewer.WebSocketDebuggerUrl, archive, filepath.Join(t.TempDir(), "viewer.png"), action, "Ada"))
}

// check checks a trace as the viewer shows it: the actions in this order, of which the last one is selected.
func (r *testWorker) check(t *testing.T, s workerapi.BrowserSession, secrets []string, actions ...string) {
	t.Helper()
	archive, files := r.traceOf(t, s)
	for name, content := range files {
		for _, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s has the secret %s", name, secret)
			}
		}
	}
	last := actions[len(actions)-1]
	got, next := r.view(t, archive, last), 0
	for _, title := range got.Actions {
		if next < len(actions) && strings.HasPrefix(title, actions[next]) {
			next++
		}
	}
	if next < len(actions) {
		t.Errorf("%q is not among the actions in order: %q", actions[next], got.Actions)
	}
	if !strings.Contains(got.Snapshot, "Welcome to the shop") || !slices.Contains(got.Values, "Ada") {
		t.Errorf("the snapshot has %q, %q", got.Snapshot, got.Values)
	}
	if !strings.Contains(got.Console, "welcome") || !strings.Contains(got.Console, "bought") || !strings.Contains(got.Network, "order") {
		t.Errorf("console %q, network %q", got.Console, got.Network)
	}
}

// repeat checks that the script of a session has these steps in order, and no secrets in any language.
func (r *testWorker) repeat(t *testing.T, s workerapi.BrowserSession, secrets []string, steps ...string) {
	t.Helper()
	for _, language := range []string{"selenium-py", "playwright-py", "playwright-ts"} {
		answer, text := r.filesOfSession(t, s).expect(200, "GET", "/recording/script?language="+language, "")
		if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") || !strings.Contains(answer.Header.Get("Content-Disposition"), "session") {
			t.Errorf("headers %v", answer.Header)
		}
		if slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) }) {
			t.Errorf("a script has a secret: %s", text)
		}
		rest := text
		for _, step := range steps {
			var found bool
			if _, rest, found = strings.Cut(rest, step+"\n"); !found && language == "playwright-ts" {
				t.Errorf("%q is not in the script in order:\n%s", step, text)
				break
			}
		}
	}
}

const (
	scriptName     = `  await page.locator('#name').fill('Ada');`
	scriptPassword = `  await page.getByRole('textbox', { name: 'Secret', exact: true }).fill(process.env.PASSWORD_1!);`
	scriptColor    = `  await page.locator('#color').selectOption({ label: 'green' });`
	scriptBuy      = `  await page.getByRole('button', { name: 'Buy', exact: true }).click();`
)

// TestTrace_OpensInViewer records what two clients do over CDP, and opens the trace in the viewer of Playwright.
func TestTrace_OpensInViewer(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles, withCompleteBrowsers)
	password := "planted-" + uuid.NewString()
	for _, client := range []string{"playwright", "puppeteer"} {
		t.Run(client, func(t *testing.T) {
			site := newShop(t)
			s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":true,"record":["trace"],"startUrls":[]}}`, r.cloud.Profile(r.version)))
			if s.Recording == nil || !s.Recording.Trace || s.Recording.Video {
				t.Fatalf("recording %+v", s.Recording)
			}
			site.record(t, r, s)
			r.filesOfSession(t, s).expect(409, "GET", "/recording/trace", "")
			node(t, "testdata/trace.cjs", client, *s.WebSocketDebuggerUrl, site.URL, password)
			site.end(t, r, s, "broken on purpose")
			filesOf{r, t, r.filesOfSession(t, s).base, nil}.expect(401, "GET", "/recording/trace", "")
			r.check(t, s, []string{password}, "Navigate to "+site.URL+"/shop", "Type Ada", "Type ***", "Select an option", "Click",
				"Evaluate () => document.title", "Take a screenshot", "Evaluate () => { throw")
			r.repeat(t, s, []string{password}, "  await page.goto('"+site.URL+"/shop');", scriptName, scriptPassword, scriptColor, scriptBuy)
			filesOf{r, t, r.filesOfSession(t, s).base, nil}.expect(401, "GET", "/recording/script?language=selenium-py", "")
			for _, query := range []string{"", "?language=", "?language=selenium-java"} {
				r.filesOfSession(t, s).expect(400, "GET", "/recording/script"+query, "")
			}
		})
	}
	off := r.launch(t)
	r.filesOfSession(t, off).expect(404, "GET", "/recording/trace", "")
	r.filesOfSession(t, off).expect(404, "GET", "/recording/script?language=playwright-ts", "")
	filesOf{r, t, "/sessions/none", []string{"X-API-Key", workerKey}}.expect(400, "GET", "/recording/trace", "")
}

// TestTrace_OfWebDriver records what a client of WebDriver does, with a secret that the worker fills.
func TestTrace_OfWebDriver(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	site, password, code, earlier := newShop(t), "planted-"+uuid.NewString(), "code-"+uuid.NewString(), "earlier-"+uuid.NewString()
	r.cloud.AddSecret("shop", cloudtest.Secret{ID: uuid.Must(uuid.NewV7()), Origin: site.URL, Values: map[cloudapi.SecretField]string{"username": code, "password": earlier}})
	d := r.drive(t, map[string]any{"browserName": "chrome"})
	own, _ := d.capabilities["svc:session"].(map[string]any)
	s := r.session(t, "GET", "/sessions/"+own["sessionId"].(string), "")
	f := r.filesOf(t, s)
	d.do(t, "POST", "/url", map[string]any{"url": site.URL + "/shop"})
	f.expect(200, "POST", "/fill", `{"secret":"shop","field":"password","selector":"#password"}`, "Content-Type", "application/json")
	d.script(t, "sessionStorage.setItem('pin', document.querySelector('#password').value)")
	if got := f.startRecording(`["trace"]`); !got.Trace {
		t.Errorf("started %+v", got)
	}
	site.record(t, r, s)
	d.do(t, "POST", "/url", map[string]any{"url": site.URL + "/shop"})
	testenv.Eventually(t, "the snapshot of the page", site.hasSnapshot)
	for _, field := range []struct{ selector, text string }{{"#name", "Ada"}, {"#password", password}} {
		d.do(t, "POST", d.element(t, field.selector)+"/value", map[string]any{"text": field.text})
	}
	f.expect(200, "POST", "/fill", `{"secret":"shop","field":"username","selector":"#code"}`, "Content-Type", "application/json")
	d.script(t, "document.querySelector('#color').value = 'green'; fetch('/order?pin=' + sessionStorage.getItem('pin')); return document.title")
	d.do(t, "GET", "/screenshot", nil)
	if status, _ := d.try(t, "POST", "/element", `{"using":"css selector","value":"#missing"}`); status != 404 {
		t.Errorf("a missing element: %d", status)
	}
	d.do(t, "POST", d.element(t, "#buy")+"/click", map[string]any{})
	site.end(t, r, s, "Click {element}")
	r.check(t, s, []string{password, code, earlier}, "Navigate to "+site.URL+"/shop", "Find #name", "Type Ada", "Type ***", "Evaluate document.querySelector", "Take a screenshot",
		"Find #missing", "Click #buy")
	r.repeat(t, s, []string{password, code}, "  await page.goto('"+site.URL+"/shop');", scriptName, scriptPassword, `  await page.locator('#code').fill(process.env.PASSWORD_2!);`, scriptBuy)
}

// TestTrace_OfMCP records what an agent does.
func TestTrace_OfMCP(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	site, password := newShop(t), "planted-"+uuid.NewString()
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Record = sharedapi.RecordedParts{"trace"} })
	client := r.openMCP(t, cloudtest.Key)
	client.do(t, "launch_browser", map[string]any{"profileId": profile.String()})
	s := r.sessions(t)[0]
	site.record(t, r, s)
	client.do(t, "navigate", map[string]any{"url": site.URL + "/shop"})
	testenv.Eventually(t, "the snapshot of the page", site.hasSnapshot)
	client.do(t, "evaluate", map[string]any{"expression": "document.querySelector('#name').value = 'Ada'"})
	for _, ref := range []struct{ label, text string }{{"Secret", password}} {
		client.do(t, "type", map[string]any{"ref": client.ref(t, ref.label), "text": ref.text})
	}
	client.refuse(t, "click", map[string]any{"ref": "e999"}, "e999")
	buy := client.ref(t, "Buy")
	client.do(t, "click", map[string]any{"ref": buy})
	site.end(t, r, s, "Click {ref}", `"ref":"`+buy+`"`)
	r.check(t, s, []string{password}, "Navigate to "+site.URL+"/shop", "Evaluate document", "List the elements", "Type ***", "Click e999", "Click e")
	r.repeat(t, s, []string{password}, "  await page.goto('"+site.URL+"/shop');", scriptPassword, scriptBuy)
}

// TestTrace_ObservesEveryConnection evaluates an expression over each kind of connection, while nothing is recorded and while a
// trace is.
func TestTrace_ObservesEveryConnection(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	site, s := newShop(t), r.launch(t)
	_, path, _ := strings.Cut(*s.WebSocketDebuggerUrl, "/browsers/"+s.LaunchId.String())
	path, _, _ = strings.Cut(path, "?")
	target, _ := openPage(t, connectCDP(t, *s.WebSocketDebuggerUrl, nil), site.URL+"/shop")
	pageSocket := strings.Replace(*s.WebSocketDebuggerUrl, path, "/devtools/page/"+target, 1)
	connections := map[string]*cdp.Conn{
		"browser":        connectCDP(t, *s.WebSocketDebuggerUrl, http.Header{"User-Agent": {"the client of the test"}}),
		"resumable":      connectCDP(t, *s.WebSocketDebuggerUrl+"&resume=0&client=a", nil),
		"page":           connectCDP(t, pageSocket, nil),
		"resumable page": connectCDP(t, pageSocket+"&resume=0&client=b", nil),
		"port":           connectCDP(t, fmt.Sprintf("ws://127.0.0.1:%d%s", *s.DebugPort, path), nil),
		"page of port":   connectCDP(t, fmt.Sprintf("ws://127.0.0.1:%d/devtools/page/%s", *s.DebugPort, target), nil),
	}
	sessions := map[string]string{}
	for name, conn := range connections {
		if !strings.Contains(name, "page") {
			var attached struct{ SessionID string }
			if err := conn.Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &attached); err != nil {
				t.Fatal(err)
			}
			sessions[name] = attached.SessionID
		}
		evaluate(t, conn, sessions[name], "'before over the "+name+"'")
	}
	f := r.filesOf(t, s)
	f.startRecording(`["trace"]`)
	site.record(t, r, s)
	for name, conn := range connections {
		evaluate(t, conn, sessions[name], "'over the "+name+"'")
		if err := conn.Call(t.Context(), sessions[name], "Runtime.evaluate", map[string]any{"expression": strings.Repeat(" ", 100<<10)}, nil); err != nil {
			t.Fatal(err)
		}
		if err := conn.Call(t.Context(), sessions[name], "Page.navigateToHistoryEntry", map[string]any{"entryId": 99}, nil); err == nil {
			t.Error("an entry that does not exist")
		}
	}
	f.expect(200, "DELETE", "/recording", "")
	for name, conn := range connections {
		evaluate(t, conn, sessions[name], "'after over the "+name+"'")
		page := `"pageId":"page@`
		if strings.Contains(name, "page") { // a session from before the trace may have been of another page
			page += target
		}
		if found := site.lines(`"expression":"'over the `+name+`'"`, page); len(found) != 1 {
			t.Errorf("%s: %d actions", name, len(found))
		}
	}
	if got := len(site.lines(`"message":"No entry with passed id"`)); got != len(connections) {
		t.Errorf("%d errors", got)
	}
	if len(site.lines("before over")) > 0 || len(site.lines("after over")) > 0 || len(site.lines("client: the client of the test")) == 0 {
		t.Errorf("the trace is %q", site.lines())
	}
}
