package browser_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

func TestLaunch_CancelLeaksNothing(t *testing.T) {
	r := newFixture(t)
	for i, after := range []time.Duration{0, 5 * time.Millisecond, 40 * time.Millisecond, 120 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		spec := r.spec(fmt.Sprintf("cancel-%d", i))
		spec.Headless = i%2 == 0
		_, err := r.Launch(ctx, spec)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: got %v, want a deadline", after, err)
		}
		r.assertNoLeaks(t)
	}
}

func TestLaunch_TimesOutWithoutAnswer(t *testing.T) {
	r := newFixture(t)
	spec := r.spec("mute")
	spec.Build.Path = script(t, "echo I am stuck >&2\nexec sleep 60")
	spec.Timeout = 300 * time.Millisecond
	start := time.Now()
	_, err := r.Launch(t.Context(), spec)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "I am stuck") {
		t.Errorf("got %v, want a deadline with the last output", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	r.assertNoLeaks(t)
}

func TestLaunch_FailsBeforeStartIfDebugPortIsTaken(t *testing.T) {
	r := newIsolatedFixture(t)
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	spec := r.spec("taken-port")
	spec.ProxyServer, spec.OnProxyListener = startEgress(t)
	spec.DebugPort = other.Addr().(*net.TCPAddr).Port
	_, err = r.Launch(t.Context(), spec)
	if !errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "last output") {
		t.Errorf("got %v, want a taken port and no started browser", err)
	}
	r.assertNoLeaks(t)
}

func TestLaunch_RemovesSocketOfFailedDisplay(t *testing.T) {
	r := newFixtureWith(t, func(o *browser.Options) {
		o.Xvnc = script(t, `Xvnc "$@" 3>/dev/null & # the report goes nowhere
until made=$(find /tmp/.X11-unix -type s -user "$(id -u)" -newer "$0") && [ "$made" ]; do sleep 0.02; done
kill -9 $!; wait
echo "user $(id -u) made $made" >&2`)
	})
	spec := r.spec("mute-display")
	spec.Headless = false
	_, err := r.Launch(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "reported no display number") {
		t.Fatalf("got %v, want a display without a number", err)
	}
	r.assertNoLeaks(t)
	_, output, _ := strings.Cut(err.Error(), "user ")
	var user int
	var socket string
	if _, err := fmt.Sscanf(output, "%d made %s", &user, &socket); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	lock := strings.Replace(socket, ".X11-unix/X", ".X", 1) + "-lock"
	for _, path := range []string{socket, lock} { // another user may have created them since
		if info, err := os.Lstat(path); err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == user {
			t.Errorf("leaked file %s", path)
		}
	}
}

func TestLaunch_RemovesKeymapOfFailedDisplay(t *testing.T) {
	if os.Geteuid() != 0 {
		return // all displays run as one user, which can replace the keymap
	}
	keymap := fmt.Sprintf("/tmp/server-%d.xkm", 1_000_000+os.Getpid())
	r := newFixtureWith(t, func(o *browser.Options) { o.Xvnc = script(t, "echo half >"+keymap+" && echo made >&2; exit 1") })
	spec := r.spec("keymap")
	spec.Headless = false
	if _, err := r.Launch(t.Context(), spec); err == nil || !strings.HasSuffix(err.Error(), "made") {
		t.Errorf("got %v, want a display that fails", err)
	}
	if os.Remove(keymap) == nil {
		t.Error("leaked keymap")
	}
}

