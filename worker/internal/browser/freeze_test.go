package browser_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const freezeIdle = 300 * time.Millisecond

// newFreezingFixture returns a launcher that freezes idle browsers and ends those that do
// not answer for a second.
func newFreezingFixture(t *testing.T) *fixture {
	t.Helper()
	r := newFixtureWith(t, func(o *browser.Options) {
		o.Isolation, o.FreezeIdle, o.UnresponsiveTimeout = new(sandbox.Options), freezeIdle, time.Second
	})
	if err := r.FreezeSupport(); err != nil {
		t.Fatal(err)
	}
	return r
}

func awaitFrozen(t *testing.T, b *browser.Browser) {
	t.Helper()
	eventually(t, 10*time.Second, "a frozen browser", b.Frozen)
	eventually(t, 10*time.Second, "no processor time", func() bool {
		before := cpuTicks(b)
		time.Sleep(100 * time.Millisecond) // what must not happen cannot be awaited
		return cpuTicks(b) == before
	})
}

// cpuTicks returns the processor time that a browser's processes have used.
func cpuTicks(b *browser.Browser) (sum int) {
	for _, pid := range processTree(b.PID()) {
		raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, rest, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(rest); len(fields) > 13 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			sum += user + system
		}
	}
	return sum
}

func TestFreeze_StopsIdleBrowserUntilNextUse(t *testing.T) {
	r := newFreezingFixture(t)
	for name, change := range map[string]func(*browser.Spec){
		"headless":       func(*browser.Spec) {},
		"headless shell": func(s *browser.Spec) { s.Build = headlessShell(t) },
		"headful":        func(s *browser.Spec) { s.Headless = false },
	} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec(strings.ReplaceAll(name, " ", "-"))
			change(&spec)
			b := r.launch(t, spec)
			c := dial(t, b)
			page := c.visit(t, "data:text/html,<script>ticks = 0; setInterval(() => ticks++, 10)</script>")
			var before, after int
			eventually(t, 10*time.Second, "a running timer", func() bool {
				c.eval(t, page, "globalThis.ticks ?? 0", &before)
				return before > 0
			})
			time.Sleep(2 * freezeIdle)
			if b.Frozen() {
				t.Fatal("the browser was frozen although a client is connected")
			}
			var target struct{ TargetInfo struct{ TargetID string } }
			unmarshal(t, c.call(t, page, "Target.getTargetInfo", nil), &target)
			c.eval(t, page, "globalThis.ticks ?? 0", &before)
			closed := time.Now()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			awaitFrozen(t, b)
			time.Sleep(2 * time.Second) // longer than UnresponsiveTimeout
			frozenFor := time.Since(closed)

			used := time.Now()
			again := dial(t, b)
			again.eval(t, again.attach(t, target.TargetInfo.TargetID), "ticks", &after)
			t.Logf("answered %s after the thaw; %d ticks in %s", time.Since(used).Round(100*time.Microsecond), after-before, frozenFor)
			if ran := time.Duration(after-before) * 10 * time.Millisecond; ran > frozenFor-time.Second {
				t.Errorf("the timer of the page ran for %s of %s", ran, frozenFor)
			}
			if b.Frozen() {
				t.Error("the browser is frozen although a client is connected")
			}
		})
	}
}

func TestFreeze_CallsAndPassiveConnectionsDoNotKeepBrowserAwake(t *testing.T) {
	r := newFreezingFixture(t).withShell(t)
	b := r.launch(t, r.spec("passive"))
	listening, err := b.DialPassive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	for range 3 {
		awaitFrozen(t, b)
		if err := b.CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
			t.Fatal(err)
		}
		if b.Frozen() {
			t.Error("the browser is frozen directly after a call")
		}
	}
	release := b.Hold()
	time.Sleep(2 * freezeIdle)
	if b.Frozen() || b.Freeze() {
		t.Error("the browser was frozen while it was held")
	}
	release()
	if !b.Freeze() || !b.Frozen() {
		t.Error("Freeze did not freeze an unused browser")
	}
}

func TestFreeze_WaitsForDownload(t *testing.T) {
	r := newFreezingFixture(t).withShell(t)
	finish := make(chan struct{})
	site := testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/file" {
			return
		}
		w.Header().Set("Content-Disposition", `attachment; filename="slow.bin"`)
		_, _ = w.Write(make([]byte, 100_000))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-finish:
		case <-q.Context().Done():
		}
		_, _ = w.Write(make([]byte, 100_000))
	}))
	b := r.launch(t, r.spec("download"))
	c := dial(t, b)
	page := c.visit(t, site.URL)
	c.download(t, page, "/file")
	awaitFile(t, b, "slow.bin", files.InProgress)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * freezeIdle)
	if b.Frozen() || b.Freeze() {
		t.Error("the browser was frozen during a download")
	}
	close(finish)
	if got := awaitFile(t, b, "slow.bin", files.Complete); got.Size != 200_000 {
		t.Errorf("the file has %d bytes", got.Size)
	}
	awaitFrozen(t, b)
}

func TestFreeze_FrozenBrowserEnds(t *testing.T) {
	r := newFreezingFixture(t)
	for name, end := range map[string]func(*testing.T, *browser.Browser){
		"killed": func(t *testing.T, b *browser.Browser) {
			if err := b.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"crashed": func(t *testing.T, b *browser.Browser) {
			if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for display, headless := range map[string]bool{"headless": true, "headful": false} {
			t.Run(name+" "+display, func(t *testing.T) {
				spec := r.spec(name + "-" + display)
				spec.Headless = headless
				b := r.launch(t, spec)
				awaitFrozen(t, b)
				end(t, b)
				if e := awaitExit(t, b, 10*time.Second); e.Killed != (name == "killed") || e.Unresponsive {
					t.Errorf("exit %+v", e)
				}
				if err := b.Kill(context.Background()); err != nil {
					t.Fatal(err)
				}
				r.assertNoLeaks(t)
			})
		}
	}
}

func TestFreeze_PersistentDataIsSaved(t *testing.T) {
	r := newFreezingFixture(t)
	spec, data := r.spec("saved"), newDirectoryData(t)
	spec.Data = data
	b := r.launch(t, spec)
	awaitFrozen(t, b)
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := b.Exit(); e.Signal != 0 || data.saved != 1 {
		t.Errorf("exit %+v, saved %d times: want a browser that has closed by itself", e, data.saved)
	}
}

func TestFreeze_WarmBrowserIsNotFrozenByItself(t *testing.T) {
	r := newFreezingFixture(t).withShell(t)
	spec := r.spec("warm")
	spec.Warm = true
	b := r.launch(t, spec)
	time.Sleep(2 * freezeIdle)
	if b.Frozen() {
		t.Error("a warm browser was frozen by itself")
	}
	if !b.Freeze() {
		t.Fatal("Freeze did not freeze a warm browser")
	}
	if err := b.Configure(t.Context(), r.spec("ignored")); err != nil {
		t.Fatal(err)
	}
	awaitFrozen(t, b)
}

func TestFreezeSupport_SaysWhatIsMissing(t *testing.T) {
	for name, r := range map[string]*fixture{
		"launches are not isolated":         newFixture(t),
		"launches have no separate network": newIsolatedFixture(t, sandbox.NetworkNamespace),
	} {
		if err := r.FreezeSupport(); !errors.Is(err, browser.ErrNoFreezing) || !strings.HasSuffix(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}
