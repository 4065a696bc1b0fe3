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
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		os.Exit(sandbox.Main())
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

// uid is what tests run as inside.
func uid() int {
	if os.Geteuid() == 0 {
		return 61999
	}
	return -1
}

// house is isolation with what its tests look at.
type house struct {
	*sandbox.Isolation
	dir   string
	start sandbox.Start
}

func open(t *testing.T, change func(*sandbox.Options)) *house {
	t.Helper()
	h := &house{dir: testenv.PublicTempDir(t), start: starter(t)}
	options := sandbox.Options{Disk: 64 << 20, Processes: 500}
	if change != nil {
		change(&options)
	}
	var err error
	if h.Isolation, err = sandbox.Open(t.Context(), options, h.dir, h.start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// guest is a shell script that runs in a room.
type guest struct {
	*sandbox.Room
	cmd    *exec.Cmd
	end    func()
	output *bytes.Buffer
	words  *os.File // what it reads
}

// admit runs a shell script in a room of its own, with arguments.
func (h *house) admit(t *testing.T, script string, starved func(), args ...string) *guest {
	t.Helper()
	g := h.expect(t)
	g.enter(t, script, starved, args...)
	return g
}

// expect has a room wait for its script, which is to say all on its standard
// error, and has descriptor 3 to read from.
func (h *house) expect(t *testing.T) *guest {
	t.Helper()
	room, err := h.Room()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(room.Close)
	read, words, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{Room: room, output: &bytes.Buffer{}, words: words}
	g.cmd = room.Command(read, read, say)
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
	if err := room.Started(g.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return g
}

// enter runs the script.
func (g *guest) enter(t *testing.T, script string, starved func(), args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := g.Furnish(ctx, sandbox.Launch{
		UID: uid(), Program: "/bin/sh", Args: append([]string{"-c", "exec >&2\n" + script, "sh"}, args...), Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Enter(ctx, starved); err != nil {
		t.Fatal(err)
	}
}

// begin starts the first process of a room that is not furnished yet.
func (h *house) begin(t *testing.T) (*sandbox.Room, *exec.Cmd) {
	t.Helper()
	room, err := h.Room()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(room.Close)
	cmd := room.Command(nil, nil, nil)
	end, err := h.start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if err := room.Started(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return room, cmd
}

// run runs a script in a room to its end and returns what it says.
func (h *house) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	return h.admit(t, script, nil, args...).says(t)
}

// says waits for the script's end and returns what it said.
func (g *guest) says(t *testing.T) string {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.cmd.Process.Wait()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the script does not end")
	}
	g.end()
	return strings.TrimSpace(g.output.String())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
