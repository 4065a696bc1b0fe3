package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	suiteLimit = 10 * time.Minute
	// slowAnswer is how long the slow pages of the site take. Tests do not wait for it.
	slowAnswer = 20 * time.Second
)

// suiteResult is the result of a test suite of clients/.
type suiteResult struct {
	Passed int      `json:"passed"`
	Failed []string `json:"failed"`
	Peak   int      `json:"peak"` // open sessions
}

// suite is a test suite for WebDriver.
type suite struct {
	command  []string
	tests    int // at least
	parallel int // tests at a time, each with a browser
	slots    int // sessions that the worker runs at a time, like a Grid; 0: as many as tests
}

// TestWebDriver_Suites runs test suites like on another machine. The quick run has the
// short ones: with selenium-webdriver, because its packages are installed anyway, and with
// pytest, as suites for Selenium Grid are written.
func TestWebDriver_Suites(t *testing.T) {
	t.Parallel()
	installClients(t, "grid")
	suites := map[string]suite{
		"selenium-webdriver": {command: []string{"node", "clients/suite.mjs"}, tests: 5, parallel: 2},
		"grid pytest":        {command: pytestCommand("test_grid.py"), tests: 10, parallel: 8, slots: 5},
	}
	if testenv.Full() {
		installClients(t)
		suites["grid java"] = suite{command: javaCommand("suite"), tests: 51, parallel: 8, slots: 5}
		suites["webdriverio"] = suite{command: []string{"node", "clients/full/suite.mjs"}, tests: 35, parallel: 8}
	}
	for name, s := range suites {
		t.Run(name, s.run)
	}
}

func (s suite) run(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	a, port := c.signUp(t), freePort(t)
	a.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 2*s.parallel)
	host := namespaceHost + ":" + port
	environment := []string{completeBrowsers, "PUBLIC_URL=http://" + host}
	if s.slots > 0 {
		environment = append(environment, fmt.Sprintf("MAX_SESSIONS=%d", s.slots))
	}
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, environment...)}
	key := a.key
	if s.slots > 0 {
		key = env.worker.key // sees the nodes of the status
	}
	outside := namespace{buildGoClient(t), host, forwardSocket(t, env.worker.address)}
	var result suiteResult
	began := time.Now()
	err := outside.runFor(t, suiteLimit, map[string]any{
		"endpoint": "http://user:" + key + "@" + host + "/wd/hub", "parallel": s.parallel,
		"site": serveSite(t, httptest.NewServer), "secureSite": serveSite(t, httptest.NewTLSServer),
	}, &result, s.command...)
	if err != nil {
		t.Fatal(withoutKey(err, key))
	}
	t.Logf("%d tests passed in %v, with up to %d sessions", result.Passed, time.Since(began).Round(time.Second), result.Peak)
	for _, failed := range result.Failed {
		t.Error(strings.ReplaceAll(failed, key, "KEY"))
	}
	if result.Passed < s.tests || result.Peak < s.parallel {
		t.Errorf("%d tests passed, with up to %d sessions", result.Passed, result.Peak)
	}
	env.waitForSlots(t, 0, 20*time.Second)
	if left := browserProcesses(env.worker.launches); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// installClients installs the packages of the clients of the full depth, or only those of
// the parts.
func installClients(t *testing.T, parts ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "clients/full/install", parts...).CombinedOutput(); err != nil {
		t.Fatalf("clients/full/install: %v\n%s", err, out)
	}
}

// javaCommand returns the command of the Java suite, which clients/full/install has
// built, in a mode: "suite" for all tests, "visit" or "endless".
func javaCommand(mode string) []string {
	built := filepath.Join(root, "bin", "clients-java")
	return []string{"java", "-Xmx512m", "@" + filepath.Join(built, "arguments"), "suite.Main", mode}
}

// pytestCommand returns the command of a file of the Grid suite.
func pytestCommand(file string) []string {
	return []string{filepath.Join(root, "bin", "clients-grid", "bin", "python"), "clients/grid/run.py", file}
}

// serveSite serves the pages of clients/site, and pages that need a server, with or
// without TLS.
func serveSite(t *testing.T, start func(http.Handler) *httptest.Server) string {
	t.Helper()
	slow := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(slowAnswer):
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("clients/site")))
	mux.HandleFunc("/slow", slow)
	mux.HandleFunc("/slow-image", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `<!doctype html><title>Slow image</title><img src="/slow" alt="">`)
	})
	mux.HandleFunc("/cookie", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "1", HttpOnly: true, Path: "/"})
		_, _ = fmt.Fprint(w, `<!doctype html><title>Cookie</title>`)
	})
	mux.HandleFunc("/report", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.txt"`)
		_, _ = fmt.Fprint(w, "content of the site")
	})
	mux.HandleFunc("/sent", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, `<!doctype html><title>Sent</title><pre>`)
		for name, values := range r.URL.Query() {
			_, _ = fmt.Fprintf(w, "%s=%s\n", name, strings.ReplaceAll(strings.Join(values, ","), "\r\n", `\r\n`))
		}
		_, _ = fmt.Fprint(w, `</pre>`)
	})
	server := start(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}
