package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
)

const nodeTime = 60 * time.Second

// node runs a program of clients/ with the input as JSON and reads its answer
// into into.
func node(t *testing.T, script string, input, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
	defer cancel()
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "node", "clients/"+script+".mjs")
	var complaint bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s (its packages come from scripts/npm-install): %v\n%s", script, err, complaint.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s answered %q: %v\n%s", script, out, err, complaint.String())
	}
}

// visit is what a client tells of a page.
type visit struct {
	Title   string `json:"title"`
	Value   int    `json:"value"`
	Version string `json:"version"`
}

const pageTitle = "A page of the test"

// page serves a page, and at /headers the headers of the request.
func page(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(r.Header)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>%s</title>", pageTitle)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// assertDrivable fails unless the client drives the browser.
func assertDrivable(t *testing.T, client string, s workerapi.BrowserSession, page string) {
	t.Helper()
	input := map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": page, "expression": "6 * 7"}
	if client == "selenium" {
		driver, err := exec.LookPath("chromedriver")
		if err != nil {
			t.Fatal(err)
		}
		input["debugger"], input["driver"] = fmt.Sprintf("localhost:%d", *s.DebugPort), driver
	}
	var seen visit
	node(t, client, input, &seen)
	if seen.Title != pageTitle || seen.Value != 42 || !strings.Contains(seen.Version, fmt.Sprintf("%d.", s.BrowserVersion)) {
		t.Errorf("%s saw %+v in Chromium %d", client, seen, s.BrowserVersion)
	}
}