func TestLaunch_DescribesBadExecutable(t *testing.T) {
	r := newFixture(t)
	for _, c := range []struct{ name, path, want string }{
		{"missing", "/nonexistent/chromium", "no such file"},
		{"exits", script(t, "echo cannot open shared object >&2\nexit 127"), "cannot open shared object"},
		{"exits", script(t, "exit 3"), "exited with code 3"},
		{"no sandbox", script(t, "echo 'FATAL: No usable sandbox!' >&2\nexit 1"), "no usable sandbox"},
	} {
		spec := r.spec("bogus")
		spec.Build.Path = c.path
		_, err := r.Launch(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if sandbox := c.name == "no sandbox"; errors.Is(err, browser.ErrNoSandbox) != sandbox {
			t.Errorf("%s: is ErrNoSandbox: %t", c.name, !sandbox)
		}
		r.assertNoLeaks(t)
	}
}

func TestLaunch_DropsSandboxOnlyWhenAllowed(t *testing.T) {
	r, log := newNoSandboxFixture(t)
	spec := r.spec("no-sandbox")
	spec.Build.Path = script(t, `case "$*" in
*--no-sandbox*) exec `+r.build.Path+` "$@" ;;
esac
echo 'FATAL: No usable sandbox!' >&2
exit 1`)
	if !r.Isolation().On(sandbox.ChromiumSandbox) {
		t.Errorf("the sandbox is off from the start: %+v", r.Isolation())
	}
	if b := r.launch(t, spec); b.Sandboxed {
		t.Error("Sandboxed is true")
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("got no warning: %q", log)
	}
	if r.Isolation().On(sandbox.ChromiumSandbox) {
		t.Error("the report says that the sandbox is on")
	}
	if b := r.launch(t, r.spec("other-build")); !b.Sandboxed {
		t.Error("another build lost its sandbox too")
	}
}

func TestLaunch_CallerCannotDisableSandbox(t *testing.T) {
	r, _ := newNoSandboxFixture(t)
	for name, tc := range map[string]struct {
		browser string
		timeout time.Duration
		want    error
	}{
		"its switches make the browser exit":     {`case "$*" in *--say*) echo 'FATAL: No usable sandbox!' >&2; exit 1 ;; esac`, 0, browser.ErrNoSandbox},
		"the launch times out after the message": {`echo 'FATAL: No usable sandbox!' >&2; exec sleep 60`, time.Second, context.DeadlineExceeded},
	} {
		build := r.build
		build.Path = script(t, tc.browser+"\nexec "+r.build.Path+` "$@"`)
		spec := r.spec("evil")
		spec.Build, spec.Args, spec.Timeout = build, []string{"--say"}, tc.timeout
		if _, err := r.Launch(t.Context(), spec); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
		if !r.Isolation().On(sandbox.ChromiumSandbox) {
			t.Errorf("%s: the sandbox is off", name)
		}
		if errors.Is(tc.want, browser.ErrNoSandbox) {
			other := r.spec("other")
			other.Build = build
			if b := r.launch(t, other); !b.Sandboxed {
				t.Errorf("%s: the next launch has no sandbox", name)
			}
		}
	}
}

// newNoSandboxFixture returns a fixture with AllowNoSandbox.
func newNoSandboxFixture(t *testing.T) (*fixture, *testenv.Log) {
	t.Helper()
	log := &testenv.Log{}
	return newFixtureWith(t, func(o *browser.Options) {
		o.AllowNoSandbox, o.Log = true, slog.New(slog.NewTextHandler(log, nil))
		o.Isolation = &sandbox.Options{Disk: 1 << 30, Processes: 2000}
	}), log
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(testenv.PublicTempDir(t), "browser")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewLauncher_RefusesSharedDirectory(t *testing.T) {
	r := newFixture(t)
	if _, err := browser.NewLauncher(browser.Options{Dir: r.dir}); err == nil {
		t.Error("a second launcher got the directory")
	}
}

func TestClose_EndsLaunchesInProgress(t *testing.T) {
	r := newFixture(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			spec := r.spec(fmt.Sprintf("under-way-%d", i))
			spec.Headless = i%2 == 0
			b, err := r.Launch(context.Background(), spec)
			switch {
			case err == nil:
				<-b.Done()
			case !errors.Is(err, process.ErrClosed):
				t.Errorf("got %v, want closed", err)
			}
		})
	}
	eventually(t, 5*time.Second, "a launch directory", func() bool {
		entries, _ := os.ReadDir(r.dir)
		return len(entries) > 2
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
	wg.Wait()
}

func TestLaunch_FailsAfterClose(t *testing.T) {
	r := newFixture(t)
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Launch(t.Context(), r.spec("late")); !errors.Is(err, process.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
}

func TestLaunch_RefusesInvalidSpec(t *testing.T) {
	r := newFixture(t)
	for name, spoil := range map[string]func(*browser.Spec){
		"launch id":   func(s *browser.Spec) { s.LaunchID = "../up" },
		"argument":    func(s *browser.Spec) { s.Args = []string{"--no-sandbox"} },
		"start URL":   func(s *browser.Spec) { s.StartURLs = []string{"file:///etc/passwd"} },
		"time zone":   func(s *browser.Spec) { s.TimezoneID = "../../etc/passwd" },
		"proxy":       func(s *browser.Spec) { s.ProxyServer = "http://u:p@h:1" },
		"permission":  func(s *browser.Spec) { s.Permissions = []string{"everything"} },
		"user agent":  func(s *browser.Spec) { s.UserAgent = "a\nb" },
		"headless":    func(s *browser.Spec) { s.Headless, s.Build.Headful = false, false },
		"screen":      func(s *browser.Spec) { s.Screen = &settings.Size{Width: 1 << 20, Height: 1} },
		"colour name": func(s *browser.Spec) { s.ColorScheme = "mauve" },
	} {
		spec := r.spec("spoilt")
		spoil(&spec)
		if b, err := r.Launch(t.Context(), spec); err == nil {
			b.Kill(t.Context())
			t.Errorf("%s: launched", name)
		}
	}
	r.assertNoLeaks(t)
}
