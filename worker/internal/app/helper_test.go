package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const workerKey = "wrk-key-of-these-tests"

// testWorker is a worker and its fake cloud.
type testWorker struct {
	config  app.Config
	cloud   *cloudtest.Cloud
	url     string
	version int // of the installed browser
	client  *http.Client
	log     *testenv.Log
	secrets []string // that must not be logged

	cancel  context.CancelFunc
	stopped chan error
}

// newTestWorker returns a worker that is not started.
func newTestWorker(t *testing.T, fake *cloudtest.Cloud, change ...func(*app.Config)) *testWorker {
	t.Helper()
	document := contracttest.Load(t, "worker.yaml")
	port := testenv.FreePort(t)
	r := &testWorker{
		cloud: fake, url: fmt.Sprintf("http://127.0.0.1:%d", port), log: &testenv.Log{}, client: contracttest.New(t, document, nil),
		secrets: []string{workerKey, cloudtest.Key}, stopped: make(chan error, 1),
	}
	r.config = app.Config{
		Host: "127.0.0.1", Port: port, CloudURL: fake.URL, OrganizationKey: cloudtest.Key, WorkerKey: workerKey, DataDir: testenv.PublicTempDir(t),
		DeniedHosts: "default", AllowedHosts: "127.0.0.0/8,[::1]", // where the tests' sites are
		SaveTimeout: 25 * time.Second,
		AutoEngine:  !testenv.Full(), // complete browsers take three times as long
	}
	for _, apply := range change {
		apply(&r.config)
	}
	return r
}

// withCompleteBrowsers is for tests that depend on complete browsers.
func withCompleteBrowsers(c *app.Config) { c.AutoEngine = false }

// startTestWorker runs a worker until the test ends, then checks for leaked resources.
func startTestWorker(t *testing.T, fake *cloudtest.Cloud, change ...func(*app.Config)) *testWorker {
	t.Helper()
	r := newTestWorker(t, fake, change...)
	r.version = installed(t)
	r.start(t)
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.assertNoLeftovers(t)
		r.assertNoSecretLogged(t)
		if t.Failed() {
			for line := range strings.Lines(r.log.String()) {
				if !strings.Contains(line, "level=DEBUG") {
					t.Log(strings.TrimSpace(line))
				}
			}
		}
	})
	return r
}

// start starts the worker and waits until it answers.
func (r *testWorker) start(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	logger := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() { r.stopped <- app.Serve(ctx, r.config, logger) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-r.stopped:
			r.cancel()
			r.cancel = nil
			t.Fatalf("the worker ended: %v\n%s", err, r.log)
		default:
		}
		answer, err := http.Get(r.url + "/health")
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the worker did not become reachable: %v\n%s", err, r.log)
		}
	}
}

// stop shuts the worker down; it may be called again.
func (r *testWorker) stop() error {
	if r.cancel == nil {
		return nil
	}
	r.cancel()
	r.cancel = nil
	return <-r.stopped
}

// call sends a request with headers as name, value, ...; an empty body sends none.
func (r *testWorker) call(ctx context.Context, t *testing.T, method, path, body string, headers ...string) (status int, text []byte) {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols { // the connection stays open
		return answer.StatusCode, nil
	}
	if text, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

// session sends a request with the worker key and returns the session of the answer.
func (r *testWorker) session(t *testing.T, method, path, body string, headers ...string) workerapi.BrowserSession {
	t.Helper()
	status, text := r.call(t.Context(), t, method, path, body, append(headers, "X-API-Key", workerKey)...)
	var got workerapi.BrowserSessionResponse
	if err := json.Unmarshal(text, &got); err != nil || status >= 300 {
		t.Fatalf("%s %s: got %d %s (%v)", method, path, status, text, err)
	}
	if got.Data.ViewUrl != nil {
		_, token, _ := strings.Cut(*got.Data.ViewUrl, "?ct=")
		r.secrets = append(r.secrets, token)
	}
	return got.Data
}

func (r *testWorker) launch(t *testing.T) workerapi.BrowserSession {
	t.Helper()
	return r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(r.version)))
}

// assertNoLeftovers fails if processes or launch directories are left.
func (r *testWorker) assertNoLeftovers(t *testing.T) {
	t.Helper()
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte(r.config.DataDir+"/")) {
			t.Errorf("leaked process: %s", file)
		}
	}
	directories, _ := filepath.Glob(filepath.Join(r.config.DataDir, "launches", "*-*"))
	if len(directories) > 0 {
		t.Errorf("leaked directories: %v", directories)
	}
}

func (r *testWorker) assertNoSecretLogged(t *testing.T) {
	t.Helper()
	log := r.log.String()
	for _, secret := range r.secrets {
		if secret != "" && strings.Contains(log, secret) {
			t.Errorf("the log contains the secret %.12s...", secret)
		}
	}
	if !strings.Contains(log, "route=/health") {
		t.Error("the access log is empty")
	}
}

func installed(t *testing.T) int {
	t.Helper()
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed; these tests need one (%v)", err)
	}
	return found[0].Major
}

type failure struct {
	Success bool `json:"success"`
	Error   struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Field, Code, Message string
			Received             any
			Constraint           map[string]any
		} `json:"details"`
	} `json:"error"`
}

func decode[T any](t *testing.T, text []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}
