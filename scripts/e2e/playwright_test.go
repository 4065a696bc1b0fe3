package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	playwrightSuite   = "clients/playwright-test"
	playwrightTests   = 40
	playwrightWorkers = 4 // processes of the suite, each with a browser
)

// playwrightRun is a run of the suite of Playwright Test.
type playwrightRun struct {
	endpoint string // of the browsers, for connectOptions; "" for browsers of this machine
	browsers string // directory with the browsers of this machine
	shard    string // such as "1/2"; "" for all tests
}

// playwrightStats are the numbers of tests of a run. Flaky tests have passed when they were
// retried.
type playwrightStats struct{ Expected, Unexpected, Flaky, Skipped int }

// TestPlaywrightTest_PassesWithAnEndpoint runs a suite of Playwright Test with the worker's
// endpoint in its configuration. The full run also has it in two shards, and, in turn with
// runs on this machine and on Playwright's own server, prints how long each takes.
func TestPlaywrightTest_PassesWithAnEndpoint(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	a := c.signUp(t)
	a.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 2*playwrightWorkers)
	env := testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, "AUTO_ENGINE=true", "WARM_POOL=2")}
	env.worker.installPlaywright(t)
	svc := playwrightRun{endpoint: "ws://" + env.worker.address + "/playwright?waitSeconds=60&token=" + a.key}
	if testenv.Full() {
		browsers := playwrightBrowsers(t)
		runs := map[string]playwrightRun{
			"local": {browsers: browsers}, "run-server": {endpoint: startPlaywrightServer(t, browsers)}, "svc": svc,
		}
		for range 2 {
			for _, name := range []string{"local", "run-server", "svc"} {
				runs[name].requireAll(t, name)
			}
		}
		first, second := svc, svc
		first.shard, second.shard = "1/2", "2/2"
		if passed := first.run(t, "svc, shard 1") + second.run(t, "svc, shard 2"); passed != playwrightTests {
			t.Errorf("the shards have %d tests", passed)
		}
	} else {
		svc.requireAll(t, "svc")
	}
	env.waitForSlots(t, 0, 20*time.Second)
}

// requireAll runs the suite, and fails the test unless all of its tests have passed.
func (r playwrightRun) requireAll(t *testing.T, name string) {
	t.Helper()
	if passed := r.run(t, name); passed != playwrightTests {
		t.Fatalf("%s: %d tests passed", name, passed)
	}
}

// run runs the suite, prints how long it takes, and returns the number of tests. It fails the
// test unless all have passed.
func (r playwrightRun) run(t *testing.T, name string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	dir := t.TempDir()
	output, report := filepath.Join(dir, "output"), filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, "node", "../node_modules/@playwright/test/cli.js", "test", "--config", playwrightSuite, "--reporter", "list,json")
	if r.shard != "" {
		cmd.Args = append(cmd.Args, "--shard", r.shard)
	}
	cmd.Env = append(os.Environ(), "SUITE_PORT="+freePort(t), "SUITE_ENDPOINT="+r.endpoint, "SUITE_OUTPUT="+output,
		"PLAYWRIGHT_BROWSERS_PATH="+r.browsers, "PLAYWRIGHT_JSON_OUTPUT_FILE="+report)
	began := time.Now()
	text, runErr := cmd.CombinedOutput()
	took := time.Since(began)
	var result struct{ Stats playwrightStats }
	raw, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	stats := result.Stats
	if runErr != nil || err != nil || stats.Unexpected+stats.Skipped > 0 {
		t.Fatalf("%s: %+v, %v, %v (packages come from scripts/npm-install)\n%s", name, stats, runErr, err, tail(string(text)))
	}
	passed := stats.Expected + stats.Flaky
	t.Logf("%s: %d tests passed in %v", name, passed, took.Round(100*time.Millisecond))
	for _, file := range []string{"trace.zip", "video.webm"} {
		if found, _ := filepath.Glob(filepath.Join(output, "*-retry1", file)); len(found) != stats.Flaky {
			t.Errorf("%s: the retried tests have %d files %s, want %d", name, len(found), file, stats.Flaky)
		}
	}
	return passed
}

// installPlaywright installs the version of Playwright Test for the worker, and versions from
// the npm registry. It returns the directory with all of them.
func (w *worker) installPlaywright(t *testing.T, versions ...string) string {
	t.Helper()
	module, err := filepath.Abs("../node_modules/playwright-core")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(module, "package.json"))
	if err != nil {
		t.Fatal("playwright-core is missing; run scripts/npm-install: ", err)
	}
	var content struct{ Version string }
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(w.dir, "data")
	dir := filepath.Join(data, "playwright")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(module, filepath.Join(dir, content.Version)); err != nil {
		t.Fatal(err)
	}
	if len(versions) == 0 {
		return dir
	}
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "svc-worker"), append([]string{"playwright", "install"}, versions...)...)
	cmd.Env = append(os.Environ(), "DATA_DIR="+data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("svc-worker playwright install: %v: %s", err, out)
	}
	return dir
}

// playwrightBrowsers returns a directory with the browsers of this machine for
// PLAYWRIGHT_BROWSERS_PATH.
func playwrightBrowsers(t *testing.T) string {
	t.Helper()
	dir := publicDir(t)
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", playwrightSuite+"/browsers.mjs", dir, "/usr/lib/chromium/chromium", "/usr/lib/chromium/chromium-headless-shell", ffmpeg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// startPlaywrightServer starts Playwright's own server, and returns its endpoint.
func startPlaywrightServer(t *testing.T, browsers string) string {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command("node", "../node_modules/playwright-core/cli.js", "run-server", "--host", "127.0.0.1", "--port", port)
	server := startCommand(t, cmd, filepath.Join(t.TempDir(), "server.log"), "PLAYWRIGHT_BROWSERS_PATH="+browsers)
	t.Cleanup(server.kill)
	server.waitReady(t, fmt.Sprintf("http://%s/", address))
	return "ws://" + address + "/"
}
