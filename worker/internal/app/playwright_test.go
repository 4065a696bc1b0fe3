package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// playwrightModule returns the directory of the playwright-core that scripts/npm-install has
// installed, and its version.
func playwrightModule(t *testing.T) (dir, version string) {
	t.Helper()
	dir, err := filepath.Abs("../../../scripts/node_modules/playwright-core")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal("playwright-core is missing; run scripts/npm-install: ", err)
	}
	var content struct{ Version string }
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	return dir, content.Version
}

// withPlaywright gives a worker the version of playwrightModule.
func withPlaywright(t *testing.T) func(*app.Config) {
	t.Helper()
	module, version := playwrightModule(t)
	return func(c *app.Config) {
		c.PlaywrightDir = testenv.PublicTempDir(t)
		if err := os.Symlink(module, filepath.Join(c.PlaywrightDir, version)); err != nil {
			t.Fatal(err)
		}
	}
}

// startPlaywrightWorker starts a worker with playwright-core.
func startPlaywrightWorker(t *testing.T) *testWorker {
	t.Helper()
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	return startTestWorker(t, fake, withPlaywright(t), withCompleteBrowsers)
}

// endpoint returns the address for a client.
func (r *testWorker) endpoint(query string) string {
	return "ws" + strings.TrimPrefix(r.url, "http") + "/playwright?token=" + callersKey + query
}

// node runs a script with playwright-core and returns what it prints.
func node(t *testing.T, args ...string) []byte {
	t.Helper()
	module, _ := playwrightModule(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{args[0], module}, args[1:]...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes()
}

// playwrightSite serves the page of testdata/playwright.cjs.
func playwrightSite(t *testing.T, file []byte) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = fmt.Fprint(w, `<title>Main</title><a id=popup target=_blank href=/popup>p</a><a id=download href=/file>d</a><input type=file id=file><input type=file id=directory webkitdirectory>`)
		case "/popup":
			_, _ = fmt.Fprint(w, `<title>Popup</title>`)
		case "/file":
			w.Header().Set("Content-Disposition", "attachment; filename=report.bin")
			_, _ = w.Write(file)
		case "/text":
			_, _ = fmt.Fprint(w, "text of the site")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	return site.URL + "/"
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// endedSession waits until the only session has ended.
func (r *testWorker) endedSession(t *testing.T) (ended workerapi.BrowserSession) {
	t.Helper()
	testenv.Eventually(t, "the session ends", func() bool {
		_, text := r.call(t.Context(), t, "GET", "/sessions", "", "X-API-Key", workerKey)
		var list workerapi.BrowserSessionListResponse
		if err := json.Unmarshal(text, &list); err != nil || len(list.Data.Items) != 1 {
			t.Fatalf("%s (%v)", text, err)
		}
		ended = list.Data.Items[0]
		return ended.EndedAt != nil
	})
	return ended
}

func TestPlaywright_ClientHasItsFiles(t *testing.T) {
	r := startPlaywrightWorker(t)
	dir, file, large := t.TempDir(), make([]byte, 3<<20), make([]byte, 61<<20)
	_, _ = rand.Read(file)
	_, _ = rand.Read(large)
	for name, content := range map[string][]byte{"large": large, "tree/a": []byte("a"), "tree/below/b": []byte("b")} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(node(t, "testdata/playwright.cjs", r.endpoint(""), dir, playwrightSite(t, file)), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "version")
	want := map[string]any{
		"title": "Main", "popup": "Popup", "download": digest(file), "stream": digest(file), "upload": digest(large),
		"directory": []any{"tree/a", "tree/below/b"}, "fetch": "text of the site", "route": "text of the site changed", "trace": true, "video": "1a45dfa3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ended := r.endedSession(t); ended.EndReason == nil || string(*ended.EndReason) != string(session.ClientClose) {
		t.Errorf("after browser.close() the session is %+v", ended)
	}
}
