package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/shared/benchresult"
)

// environment is a cloud of this run with its PostgreSQL and, for browsers, an organization
// without limits, a profile, and a page to open.
type environment struct {
	dir             string
	postgres        *embedded.Server
	postgresBin     string // the directory of PostgreSQL's programs
	cloud           *program
	workers         []*worker
	build           chromium
	organizationKey string
	profile         string // the id
	page            string // the URL
	longPage        string // the URL of a page with 400 elements
	server          *http.Server
}

// newEnvironment builds the programs and starts a cloud. started says what the run starts, for the
// progress message.
func newEnvironment(ctx context.Context, started string) (_ *environment, err error) {
	benchresult.Progress("Building the programs, starting PostgreSQL and %s", started)
	dir, err := os.MkdirTemp("", "svc-bench-")
	if err != nil {
		return nil, err
	}
	e := &environment{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // browsers run as separate users
		return nil, err
	}
	for _, program := range []string{"cloud", "worker"} {
		if err := goBuild(ctx, ".", "./"+program, filepath.Join(dir, "svc-"+program)); err != nil {
			return nil, err
		}
	}
	if err := e.startPostgres(ctx); err != nil {
		return nil, err
	}
	e.cloud, err = e.start(ctx, "svc-cloud", "cloud", "DATABASE_URL="+e.postgres.DSN(), "SIGN_UP=open", "BILLING_SELF_SERVICE=true")
	return e, err
}

// newBrowserEnvironment is newEnvironment with what browsers need.
func newBrowserEnvironment(ctx context.Context, started string) (_ *environment, err error) {
	e, err := newEnvironment(ctx, started)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.build, err = findChromium(ctx); err != nil {
		return nil, err
	}
	if err := e.serve(); err != nil {
		return nil, err
	}
	return e, e.signUp(ctx)
}

// report measures the parts and publishes the report.
func (o options) report(ctx context.Context, report benchresult.Report, parts benchresult.Parts) (err error) {
	report.Command += " BENCH_WRITE=" + o.write
	if report.Rows, err = parts.Measure(ctx, o.only); err != nil {
		return err
	}
	return report.Publish(o.write)
}

// goBuild builds a program as `make build` does.
func goBuild(ctx context.Context, module, what, into string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", into, what)
	build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", what, err, out)
	}
	return nil
}

// serve serves the page that all browsers open.
func (e *environment) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return err
	}
	text := func(elements int) string {
		return "<!doctype html><title>A page</title><h1>A page</h1>" + strings.Repeat("<p>Some text for the browser to render.\n", elements)
	}
	e.page = "http://" + listener.Addr().String() + "/"
	e.longPage = e.page + "long"
	pages := map[string]string{"/": text(100), "/long": text(400)}
	e.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[r.URL.Path]
		if !found { // a favicon
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})}
	go func() { _ = e.server.Serve(listener) }()
	return nil
}

// close stops the workers, the cloud, PostgreSQL and remaining processes of the peers, and removes
// the directory.
func (e *environment) close() (err error) {
	for _, w := range e.workers {
		err = errors.Join(err, w.Stop())
	}
	if e.cloud != nil {
		err = errors.Join(err, e.cloud.Stop())
	}
	if e.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, e.postgres.Stop(ctx))
	}
	if e.server != nil {
		_ = e.server.Close()
	}
	for _, p := range processes() {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if p.pid != os.Getpid() && strings.Contains(string(command), e.dir+"/") {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

// signUp creates a user, an organization without limits, its key and a profile.
func (e *environment) signUp(ctx context.Context) error {
	var answer struct{ Token, ID, Key string }
	profile := fmt.Sprintf(`{"name":"Bench","browserVersion":%d}`, e.build.major)
	steps := []struct{ path, body string }{
		{"/v1/auth/sign-up", `{"email":"bench@example.com","password":"correct horse battery","name":"Bench"}`},
		{"/v1/organizations", `{"name":"Bench"}`},
		{"/v1/organizations/ID/api-keys", `{"name":"bench"}`},
		{"/v1/billing/checkout", `{"plan":"enterprise","returnUrl":"https://example.com/"}`},
		{"/v1/profiles", profile},
	}
	header := http.Header{}
	for _, step := range steps {
		path := strings.Replace(step.path, "ID", answer.ID, 1)
		if err := call(ctx, http.MethodPost, e.cloud.url+path, header, json.RawMessage(step.body), &answer); err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+answer.Token)
	}
	e.organizationKey, e.profile = answer.Key, answer.ID
	return nil
}

// worker is a running worker.
type worker struct {
	*program
	environment *environment
	key         http.Header
	tabless     bool // launch browsers without a tab
}

// withoutTabs returns the same worker, for launches without a tab.
func (w *worker) withoutTabs() *worker {
	return &worker{program: w.program, environment: w.environment, key: w.key, tabless: true}
}

// worker starts a worker of the organization. close stops it.
func (e *environment) worker(ctx context.Context, name string, environment ...string) (*worker, error) {
	return e.workerOf(ctx, "svc-worker", name, environment...)
}

// workerOf starts a worker with a program in the directory of the run.
func (e *environment) workerOf(ctx context.Context, program, name string, environment ...string) (*worker, error) {
	key := "wrk_" + strings.ToLower(rand.Text())
	p, err := e.start(ctx, program, name, append([]string{
		"SVC_CLOUD_URL=" + e.cloud.url, "SVC_KEY=" + e.organizationKey, "API_KEY=" + key,
		"ALLOWED_HOSTS=127.0.0.0/8,[::1]", // the addresses of the benchmark's page
	}, environment...)...)
	if err != nil {
		return nil, fmt.Errorf("start the worker for %s: %w", name, err)
	}
	w := &worker{program: p, environment: e, key: http.Header{"X-Api-Key": {key}}}
	e.workers = append(e.workers, w)
	return w, nil
}

// session is the response of a launch.
type session struct {
	ID                   string
	DebugPort            int
	WebSocketDebuggerURL string
	Start                struct{ Warm bool }
	Timeline             []struct {
		Step    string
		AfterMs float64
	}
}

func (w *worker) launch(ctx context.Context) (s session, err error) {
	settings := map[string]any{"headless": true, "timeoutMs": readyTimeout.Milliseconds()}
	if w.tabless {
		settings["startUrls"] = []string{}
	}
	body := map[string]any{"profileId": w.environment.profile, "browser": settings}
	return s, call(ctx, http.MethodPost, w.url+"/sessions/profile", w.key, body, &s)
}

func (w *worker) end(ctx context.Context, s session) error {
	return call(context.WithoutCancel(ctx), http.MethodDelete, w.url+"/sessions/"+s.ID, w.key, nil, nil)
}

// warmPool is the state of the worker's pool of warm browsers.
type warmPool struct {
	Size, Starting int
	Ready          []struct{ Count int }
}

func (p warmPool) ready() (n int) {
	for _, r := range p.Ready {
		n += r.Count
	}
	return n
}

// waitForWarmPool waits, with a limit, until the pool is full.
func (w *worker) waitForWarmPool(ctx context.Context) error {
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		var status struct{ WarmPool warmPool }
		if err := call(ctx, http.MethodGet, w.url+"/fleet/status", w.key, nil, &status); err != nil {
			return err
		}
		if status.WarmPool.ready() >= status.WarmPool.Size {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return awaitIdle(ctx)
}

// call sends a request and decodes the data of the response to into.
func call(ctx context.Context, method, address string, header http.Header, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return err
	}
	if header != nil {
		request.Header = header.Clone()
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, request.URL.Path, answer.Status, said)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said, &struct{ Data any }{into})
}
