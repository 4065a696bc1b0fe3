package browser_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// displayPID returns the process id of a browser's X server.
func displayPID(t *testing.T, r *fixture, b *browser.Browser) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		command, _ := os.ReadFile(file)
		if bytes.Contains(command, []byte("\x00-displayfd\x00")) && bytes.Contains(command, []byte(filepath.Join(r.dir, b.LaunchID)+"/")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("found no X server")
	return 0
}

func awaitExit(t *testing.T, b *browser.Browser, limit time.Duration) browser.Exit {
	t.Helper()
	select {
	case <-b.Done():
		return b.Exit()
	case <-time.After(limit):
		t.Fatalf("the browser still runs after %s", limit)
		return browser.Exit{}
	}
}

func TestAwaitExit_EndsUnresponsiveBrowser(t *testing.T) {
	r := newFixtureWith(t, func(o *browser.Options) { o.UnresponsiveTimeout = time.Second })
	for name, change := range map[string]func(*browser.Spec){
		"headless": func(*browser.Spec) {},
		"warm":     func(s *browser.Spec) { s.Warm = true },
		"headful":  func(s *browser.Spec) { s.Headless = false },
	} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec(name)
			change(&spec)
			b := r.launch(t, spec)
			stopped := b.PID()
			if !spec.Headless { // a browser hangs with its display
				stopped = displayPID(t, r, b)
			}
			c := dial(t, b)
			if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if !spec.Headless { // a new window makes the browser wait for its display
				reply, err := c.Send(t.Context(), "", "Target.createTarget", map[string]any{"url": "about:blank"})
				if err != nil {
					t.Fatal(err)
				}
				defer reply.Discard()
			}
			if e := awaitExit(t, b, 20*time.Second); !e.Unresponsive || !e.Killed {
				t.Errorf("exit %+v, want unresponsive and killed", e)
			}
			if err := b.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	r.assertNoLeaks(t)
}

func TestAwaitExit_KeepsPausedPage(t *testing.T) {
	const timeout = 2 * time.Second
	r := newFixtureWith(t, func(o *browser.Options) { o.UnresponsiveTimeout = timeout }).withShell(t)
	b := r.launch(t, r.spec("paused"))
	c := dial(t, b)
	page := c.open(t, "about:blank")
	paused := c.Subscribe(1, "Debugger.paused")
	c.call(t, page, "Debugger.enable", nil)
	reply, err := c.Send(t.Context(), page, "Runtime.evaluate", map[string]any{"expression": "debugger; 'continued'"})
	if err != nil {
		t.Fatal(err)
	}
	<-paused.Events()
	select {
	case <-b.Done():
		t.Fatalf("the browser of a paused page was ended: %+v", b.Exit())
	case <-time.After(2 * timeout):
	}
	c.call(t, page, "Debugger.resume", nil)
	var result struct{ Result struct{ Value string } }
	if err := reply.Wait(t.Context(), &result); err != nil || result.Result.Value != "continued" {
		t.Errorf("after the pause: %+v, %v", result, err)
	}
}

func TestAwaitExit_ToleratesMissedAnswers(t *testing.T) {
	const timeout = 6 * time.Second
	r := newFixtureWith(t, func(o *browser.Options) { o.UnresponsiveTimeout = timeout }).withShell(t)
	b := r.launch(t, r.spec("slow"))
	for range 2 { // each time the browser misses some answers, fewer than the maximum
		if err := syscall.Kill(b.PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timeout * 7 / 10)
		if err := syscall.Kill(b.PID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := b.CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
			t.Fatalf("the browser was ended: %v, %+v", err, b.Exit())
		}
	}
}

func TestExit_ReportsLostDisplay(t *testing.T) {
	r := newFixture(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			spec, data := r.spec("display-"+strconv.Itoa(int(signal))), newDirectoryData(t)
			spec.Headless, spec.Data = false, data
			b := r.launch(t, spec)
			if err := syscall.Kill(displayPID(t, r, b), signal); err != nil {
				t.Fatal(err)
			}
			if e := awaitExit(t, b, 10*time.Second); !e.DisplayLost || e.Killed {
				t.Errorf("exit %+v, want that of a lost display", e)
			}
			if err := b.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if data.saved != 0 {
				t.Error("data was saved after an unclean exit")
			}
		})
	}
	spec := r.spec("closed")
	spec.Headless = false
	b := r.launch(t, spec)
	dial(t, b).call(t, "", "Browser.close", nil)
	if e := awaitExit(t, b, 10*time.Second); e.DisplayLost || e.Code != 0 {
		t.Errorf("a browser closed by a client: exit %+v", e)
	}
	if err := b.Kill(t.Context()); err != nil { // waits for the cleanup
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
}
