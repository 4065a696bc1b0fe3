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
	env := testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, "AUTO_ENGINE=true", "PLAYWRIGHT_DIR="+playwrightDir(t))}
	svc := playwrightRun{endpoint: "ws://" + env.worker.address + "/playwright?waitSeconds=60&token=" + a.key}
	if testenv.Full() {
		browsers := playwrightBrowsers(t)
		runs := map[string]playwrightRun{
			"local": {browsers: browsers}, "run-server": {endpoint: startPlaywrightServer(t, browsers)}, "svc": svc,
		}
		for range 2 {
			for _, name := range []string{"local", "run-server", "svc"} {
				runs[name].requirePass(t, name, playwrightTests)
			}
		}
		// Both shards begin with the test that signs in.
		first, second := svc, svc
		first.shard, second.shard = "1/2", "2/2"
		first.requirePass(t, "svc, shard 1", playwrightTests/2+1)
		second.requirePass(t, "svc, shard 2", playwrightTests/2)
	} else {
		svc.requirePass(t, "svc", playwrightTests)
	}
	env.waitForSlots(t, 0, 20*time.Second)
	if left := browserProcesses(env.worker.launches); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// requirePass runs the suite, and fails the test unless the number of tests has passed.
func (r playwrightRun) requirePass(t *testing.T, name string, tests int) {
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
	if got := result.Stats; runErr != nil || err != nil || got.Expected+got.Flaky != tests || got.Unexpected+got.Skipped > 0 {
		t.Fatalf("%s: %+v, %v, %v (packages come from scripts/npm-install)\n%s", name, got, runErr, err, tail(string(text)))
	}
	t.Logf("%s: %d tests passed in %v", name, tests, took.Round(100*time.Millisecond))
	if result.Stats.Flaky == 0 {
		return
	}
	for _, file := range []string{"trace.zip", "video.webm"} {
		if found, _ := filepath.Glob(filepath.Join(output, "*-retry1", file)); len(found) != result.Stats.Flaky {
			t.Errorf("%s: the retried tests have %d files %s, want %d", name, len(found), file, result.Stats.Flaky)
		}
	}
}

// playwrightDir returns a directory for PLAYWRIGHT_DIR, with the version of Playwright Test.
func playwrightDir(t *testing.T) string {
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
	dir := publicDir(t)
	if err := os.Symlink(module, filepath.Join(dir, content.Version)); err != nil {
		t.Fatal(err)
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
