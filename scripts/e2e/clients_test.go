package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
)

// clientTimeout limits the run of a client.
const clientTimeout = 60 * time.Second

// runScript runs a script of clients/ with JSON input and decodes its output to into.
func runScript(t *testing.T, script string, input, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	if err := runClient(exec.CommandContext(ctx, "node", "clients/"+script+".mjs"), input, into); err != nil {
		t.Fatal(err)
	}
}

// runClient runs a client with JSON input and decodes its output. Temporary files of the
// client are removed.
func runClient(cmd *exec.Cmd, input, into any) error {
	text, err := json.Marshal(input)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "svc-e2e-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir)
	var pageError bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &pageError
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %v (Node's packages come from scripts/npm-install): %w\n%s", cmd.Path, cmd.Args[1:], err, pageError.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("%s %v printed %q: %w\n%s", cmd.Path, cmd.Args[1:], out, err, pageError.String())
	}
	return nil
}

// visit is the result of visiting the test page with a client.
type visit struct {
	Title      string `json:"title"`
	Value      int    `json:"value"`
	Version    string `json:"version"`
	Screenshot int    `json:"screenshot"` // bytes
}

// matches reports whether the visit was to the test's page in that browser.
func (v visit) matches(s workerapi.BrowserSession) bool {
	return v.Title == pageTitle && v.Value == 42 && v.Screenshot > 1000 && strings.Contains(v.Version, fmt.Sprintf("%d.", s.BrowserVersion))
}

const pageTitle = "A page of the test"

// servePage serves a page, and the request headers at /headers.
func servePage(t *testing.T) string {
	t.Helper()
	return servePageOn(t, httptest.NewServer)
}

// servePageOn serves the page with or without TLS.
func servePageOn(t *testing.T, start func(http.Handler) *httptest.Server) string {
	t.Helper()
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(r.Header)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>%s</title><p>%[1]s</p>", pageTitle)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// assertDrivable fails the test unless puppeteer can drive the browser.
func assertDrivable(t *testing.T, s workerapi.BrowserSession, page string) {
	t.Helper()
	var result visit
	runScript(t, "puppeteer", map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": page, "expression": "6 * 7"}, &result)
	if !result.matches(s) {
		t.Errorf("puppeteer saw %+v in Chromium %d", result, s.BrowserVersion)
	}
}
