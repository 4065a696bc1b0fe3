package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
	callTimeout  = 2 * time.Minute
)

// worker is the worker process under test.
type worker struct {
	program     []string
	environment []string
	dir         string // its DATA_DIR
	log         string // path of its log file
	port        int
	url, key    string
	client      *http.Client
	api         *workerapi.ClientWithResponses

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// reservedEnv are the variables that the self-test sets; all others come from
// the operator.
var reservedEnv = []string{
	"HOST", "PORT", "PUBLIC_URL", "WORKER_ID", "SVC_KEY", "API_KEY", "SVC_CLOUD_URL", "DATA_DIR", "BROWSERS_DIR", "DRAIN_TIMEOUT",
	"LOG_LEVEL", "LOG_FORMAT", "ALLOWED_HOSTS", "TRUSTED_PROXIES", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
	"FREEZE_IDLE_SECONDS",
}

func newWorker(o Options, dir, key string, cloud *fakecloud.Cloud, web *testSite) (*worker, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	w := &worker{
		program: o.Program, dir: filepath.Join(dir, "data"), log: filepath.Join(dir, "worker.log"), port: port, key: key,
		url: fmt.Sprintf("http://127.0.0.1:%d", port),
	}
	w.environment = slices.DeleteFunc(slices.Clone(o.Environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(reservedEnv, name)
	})
	w.environment = append(w.environment,
		"HOST=127.0.0.1", "PORT="+strconv.Itoa(port), "PUBLIC_URL="+w.url, "SVC_KEY="+fakecloud.Key, "API_KEY="+key,
		"SVC_CLOUD_URL="+cloud.URL, "DATA_DIR="+w.dir, "BROWSERS_DIR="+o.BrowsersDirs, "LOG_LEVEL=debug",
		"ALLOWED_HOSTS="+web.allowedHosts(), "FREEZE_IDLE_SECONDS=1",
	)
	w.client = &http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	w.api, err = workerapi.NewClientWithResponses(w.url, workerapi.WithHTTPClient(w.client), workerapi.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error { r.Header.Set("X-API-Key", key); return nil }))
	return w, err
}

// start starts the worker, also after it has ended, and waits until it answers.
func (w *worker) start(ctx context.Context) error {
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w.cmd = exec.Command(w.program[0], w.program[1:]...) //nolint:noctx // ended by signals
	w.cmd.Env, w.cmd.Dir = w.environment, filepath.Dir(w.dir)
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	done := make(chan struct{})
	w.done = done
	go func() {
		_ = w.cmd.Wait() // the result is in ProcessState
		close(done)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if _, err := w.api.GetWorkerHealthWithResponse(ctx); err == nil {
			return nil
		}
		select {
		case <-w.done:
			return fmt.Errorf("the worker did not start: %s\n%s", w.cmd.ProcessState, w.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the worker did not answer: %w\n%s", ctx.Err(), w.logTail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

func (w *worker) launchesDir() string { return filepath.Join(w.dir, "launches") }

// kill kills the worker with SIGKILL.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.done
}

// stop sends SIGTERM and kills the worker if it does not end in time.
func (w *worker) stop() error {
	if w.cmd == nil || w.done == nil {
		return nil
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.done:
	case <-time.After(stopTimeout):
		w.kill()
		return fmt.Errorf("the worker did not end within %v of SIGTERM", stopTimeout)
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the worker ended with %s", w.cmd.ProcessState)
	}
	return nil
}

// logTail returns the end of the worker's log.
func (w *worker) logTail() string {
	text, err := os.ReadFile(w.log)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(text[max(0, len(text)-most):])
}

// copyLog copies the log to a file that is kept.
func (w *worker) copyLog(to string) error {
	from, err := os.Open(w.log)
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// freePort returns an unused loopback port.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
