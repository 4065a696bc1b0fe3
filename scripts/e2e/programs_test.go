package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// root is the root of the repository.
const root = "../.."

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// binaries builds the programs once. They stay in bin/, so that the next run links
// only changed programs.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin", "e2e"))
	if err != nil {
		return "", err
	}
	for name, pkg := range map[string]string{"svc-cloud": "./cloud", "svc-worker": "./worker", "run": "./scripts/run", "svc": "./worker/cmd/svc"} {
		build := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, name), pkg) // -w halves the time of linking
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	return dir, nil
})

// program is a started program and its log.
type program struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process is gone
}

// workerEnv is the path, in the repository, of a program that replaces the built svc-worker.
const workerEnv = "SVC_TEST_WORKER"

// startProgram starts a program of bin/e2e in the directory dir.
func startProgram(t *testing.T, name, dir, log string, environment ...string) *program {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, name)
	if other := os.Getenv(workerEnv); other != "" && name == "svc-worker" {
		if path, err = filepath.Abs(filepath.Join(root, other)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path)
	cmd.Dir = dir
	return startCommand(t, cmd, log, environment...)
}

// startCommand starts a program and writes its output to a log. Of the test's
// environment, it gets PATH and HOME only. It is killed when the test process ends.
func startCommand(t *testing.T, cmd *exec.Cmd, log string, environment ...string) *program {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := &program{name: filepath.Base(cmd.Path), log: log, done: make(chan struct{}), cmd: cmd}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environment...)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has it
		close(p.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s (pid %d):\n%s", p.name, p.cmd.Process.Pid, tail(p.logText()))
		}
	})
	return p
}

// tail returns the end of a text.
func tail(text string) string {
	const most = 20_000
	return text[max(0, len(text)-most):]
}

// logText returns the complete log.
func (p *program) logText() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// waitReady waits until the address returns 200.
func (p *program) waitReady(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Timeout: 2 * time.Second}
	eventually(t, readyTimeout, p.name+" is ready", func() error {
		select {
		case <-p.done:
			t.Fatalf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, p.logText())
		default:
		}
		answer, err := client.Get(address)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

func (p *program) hasExited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signalAndWait sends a signal and requires that the program exits with code 0.
func (p *program) signalAndWait(t *testing.T, signal syscall.Signal, limit time.Duration) {
	t.Helper()
	if p.hasExited() {
		t.Errorf("%s exited unexpectedly: %s", p.name, p.cmd.ProcessState)
		return
	}
	began := time.Now()
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.done:
		t.Logf("%s ended %v after %s", p.name, time.Since(began).Round(time.Millisecond), signal)
	case <-time.After(limit):
		p.kill()
		t.Errorf("%s did not end within %v of %s", p.name, limit, signal)
		return
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s ended after %s with %s, want exit code 0", p.name, signal, p.cmd.ProcessState)
	}
}

// kill sends SIGKILL and waits for the exit.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// publicDir returns a temporary directory that other users can access: if the tests
// run as root, browsers and PostgreSQL run as other users.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// freePort returns a free port below the ephemeral range, so that it stays free
// while a program restarts.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		listener, err := net.Listen("tcp", ":"+port)
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// eventually polls until check returns nil, and fails with its last error.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
