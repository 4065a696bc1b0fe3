package browser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// encoding is a shell script in the place of an encoder.
type encoding struct {
	*browser.Encoder
	input *os.File
	out   string // path
}

// startEncoding starts a script, as the encoder of a browser unless that is nil.
func (r *fixture) startEncoding(t *testing.T, b *browser.Browser, script string, change ...func(*browser.EncoderCommand)) *encoding {
	t.Helper()
	dir := t.TempDir() // other users cannot enter it
	e := &encoding{out: filepath.Join(dir, "output")}
	out, err := os.OpenFile(e.out, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	t.Cleanup(func() { write.Close() })
	e.input = write
	c := browser.EncoderCommand{Program: "/bin/bash", Args: []string{"-c", script}, In: read, Out: out}
	for _, apply := range change {
		apply(&c)
	}
	start := r.StartEncoder
	if b != nil {
		start = b.StartEncoder
	}
	if e.Encoder, err = start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return e
}

// finish ends the input and returns the output.
func (e *encoding) finish(t *testing.T) string {
	t.Helper()
	e.input.Close()
	<-e.Done()
	text, err := os.ReadFile(e.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStartEncoder_ReachesOnlyItsFiles runs a script that tries what a decoder could do that a picture has exploited.
func TestStartEncoder_ReachesOnlyItsFiles(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := testenv.PublicTempDir(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("a file of the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	script := fmt.Sprintf(`exec 5>/proc/self/fd/4
cat %q >&5
echo x >%q && echo another output >&5
test -d /proc/%d && echo the worker >&5
(exec 9<>/dev/tcp/127.0.0.1/%s) && echo the network >&5
grep -q : /proc/net/dev && grep -v lo: /proc/net/dev | grep : >&5
cat <&3 >&5`, secret, filepath.Join(dir, "written"), os.Getpid(), port)
	for name, tc := range map[string]struct {
		newFixture func(*testing.T) *fixture
		want       []string
	}{
		"isolated":           {func(t *testing.T) *fixture { return newIsolatedFixture(t) }, nil},
		"without namespaces": {func(t *testing.T) *fixture { return newIsolatedFixture(t, sandbox.PIDNamespace) }, []string{"the worker", "the network"}},
		"without anything":   {newFixture, []string{"a file of the host", "the worker", "the network"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := tc.newFixture(t).startEncoding(t, nil, script)
			if _, err := io.WriteString(e.input, "pictures"); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(e.finish(t), "\n")
			if err := e.Err(); err != nil || e.CPU() <= 0 {
				t.Errorf("ended with %v after %v", err, e.CPU())
			}
			got = slices.DeleteFunc(got, func(line string) bool { // the last is written as the worker's user
				return name != "isolated" && strings.Contains(line, ":") || name == "without anything" && line == "another output"
			})
			if want := append(slices.Clone(tc.want), "pictures"); !slices.Equal(got, want) {
				t.Errorf("reached %q, want %q", got, want)
			}
		})
	}
}

// TestStartEncoder_IsolatesWithoutRoot runs the other tests as an unprivileged user.
func TestStartEncoder_IsolatesWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		return // they already run unprivileged
	}
	const nobody = 61998
	dir := testenv.PublicTempDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.CopyTestBinary(t, dir), "-test.v", "-test.run=^TestStartEncoder_(ReachesOnly|EndsWith|Reports)")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "\n--- PASS"); err != nil || n != 3 {
		t.Errorf("%d passed: %v\n%s", n, err, out)
	}
}

// TestStartEncoder_SharesControlGroupUntilEnd kills the browser of an encoder, which then completes its file.
func TestStartEncoder_SharesControlGroupUntilEnd(t *testing.T) {
	r := newIsolatedFixture(t).withShell(t)
	b := r.launch(t, r.spec("recorded"))
	e := r.startEncoding(t, b, `grep ^Uid: /proc/self/status >&4; exec -a recorded-encoder cat <&3 >&4`)
	var pids []int
	testenv.Eventually(t, "the start of the encoder", func() bool {
		pids = processesWhere(func(pid, _, _ int) bool { return strings.HasPrefix(commandLine(pid), "recorded-encoder") })
		return len(pids) == 1
	})
	launch := cgroups(t, b.PID())
	if encoder := cgroups(t, pids[0]); encoder != launch {
		t.Errorf("the encoder is in %s, the browser in %s", encoder, launch)
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
	if encoder := cgroups(t, pids[0]); encoder == launch {
		t.Errorf("the encoder is in the removed control group %s", encoder)
	}
	if _, err := io.WriteString(e.input, "the last picture"); err != nil {
		t.Fatal(err)
	}
	got := e.finish(t)
	if !strings.HasSuffix(got, "\nthe last picture") || e.Err() != nil || strings.Contains(got, fmt.Sprint(b.UID())) {
		t.Errorf("the browser's user is %d; got %q: %v", b.UID(), got, e.Err())
	}
	late := r.startEncoding(t, b, `cat <&3 >&4`)
	if got := late.finish(t); got != "" || late.Err() != nil {
		t.Errorf("an encoder after the end: %q, %v", got, late.Err())
	}
}

// cgroups returns the control groups of a process.
func cgroups(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStartEncoder_EndsWithLauncher(t *testing.T) {
	r := newIsolatedFixture(t)
	e := r.startEncoding(t, nil, `while :; do read -t 100 <&3; done`)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Done():
	default:
		t.Error("the encoder runs after the end of the launcher")
	}
	if _, err := r.StartEncoder(context.Background(), browser.EncoderCommand{Program: "/bin/true"}); !errors.Is(err, process.ErrClosed) {
		t.Errorf("a start after the end: %v", err)
	}
}

func TestStartEncoder_ReportsFailures(t *testing.T) {
	r := newIsolatedFixture(t)
	e := r.startEncoding(t, nil, `echo the reason >&2; exit 3`)
	if <-e.Done(); e.Err() == nil || e.Err().Error() != "exit status 3: the reason" {
		t.Errorf("got %v", e.Err())
	}
	limited := r.startEncoding(t, nil, `head -c 100000 /dev/zero >&4`, func(c *browser.EncoderCommand) { c.MaxOutput = 1000 })
	if got := limited.finish(t); len(got) != 1000 || limited.Err() == nil {
		t.Errorf("%d bytes beyond the limit: %v", len(got), limited.Err())
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if e, err := r.StartEncoder(t.Context(), browser.EncoderCommand{Program: "/usr/bin/nonexistent", In: null, Out: null}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, %v", e, err)
	}
}
