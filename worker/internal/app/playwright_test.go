package app_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
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
	return nodeWith(t, module, args...)
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
	return site.URL + "/"
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestPlaywright_ClientHasItsFiles(t *testing.T) {
	r := startPlaywrightWorker(t)
	size := 61 << 20 // above 50 MB, which is the limit of connectOverCDP
	if testenv.Full() {
		size = 200 << 20
	}
	dir, file, large := t.TempDir(), make([]byte, 3<<20), make([]byte, size)
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
	want := map[string]any{
		"title": "Main", "back": "/", "popup": "Popup", "download": digest(file), "stream": digest(file), "upload": digest(large),
		"directory": []any{"tree/a", "tree/below/b"}, "fetch": "text of the site", "route": "text of the site changed", "trace": true, "video": "1a45dfa3",
	}
	for _, module := range r.playwrightModules(t) {
		t.Run(module.String(), func(t *testing.T) {
			var got map[string]any
			if err := json.Unmarshal(nodeWith(t, module.Dir, "testdata/playwright.cjs", r.endpoint(""), dir, playwrightSite(t, file)), &got); err != nil {
				t.Fatal(err)
			}
			delete(got, "version")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlaywright_ContextsHaveTheirOptions(t *testing.T) {
	r := startPlaywrightWorker(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("ann:pass word")) {
			w.Header().Set("Proxy-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
		}
		_, _ = fmt.Fprint(w, "through the proxy to "+r.URL.Host)
	}))
	t.Cleanup(proxy.Close)
	var got map[string]any
	if err := json.Unmarshal(node(t, "testdata/contexts.cjs", r.endpoint("&waitSeconds=20"), t.TempDir(), playwrightSite(t, []byte("file")), proxy.URL), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"credentials": "protected", "har": []any{"/protected", "/", "/file"}, "state": []any{"Ada", "session=1"}, "replayed": "protected", "refused": true,
		"path": "Path is not available when connecting remotely. Use saveAs() to save a local copy.", "parallel": "text of the site",
		"proxied": "through the proxy to site.test", "request": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sessions returns the sessions of the worker.
func (r *testWorker) sessions(t *testing.T) []workerapi.BrowserSession {
	t.Helper()
	_, text := r.call(t.Context(), t, "GET", "/sessions", "", "X-API-Key", workerKey)
	var list workerapi.BrowserSessionListResponse
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%s (%v)", text, err)
	}
	return list.Data.Items
}

// Each connection has its own browser, which ends with browser.close() or when the socket is lost.
func TestPlaywright_EndsWithItsConnection(t *testing.T) {
	r := startPlaywrightWorker(t)
	if got := strings.TrimSpace(string(node(t, "testdata/sessions.cjs", r.endpoint("&waitSeconds=20")))); got != `["first",0,"second"]` {
		t.Errorf("got %s", got)
	}
	_, version := playwrightModule(t)
	agent := http.Header{"User-Agent": {"Playwright/" + version + " (x64; debian 12) node/20.20"}}
	if status, body := r.upgrade(t, "/playwright?waitSeconds=20&token="+callersKey, agent); status != http.StatusSwitchingProtocols {
		t.Errorf("a socket without messages: %d %s", status, body)
	}
	testenv.Eventually(t, "all sessions have ended", func() bool {
		all := r.sessions(t)
		return len(all) == 3 && !slices.ContainsFunc(all, func(s workerapi.BrowserSession) bool { return s.EndedAt == nil })
	})
	for _, s := range r.sessions(t) {
		if s.EndReason == nil || string(*s.EndReason) != string(session.ClientClose) {
			t.Errorf("session %+v", s)
		}
	}
}

func TestPlaywright_StartsNoOtherProgram(t *testing.T) {
	r := startPlaywrightWorker(t)
	var answers map[string]string
	if err := json.Unmarshal(node(t, "testdata/hostile.cjs", r.endpoint(""), "/usr/bin/touch"), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) < 7 {
		t.Errorf("tried only %v", answers)
	}
	for name, answer := range answers {
		// Servers before 1.65 look for adb on their own loopback, and end because there is none.
		isEnd := name == "android.devices" && answer == string(session.Crash)
		if !isEnd && !strings.Contains(answer, "not allowed") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

func TestPlaywright_RefusesBeforeUpgrade(t *testing.T) {
	r := startPlaywrightWorker(t)
	_, version := playwrightModule(t)
	agent := "Playwright/" + version + " (x64; debian 12) node/20.20"
	for name, tc := range map[string]struct {
		query   string
		headers []string
		status  int
		words   []string
	}{
		"no key":              {"", []string{"User-Agent", agent}, http.StatusUnauthorized, nil},
		"wrong key":           {"?token=svc_unknownunknownunknownunknownunkn", []string{"User-Agent", agent}, http.StatusUnauthorized, nil},
		"unknown parameter":   {"?token=" + callersKey + "&stealth=1", []string{"User-Agent", agent}, http.StatusBadRequest, []string{`"field":"stealth"`}},
		"other version":       {"?token=" + callersKey, []string{"User-Agent", "Playwright/1.2.0 (x64)"}, http.StatusPreconditionRequired, []string{"Playwright version mismatch", "client version: v1.2", "svc-worker playwright install 1.2"}},
		"other browser":       {"?token=" + callersKey, []string{"User-Agent", agent, "x-playwright-browser", "firefox"}, http.StatusBadRequest, []string{`"field":"x-playwright-browser"`}},
		"network of a client": {"?token=" + callersKey, []string{"User-Agent", agent, "x-playwright-proxy", "*"}, http.StatusBadRequest, []string{"exposeNetwork"}},
		"launch options": {
			"?token=" + callersKey,
			[]string{"User-Agent", agent, "x-playwright-launch-options", `{"executablePath":"/bin/sh","env":{"A":"b"},"ignoreDefaultArgs":true,"channel":"msedge","handleSIGINT":false,"headless":true}`},
			http.StatusBadRequest,
			[]string{`launch-options.executablePath"`, `launch-options.env"`, `launch-options.ignoreDefaultArgs"`, `launch-options.channel"`},
		},
		"proxy": {
			"?token=" + callersKey, []string{"User-Agent", agent, "x-playwright-launch-options", `{"proxy":{"server":"ftp://127.0.0.1:9"}}`},
			http.StatusBadRequest, []string{`"field":"x-playwright-launch-options.proxy`},
		},
		"switch": {
			"?token=" + callersKey, []string{"User-Agent", agent, "x-playwright-launch-options", `{"args":["--no-sandbox","--remote-debugging-port=1"]}`},
			http.StatusBadRequest, []string{`"field":"x-playwright-launch-options.args`},
		},
	} {
		ctx := contracttest.AllowInvalidRequest(t.Context())
		status, text := r.call(ctx, t, "GET", "/playwright"+tc.query, "", append(tc.headers, handshake...)...)
		if status != tc.status {
			t.Errorf("%s: %d %s", name, status, text)
		}
		for _, word := range tc.words {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s: %s, want %q", name, text, word)
			}
		}
	}
	if all := r.sessions(t); len(all) > 0 {
		t.Errorf("%d sessions were started", len(all))
	}
}

// A session can reach its maximum duration before Playwright's server accepts connections.
func TestPlaywright_NamesEndDuringStart(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	dir := testenv.PublicTempDir(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.PlaywrightDir = dir })
	if err := os.Mkdir(filepath.Join(dir, "1.65.1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"package.json": `{"name":"playwright-core","version":"1.65.1"}`, "index.js": `setInterval(() => {}, 1000); exports.chromium = { launchServer: () => new Promise(() => {}) };`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "1.65.1", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, text := r.call(t.Context(), t, "GET", "/playwright?timeout=1&token="+callersKey, "", handshake...)
	if status != http.StatusConflict || !strings.Contains(string(text), string(session.MaxDuration)) {
		t.Errorf("got %d %s", status, text)
	}
}

func TestPlaywright_IsOptional(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	r := startTestWorker(t, fake)
	status, text := r.call(t.Context(), t, "GET", "/playwright?token="+callersKey, "", append([]string{"User-Agent", "Playwright/1.65.1"}, handshake...)...)
	if status != http.StatusNotImplemented || !strings.Contains(string(text), "svc-worker playwright install") {
		t.Errorf("got %d %s", status, text)
	}
}
