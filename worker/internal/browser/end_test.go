package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// displaySocket returns the socket of a browser's display.
func displaySocket(t *testing.T, pid int) string {
	t.Helper()
	for v := range strings.SplitSeq(treeEnviron(t, pid), "\x00") {
		if number, ok := strings.CutPrefix(v, "DISPLAY=:"); ok {
			return "/tmp/.X11-unix/X" + number
		}
	}
	t.Fatal("no display")
	return ""
}

func TestKill_LeaksNothing(t *testing.T) {
	r := newFixture(t)
	for _, headless := range []bool{true, false} {
		spec := r.spec(fmt.Sprintf("kill-%t", headless))
		spec.Headless = headless
		b := r.launch(t, spec)
		socket := ""
		var info os.FileInfo
		if !headless {
			socket = displaySocket(t, b.PID())
			info, _ = os.Lstat(socket)
		}
		before := processTree(b.PID())
		if len(before) < 4 {
			t.Fatalf("the tree has only %d processes", len(before))
		}
		start := time.Now()
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("headless=%t: %d processes killed and cleaned in %v", headless, len(before), time.Since(start))
		assertDead(t, before)
		r.assertNoLeaks(t)
		// Another display may have taken the number.
		if now, err := os.Lstat(socket); err == nil && os.SameFile(info, now) && now.ModTime().Equal(info.ModTime()) {
			t.Errorf("leaked socket %s", socket)
		}
		if e := b.Exit(); !e.Killed || e.At.IsZero() {
			t.Errorf("exit %+v, want killed", e)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Errorf("killed again: %v", err)
		}
	}
}

func assertDead(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if _, _, alive, ok := stat(pid); ok && alive {
			t.Errorf("process %d is still running", pid)
		}
	}
}

func TestCrash_DetectedAndCleanedUp(t *testing.T) {
	r := newFixture(t)
	for i, headless := range []bool{true, false} {
		spec := r.spec(fmt.Sprintf("crash-%d", i))
		spec.Headless = headless
		b := r.launch(t, spec)
		before := processTree(b.PID())
		if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		assertDead(t, before)
		if e := b.Exit(); e.Killed || e.Signal != syscall.SIGKILL || e.Code != -1 {
			t.Errorf("got exit %+v, want signal 9 that the worker did not send", e)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.assertNoLeaks(t)
	}
}

// TestExit_AfterClientClose closes both engines, shells several times: of those that ended by
// themselves, 3 of 100 crashed meanwhile.
func TestExit_AfterClientClose(t *testing.T) {
	r := newFixture(t)
	complete, shell := r.build, headlessShell(t)
	for i, build := range append(slices.Repeat([]builds.Build{shell}, testenv.Depth(5, 200)), complete) {
		spec := r.spec(fmt.Sprintf("closed-%d", i))
		spec.Build = build
		b := r.launch(t, spec)
		dialWorker(t, b).call(t, "", "Browser.close", nil)
		select {
		case <-b.Done():
		case <-time.After(5 * time.Second):
			t.Fatal("the browser did not exit")
		}
		if e := b.Exit(); e.Killed || e.Signal != 0 || e.Code != 0 {
			t.Errorf("exit of %s %+v, want code 0", build.Engine, e)
		}
		eventually(t, 5*time.Second, "the connection's end", func() bool { return b.CDP().Err() != nil })
	}
}

// TestExit_AfterCrashWhileClosing kills a browser that has accepted Browser.close, as a crash does
// at the end of some whose GPU process is a thread.
func TestExit_AfterCrashWhileClosing(t *testing.T) {
	r := newFixture(t)
	b := r.launch(t, r.spec("crash"))
	dialWorker(t, b).call(t, "", "Browser.close", nil)
	_ = syscall.Kill(b.PID(), syscall.SIGKILL)
	<-b.Done()
	if e := b.Exit(); e.Killed || e.Signal != 0 || e.Code != 0 {
		t.Errorf("exit %+v, want code 0", e)
	}
}

// TestKill_SavesDataOfManyBrowsers ends browsers at once. Half of them are already exiting,
// because a client has closed them.
func TestKill_SavesDataOfManyBrowsers(t *testing.T) {
	r := newIsolatedFixture(t)
	server, moved := startEgress(t)
	browsers := make([]*browser.Browser, testenv.Depth(6, 30))
	var work sync.WaitGroup
	for first := range 2 {
		work.Go(func() {
			for i := first; i < len(browsers); i += 2 {
				spec := r.spec(fmt.Sprintf("data-%d", i))
				spec.Data, spec.ProxyServer, spec.OnProxyListener = newDirectoryData(t), server, moved
				var err error
				if browsers[i], err = r.Launch(t.Context(), spec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if t.Failed() {
		return
	}
	clients := make([]client, len(browsers))
	for i, b := range browsers {
		clients[i] = dial(t, b)
	}
	for i, b := range browsers {
		work.Go(func() {
			if i%2 == 0 {
				if err := clients[i].Call(t.Context(), "", "Browser.close", nil, nil); err != nil && !errors.Is(err, cdp.ErrClosed) {
					t.Error(err)
				}
				<-b.CDP().Done()
			}
			if err := errors.Join(b.Kill(context.Background()), b.SaveError()); err != nil {
				t.Errorf("%s: %v", b.LaunchID, err)
			}
		})
	}
	work.Wait()
}

// closesFirst is a browser that answers every call but Browser.close, at which it closes
// its control connection, writes its data and exits.
const closesFirst = `exec bash -c 'echo "DevTools listening on ws://127.0.0.1:1/devtools/browser/x" >&2
while IFS= read -r -d "" call <&3; do
	[[ $call =~ \"id\":([0-9]+) ]]
	if [[ $call == *Browser.close* ]]; then break; fi
	printf "{\"id\":%s,\"result\":{}}\0" "${BASH_REMATCH[1]}" >&4
done
exec 3<&- 4>&-
sleep 0.3; echo written >"$0/state"' "$(printf "%s\n" "$@" | sed -n "s/^--user-data-dir=//p")"`

func TestKill_AwaitsBrowserAfterEndOfConnection(t *testing.T) {
	r, data := newFixture(t), newDirectoryData(t)
	spec := r.spec("closes-first")
	spec.Build.Path, spec.Data = script(t, closesFirst), data
	b := r.launch(t, spec)
	if err := errors.Join(b.Kill(t.Context()), b.SaveError()); err != nil {
		t.Fatal(err)
	}
	if state, err := os.ReadFile(filepath.Join(data.dir, "state")); err != nil || string(state) != "written\n" {
		t.Errorf("saved %q: %v", state, err)
	}
}

func TestKill_EndsStoppedBrowser(t *testing.T) {
	r := newFixture(t).withShell(t)
	spec := r.spec("stopped")
	spec.Data = newDirectoryData(t)
	b := r.launch(t, spec)
	if err := syscall.Kill(b.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := b.Kill(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
}

func TestDisplay_RequiresCookie(t *testing.T) {
	r := newFixture(t)
	spec := r.spec("cookie")
	spec.Headless = false
	b := r.launch(t, spec)
	conn, err := net.Dial("unix", displaySocket(t, b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The setup request of an X client: little-endian, version 11.0, no authorization.
	if _, err := conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 8)
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(answer); err != nil {
		t.Fatal(err)
	}
	if answer[0] != 0 {
		t.Errorf("a client without the cookie got %d, want 0 (refused)", answer[0])
	}
}
