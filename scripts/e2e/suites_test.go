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
}

// TestWebDriver_Suites runs test suites like on another machine. The quick run has the
// short one, with selenium-webdriver, because its packages are installed anyway.
func TestWebDriver_Suites(t *testing.T) {
	t.Parallel()
	suites := map[string]suite{"selenium-webdriver": {[]string{"node", "clients/suite.mjs"}, 5, 2}}
	if testenv.Full() {
		installClients(t)
		suites["selenium java"] = suite{javaCommand("suite"), 50, 8}
		suites["webdriverio"] = suite{[]string{"node", "clients/full/suite.mjs"}, 35, 8}
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
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, completeBrowsers, "PUBLIC_URL=http://"+host)}
	outside := namespace{buildGoClient(t), host, forwardSocket(t, env.worker.address)}
	var result suiteResult
	began := time.Now()
	err := outside.runFor(t, suiteLimit, map[string]any{
		"endpoint": "http://user:" + a.key + "@" + host + "/wd/hub", "parallel": s.parallel,
		"site": serveSite(t, httptest.NewServer), "secureSite": serveSite(t, httptest.NewTLSServer),
	}, &result, s.command...)
	if err != nil {
		t.Fatal(withoutKey(err, a.key))
	}
	t.Logf("%d tests passed in %v, with up to %d sessions", result.Passed, time.Since(began).Round(time.Second), result.Peak)
	for _, failed := range result.Failed {
		t.Error(strings.ReplaceAll(failed, a.key, "KEY"))
	}
	if result.Passed < s.tests || result.Peak < s.parallel {
		t.Errorf("%d tests passed, with up to %d sessions", result.Passed, result.Peak)
	}
	env.waitForSlots(t, 0, 20*time.Second)
	if left := browserProcesses(env.worker.launches); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// installClients installs the packages of the clients of the full depth.
func installClients(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "clients/full/install").CombinedOutput(); err != nil {
		t.Fatalf("clients/full/install: %v\n%s", err, out)
	}
}

// javaCommand returns the command of the Java suite, which clients/full/install has
// built, in a mode: "suite" for all tests, or "visit".
func javaCommand(mode string) []string {
	built := filepath.Join(root, "bin", "clients-java")
	return []string{"java", "-Xmx512m", "@" + filepath.Join(built, "arguments"), "suite.Main", mode}
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
