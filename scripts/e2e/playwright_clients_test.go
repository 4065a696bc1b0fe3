package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

// The versions of Playwright in clients/full/requirements.txt and clients/java/pom.xml.
const pythonPlaywright, javaPlaywright = "1.65", "1.62"

// playwrightVersions returns the versions of the clients of this run, in addition to that of
// Node.js.
func playwrightVersions() []string {
	if testenv.Full() {
		return []string{pythonPlaywright, javaPlaywright}
	}
	return nil
}

// TestPlaywright_ClientsOfOtherLanguages uses files, videos, traces and the other features of
// Playwright in Python and Java, like on another machine. The clients are those of the full
// depth. In worker/internal/app, clients for Node.js of several versions do the same.
func TestPlaywright_ClientsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		return
	}
	installClients(t)
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	a, port := c.signUp(t), freePort(t)
	a.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 8)
	host := namespaceHost + ":" + port
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, completeBrowsers, "WORKER_ID="+namespaceWorker)}
	versions := env.worker.installPlaywright(t, playwrightVersions()...)
	outside := namespace{buildGoClient(t), host, forwardSocket(t, env.worker.address)}
	for name, command := range map[string][]string{
		"Python": {filepath.Join(root, "bin", "clients", "bin", "python"), "clients/full/playwright_features.py"},
		"Java":   javaPlaywrightCommand(t, versions),
	} {
		t.Run(name, func(t *testing.T) {
			const size = 200 << 20
			site, dir := servePlaywrightSite(t), clientFiles(t, size)
			var got map[string]any
			err := outside.runFor(t, 3*time.Minute, map[string]any{
				"endpoint": "ws://" + host + "/w/" + namespaceWorker + "/playwright?waitSeconds=60&token=" + a.key, "site": site, "directory": dir,
			}, &got, command...)
			if err != nil {
				t.Fatal(withoutKey(err, a.key))
			}
			want := map[string]any{
				"title": "Main", "popup": "Popup", "download": "a report", "upload": float64(size), "directory": []any{"tree/a", "tree/below/b"},
				"route": "text of the site changed", "request": "text of the site", "credentials": "protected", "trace": true, "video": "1a45dfa3",
				"har": true, "state": "Ada", "browsers": 4.0,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			env.waitForSlots(t, 0, 20*time.Second)
		})
	}
}

// javaPlaywrightCommand returns the command of the Java client. Its driver is a version of
// playwright-core for the worker, so that Maven does not download one for all systems.
func javaPlaywrightCommand(t *testing.T, versions string) []string {
	t.Helper()
	driver := t.TempDir()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(versions, javaPlaywright+".*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("versions %v, %v", found, err)
	}
	for name, target := range map[string]string{"node": node, "package": found[0]} {
		if err := os.Symlink(target, filepath.Join(driver, name)); err != nil {
			t.Fatal(err)
		}
	}
	command := javaCommand("playwright")
	return append([]string{command[0], "-Dplaywright.cli.dir=" + driver}, command[1:]...)
}

// clientFiles returns a directory with a file of the size, large, and a directory, tree.
func clientFiles(t *testing.T, size int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"large", "tree/a", "tree/below/b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "large"), size); err != nil {
		t.Fatal(err)
	}
	return dir
}

// servePlaywrightSite serves the site of the clients.
func servePlaywrightSite(t *testing.T) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = fmt.Fprint(w, `<title>Main</title><a id=popup target=_blank href=/popup>p</a><a id=download href=/report>d</a><input type=file id=file><input type=file id=directory webkitdirectory>`)
		case "/popup":
			_, _ = fmt.Fprint(w, `<title>Popup</title>`)
		case "/report":
			w.Header().Set("Content-Disposition", "attachment; filename=report.txt")
			_, _ = fmt.Fprint(w, "a report")
		case "/protected":
			if _, password, _ := r.BasicAuth(); password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = fmt.Fprint(w, "protected")
		case "/text":
			_, _ = fmt.Fprint(w, "text of the site")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	return site.URL
}
