package sandbox_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		os.Exit(sandbox.Main())
	}
	if len(os.Args) == 3 && (os.Args[1] == holderRole || os.Args[1] == attackerRole) {
		act(os.Args[1], os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// starter starts commands on one thread that lives as long as the tests, as the
// worker does.
func starter(t *testing.T) sandbox.Start {
	jobs := make(chan func())
	t.Cleanup(func() { close(jobs) })
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return func(cmd *exec.Cmd) (func(), error) {
		cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGKILL, true
		started := make(chan error)
		jobs <- func() { started <- cmd.Start() }
		if err := <-started; err != nil {
			return nil, err
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}, nil
	}
}

// uid is the user id of scripts in a sandbox.
func uid() int {
	if os.Geteuid() == 0 {
		return 61999
	}
	return -1
}

// isHostRoot reports whether the tests run as root of the machine, not of a user namespace such as a pod's.
func isHostRoot() bool {
	users, _ := os.ReadFile("/proc/self/uid_map")
	return os.Geteuid() == 0 && strings.Join(strings.Fields(string(users)), " ") == "0 0 4294967295"
}

// testManager is a Manager with its state directory.
type testManager struct {
	*sandbox.Manager
	dir    string
	start  sandbox.Start
	starts int // processes that Open has started
}

func open(t *testing.T, change func(*sandbox.Options)) *testManager {
	t.Helper()
	h := &testManager{dir: testenv.PublicTempDir(t), start: starter(t)}
	options := sandbox.Options{Disk: 64 << 20, Processes: 500}
	if change != nil {
		change(&options)
	}
	var err error
	h.Manager, err = sandbox.Open(t.Context(), options, h.dir, func(cmd *exec.Cmd) (func(), error) {
		h.starts++
		return h.start(cmd)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// script is a running shell script in a sandbox.
type script struct {
	*sandbox.Sandbox
	cmd    *exec.Cmd
	end    func()
	output *bytes.Buffer
	stdin  *os.File // descriptor 3 of the script
}

// startScript runs a shell script in a new sandbox, with arguments.
func (h *testManager) startScript(t *testing.T, script string, args ...string) *script {
	t.Helper()
	g := h.prepare(t)
	g.exec(t, script, nil, args...)
	return g
}

// prepare starts a sandbox that waits for its script. The script writes to
// standard error and may read from descriptor 3.
func (h *testManager) prepare(t *testing.T) *script {
	t.Helper()
	sb, err := h.NewSandbox()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sb.Close)
	read, words, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := &script{Sandbox: sb, output: &bytes.Buffer{}, stdin: words}
	g.cmd = sb.Command(read, read, say)
	if g.end, err = h.start(g.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.end)
	read.Close()
	say.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(g.output, said)
	}()
	end := g.end
	g.end = func() {
		end()
		<-copied
	}
	t.Cleanup(func() { words.Close() })
	if err := sb.ProcessStarted(g.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return g
}

// exec sets up the sandbox and runs the script.
func (g *script) exec(t *testing.T, script string, onOOM func(), args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := g.Setup(ctx, sandbox.Config{
		UID: uid(), Program: "/bin/sh", Args: append([]string{"-c", "exec >&2\n" + script, "sh"}, args...), Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		Policy: []byte("{}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Exec(ctx, onOOM); err != nil {
		t.Fatal(err)
	}
}

// startEmpty starts the first process of a sandbox without setting it up.
func (h *testManager) startEmpty(t *testing.T) (*sandbox.Sandbox, *exec.Cmd) {
	t.Helper()
	sb, err := h.NewSandbox()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sb.Close)
	cmd := sb.Command(nil, nil, nil)
	end, err := h.start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if err := sb.ProcessStarted(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return sb, cmd
}

// run runs a script in a sandbox to its end and returns its output.
func (h *testManager) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	return h.startScript(t, script, args...).wait(t)
}

// wait waits for the script's end and returns its output.
func (g *script) wait(t *testing.T) string {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.cmd.Process.Wait()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the script did not end")
	}
	g.end()
	return strings.TrimSpace(g.output.String())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
