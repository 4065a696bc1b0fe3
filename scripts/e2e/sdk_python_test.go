package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// maxLines is the number of lines of the first example of the SDK.
const maxLines = 12

// pythonSDK is the wheel of the Python SDK, installed.
type pythonSDK struct {
	python string // the interpreter
	wheel  int64  // bytes
}

// installPythonSDK builds the wheel and installs it into an empty environment. The
// packages that it needs are those of bin/clients-sdk; pip checks that they are enough.
func installPythonSDK(t *testing.T) pythonSDK {
	t.Helper()
	installClients(t, "sdk")
	dir := t.TempDir()
	packages, err := filepath.Abs(filepath.Join(root, "bin", "clients-sdk"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string, args ...string) {
		cmd := exec.CommandContext(t.Context(), command, args...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(packages, "bin")+":"+os.Getenv("PATH"), "PIP_NO_BUILD_ISOLATION=false") // false: no isolation
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", command, args, err, out)
		}
	}
	run(filepath.Join(root, "openapi", "sdk", "python", "pack"), dir)
	wheels, err := filepath.Glob(filepath.Join(dir, "browser_svc-*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels %v, %v", wheels, err)
	}
	wheel, err := os.Stat(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	s := pythonSDK{python: filepath.Join(dir, "venv", "bin", "python"), wheel: wheel.Size()}
	run("python3", "-m", "venv", "--without-pip", filepath.Join(dir, "venv"))
	libraries, err := filepath.Glob(filepath.Join(dir, "venv", "lib", "python*", "site-packages"))
	installed, err2 := filepath.Glob(filepath.Join(packages, "lib", "python*", "site-packages"))
	if err != nil || err2 != nil || len(libraries) != 1 || len(installed) != 1 {
		t.Fatalf("site-packages %v, %v", libraries, installed)
	}
	if err := os.WriteFile(filepath.Join(libraries[0], "packages.pth"), []byte(installed[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	run("pip", "--quiet", "--disable-pip-version-check", "--python", s.python, "install", "--no-index", wheels[0]+"[playwright,selenium]")
	return s
}

// shop is a site with a form. The first click on its link cuts all connections of the
// clients while the browser waits for the answer of the site.
type shop struct {
	cut func()

	mu       sync.Mutex
	clicks   int
	uploaded []string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		_, _ = fmt.Fprint(w, `<title>Shop</title><script>console.log("the shop is open")</script>
			<input type=file onchange="fetch('/upload', {method: 'POST', body: this.files[0]})">
			<a href=/report onclick="let call = new XMLHttpRequest(); call.open('POST', '/clicked', false); call.send()">Report</a>`)
	case "/upload":
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.uploaded = append(s.uploaded, string(text))
		s.mu.Unlock()
	case "/clicked":
		s.mu.Lock()
		s.clicks++
		first := s.clicks == 1
		s.mu.Unlock()
		if first {
			s.cut()
		}
	case "/report":
		w.Header().Set("Content-Disposition", "attachment; filename=report.csv")
		_, _ = fmt.Fprint(w, "sold,2\n")
	default:
		http.NotFound(w, r)
	}
}

// breakableSocket is a Unix socket whose connections can be cut.
type breakableSocket struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (s *breakableSocket) serve(conn net.Conn, address string) {
	s.mu.Lock()
	s.conns[conn] = true
	s.mu.Unlock()
	splice(conn, address)
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

func (s *breakableSocket) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range maps.Clone(s.conns) {
		_ = conn.Close()
	}
}

// completeHandovers is the person who completes all handovers, until ctx ends.
func (w *worker) completeHandovers(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		list, err := w.api.ListBrowserSessionsWithResponse(ctx, nil)
		if err == nil && list.JSON200 != nil {
			for _, session := range list.JSON200.Data.Items {
				if session.Handover != nil {
					w.completeHandover(ctx, t, session.LaunchId.String())
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *worker) completeHandover(ctx context.Context, t *testing.T, launch string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/browsers/"+launch+"/handover/done", bytes.NewReader(nil))
	if err != nil {
		t.Error(err)
		return
	}
	answer, err := contractClient(t, workerDocument, "X-API-Key", w.key).Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// TestSDK_Python uses the wheel like on another machine.
func TestSDK_Python(t *testing.T) {
	t.Parallel()
	sdk := installPythonSDK(t)
	unit := exec.CommandContext(t.Context(), sdk.python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", filepath.Join(root, "openapi", "sdk", "python", "tests"))
	if out, err := unit.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", unit.Args, err, out)
	}
	t.Run("examples of the README", sdk.runExamples)
	t.Run("loses no message across cuts", sdk.resumeAcrossCuts)
}

// examples is what the examples of the README did.
type examples struct {
	First    map[string]any `json:"first"`
	Selenium string         `json:"selenium"`
	Async    string         `json:"async"`
	Session  map[string]any `json:"session"`
	Pytest   map[string]any `json:"pytest"`
	Models   []any          `json:"models"`
	Import   int            `json:"import"`
}

// runExamples runs the examples of the README in another network namespace, and that for
// the cloud in this one.
func (s pythonSDK) runExamples(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	a, port := c.signUp(t), freePort(t)
	a.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 4)
	host := net.JoinHostPort(namespaceHost, port)
	// WORKER_ID is in the URLs that the worker returns.
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, completeBrowsers, "PUBLIC_URL=http://"+host, "WORKER_ID="+namespaceWorker, "FILES_RETENTION=1h")}
	socket := &breakableSocket{conns: map[net.Conn]bool{}}
	visited := &shop{cut: socket.cut}
	site := httptest.NewServer(visited)
	t.Cleanup(site.Close)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { env.worker.completeHandovers(ctx, t) })
	defer running.Wait()
	defer cancel()
	outside := namespace{buildGoClient(t), host, serveSocket(t, func(conn net.Conn) { socket.serve(conn, env.worker.address) })}
	readme, err := filepath.Abs(filepath.Join(root, "openapi", "sdk", "python", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	input := map[string]any{
		"readme": readme, "worker": "http://" + host, "key": env.worker.key, "site": site.URL, "directory": t.TempDir(), "version": env.worker.newestVersion(t),
		"environment": map[string]string{
			"SVC_WORKER": "http://" + host, "SVC_API_KEY": env.worker.key, "SVC_CLOUD_URL": c.url, "SVC_TOKEN": a.token, "SVC_ORGANIZATION_KEY": a.key,
		},
	}
	var got examples
	began := time.Now()
	if err := outside.runFor(t, 2*time.Minute, input, &got, s.python, "clients/sdk/scenario.py", "worker"); err != nil {
		t.Fatal(withoutKey(err, env.worker.key))
	}
	t.Logf("the wheel has %d bytes, the first example %v lines; the import takes %d ms, the examples %s", s.wheel, got.First["lines"], got.Import, time.Since(began).Round(time.Second))
	got.check(t)
	visited.mu.Lock()
	clicks, uploaded := visited.clicks, strings.Join(visited.uploaded, "")
	visited.mu.Unlock()
	if clicks != 2 || uploaded != "2,teapot\n2,teapot\n" { // of Playwright and of Selenium
		t.Errorf("the site got %d clicks, want 2, and the uploads %q", clicks, uploaded)
	}
	env.waitForSlots(t, 0, 20*time.Second)
	s.useCloud(t, input)
}

// check fails the test if an example did not do what it says.
func (e examples) check(t *testing.T) {
	t.Helper()
	if lines, _ := e.First["lines"].(float64); lines > maxLines {
		t.Errorf("the first example has %v lines, want %d at most", lines, maxLines)
	}
	delete(e.First, "lines")
	want := map[string]any{"report": "sold,2\n", "video": "1a45dfa3", "resumed": true, "link": true, "end": "killed"}
	if diff := cmp.Diff(want, e.First); diff != "" {
		t.Errorf("the first example (-want +got):\n%s", diff)
	}
	if e.Selenium != "sold,2\n" || !strings.Contains(e.Async, "the shop is open") {
		t.Errorf("Selenium saved %q, the example for asyncio printed %q", e.Selenium, e.Async)
	}
	want = map[string]any{
		"path": true, "files": []any{[]any{"order.csv", "upload"}}, "listed": []any{"checks"}, "cookies": []any{}, "changed": "changed",
		"detail": []any{"spec.locale"}, "events": "recording_started", "log": "the shop is open", "last": 0.0, "driver": "The browser has no chromedriver: launch it with webdriver=True.",
		"refused": map[string]any{
			"unknown": []any{"RESOURCE_NOT_FOUND", 404.0, true}, "invalid": []any{"VALIDATION_ERROR", 400.0, true},
			"key": []any{"AUTHENTICATION_ERROR", 401.0, true}, "down": []any{"", 0.0, false},
		},
	}
	if diff := cmp.Diff(want, e.Session); diff != "" {
		t.Errorf("a session (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"counts": []any{"2 failed", "2 passed"}, "browsers": 2.0, "links": true, "output": ""}, e.Pytest); diff != "" {
		t.Errorf("pytest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{4.0, []any{}}, e.Models); diff != "" {
		t.Errorf("models of the worker's document (-want +got):\n%s", diff)
	}
}

// useCloud runs the example for the cloud.
func (s pythonSDK) useCloud(t *testing.T, input map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	var got struct {
		Printed string `json:"printed"`
		Models  []any  `json:"models"`
	}
	if err := runClient(exec.CommandContext(ctx, s.python, "clients/sdk/scenario.py", "cloud"), input, &got); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Fields(got.Printed); !strings.Contains(got.Printed, "name='Shop'") || lines[len(lines)-1] != "0" {
		t.Errorf("the example for the cloud printed %q", got.Printed)
	}
	if diff := cmp.Diff([]any{3.0, []any{}}, got.Models); diff != "" {
		t.Errorf("models of the cloud's document (-want +got):\n%s", diff)
	}
}

// resumeAcrossCuts keeps a page busy over a connection that is cut.
func (s pythonSDK) resumeAcrossCuts(t *testing.T) {
	t.Parallel()
	env, enough := newTestEnv(t), int64(resumeCuts())
	session := env.worker.launch(t, env.newLaunchRequest(t, true))
	proxy := newCuttingProxy(t, env.worker.address)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"enough": %t}`, proxy.cuts.Load() >= enough)
	}))
	defer control.Close()
	socket, err := url.Parse(*session.WebSocketDebuggerUrl)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout+time.Duration(enough)*time.Second)
	defer cancel()
	var got struct{ Answers, WrongAnswers, Count, Events, WrongEvents, Sent, Large, Resumed int64 }
	err = runClient(exec.CommandContext(ctx, s.python, "clients/sdk/resume.py"), map[string]any{
		"target": "ws://" + proxy.Addr().String() + socket.Path, "browser": env.worker.url + "/browsers/" + session.LaunchId.String(),
		"worker": env.worker.url, "key": env.worker.key, "control": control.URL,
	}, &got)
	if err != nil {
		t.Fatal(withoutKey(err, env.worker.key))
	}
	t.Logf("%d cuts, of which %d hung: %+v", proxy.cuts.Load(), proxy.hung.Load(), got)
	if got.WrongAnswers != 0 || got.Answers != got.Count || got.Answers == 0 || got.WrongEvents != 0 || got.Events != got.Sent || got.Events == 0 {
		t.Errorf("messages were lost or repeated: %+v", got)
	}
	if got.Resumed == 0 {
		t.Error("the client has not resumed")
	}
}
