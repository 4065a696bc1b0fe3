package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

const (
	readyTimeout = 90 * time.Second // the maximum timeout of a launch
	drainTimeout = 60 * time.Second
)

// program is a running svc-cloud or svc-worker.
type program struct {
	path, log   string
	url         string // its base URL
	environment []string
	cmd         *exec.Cmd
	done        chan struct{}
}

// start starts a program with its own data directory and port, and waits until it
// is ready.
func (e *environment) start(ctx context.Context, name, dir string, environment ...string) (*program, error) {
	port, err := children.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &program{
		path: filepath.Join(e.dir, name), log: filepath.Join(e.dir, dir+".log"), url: "http://127.0.0.1:" + port,
		environment: append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "HOST=127.0.0.1", "PORT=" + port, "DATA_DIR=" + filepath.Join(e.dir, dir),
		}, environment...),
	}
	return p, p.run(ctx)
}

// run starts the program, or restarts it after it has ended.
func (p *program) run(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd, p.done = exec.Command(p.path), make(chan struct{}) //nolint:noctx // stop ends it with a signal
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.environment, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(p.cmd, p.done)
	return p.ready(ctx)
}

func (p *program) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if err := call(ctx, http.MethodGet, p.url+"/health", nil, nil, nil); err == nil {
			return nil
		}
		select {
		case <-p.done:
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended: %s\n%s", p.path, p.cmd.ProcessState, said)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", p.path, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// stop ends the program with SIGTERM.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(drainTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s had to be killed", p.path)
	}
}

// kill ends the program with SIGKILL.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
