package browser_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestLaunchHeadlessServesItsClientsAndItsWorker(t *testing.T) {
	r := newRig(t)
	b := r.launch(t, r.spec("one"))
	var version struct{ Product string }
	unmarshal(t, dial(t, b).call(t, "", "Browser.getVersion", nil), &version)
	if !strings.Contains(version.Product, r.build.Version) {
		t.Errorf("the socket's browser is %s, want %s", version.Product, r.build.Version)
	}
	if err := b.CDP().Call(t.Context(), "", "Browser.getVersion", nil, &version); err != nil {
		t.Errorf("control pipe: %v", err)
	}
	if got := b.Exit(); got != (browser.Exit{}) {
		t.Errorf("exit of a running browser: %+v", got)
	}
}

func TestLaunchHeadfulShowsAWindowThatFillsItsDisplay(t *testing.T) {
	r := newRig(t)
	spec := r.spec("window")
	spec.Headless, spec.Screen = false, &browser.Size{Width: 1280, Height: 800}
	c := dial(t, r.launch(t, spec))
	page := c.attach(t, firstPage(t, c))
	var got []int
	defer func() { t.Log("last seen:", got) }()
	// Chromium shrinks a window of the screen's size by a pixel, lest it be
	// taken for a full-screen one.
	eventually(t, 5*time.Second, "window of 1279x799 at 0,0", func() bool {
		c.eval(t, page, `[screen.width, screen.height, screenX, screenY, outerWidth, outerHeight]`, &got)
		return slices.Equal(got, []int{1280, 800, 0, 0, 1279, 799})
	})
	var agent string
	c.eval(t, page, `navigator.userAgent`, &agent)
	if strings.Contains(agent, "Headless") {
		t.Errorf("user agent %q", agent)
	}
}

func firstPage(t *testing.T, c client) string {
	t.Helper()
	var id string
	eventually(t, 5*time.Second, "a page", func() bool {
		for _, target := range c.targets(t) {
			if target.Type == "page" {
				id = target.TargetID
				return true
			}
		}
		return false
	})
	return id
}

func TestLaunchOpensTheStartURLs(t *testing.T) {
	r := newRig(t)
	site := newSite(t)
	for _, emulated := range []bool{false, true} {
		t.Run(fmt.Sprintf("emulated=%t", emulated), func(t *testing.T) {
			spec := r.spec(fmt.Sprintf("urls-%t", emulated))
			spec.StartURLs = []string{site.URL + "/a", site.URL + "/b"}
			if emulated {
				spec.Viewport = &browser.Size{Width: 500, Height: 400}
			}
			c := dial(t, r.launch(t, spec))
			eventually(t, 5*time.Second, "both tabs", func() bool {
				var urls []string
				for _, target := range c.targets(t) {
					if target.Type == "page" {
						urls = append(urls, strings.TrimPrefix(target.URL, site.URL))
					}
				}
				slices.Sort(urls)
				return slices.Equal(urls, []string{"/a", "/b"})
			})
		})
	}
}

func TestTenLaunchesInParallelAreApartAndLeaveNothing(t *testing.T) {
	r := newRig(t)
	const n = 10
	browsers := make([]*browser.Browser, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			spec := r.spec(fmt.Sprintf("par-%d", i))
			spec.Headless = i%3 != 0
			b, err := r.Launch(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			browsers[i] = b
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	ports, users := make(map[int]bool), make(map[string]bool)
	for _, b := range browsers {
		ports[b.DebugPort] = true
		users[statusField(b.PID(), "Uid")] = true
	}
	if len(ports) != n {
		t.Errorf("%d ports for %d browsers", len(ports), n)
	}
	if os.Geteuid() == 0 && len(users) != n {
		t.Errorf("%d users for %d browsers", len(users), n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range browsers {
		if e := b.Exit(); !e.Killed {
			t.Errorf("%s: %v, want killed", b.LaunchID, e)
		}
	}
	r.assertNothingLeft(t)
}

func TestACancelledLaunchLeavesNothing(t *testing.T) {
	r := newRig(t)
	for i, after := range []time.Duration{0, 5 * time.Millisecond, 40 * time.Millisecond, 120 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		spec := r.spec(fmt.Sprintf("cancel-%d", i))
		spec.Headless = i%2 == 0
		_, err := r.Launch(ctx, spec)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: got %v, want a deadline", after, err)
		}
		r.assertNothingLeft(t)
	}
}

func TestALaunchThatNeverAnswersTimesOut(t *testing.T) {
	r := newRig(t)
	spec := r.spec("mute")
	spec.Build.Path = script(t, "echo I am stuck >&2\nexec sleep 60")
	spec.Timeout = 300 * time.Millisecond
	start := time.Now()
	_, err := r.Launch(t.Context(), spec)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "I am stuck") {
		t.Errorf("got %v, want a deadline and the last words", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	r.assertNothingLeft(t)
}

func TestABogusExecutableIsExplained(t *testing.T) {
	r := newRig(t)
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
		r.assertNothingLeft(t)
	}
}

func TestABrowserGoesWithoutItsSandboxOnlyWhenAllowed(t *testing.T) {
	build := systemBuild(t)
	denied := build
	denied.Path = script(t, `case "$*" in
*--no-sandbox*) exec `+build.Path+` "$@" ;;
esac
echo 'FATAL: No usable sandbox!' >&2
exit 1`)
	var log strings.Builder
	l, err := browser.NewLauncher(browser.Options{
		Dir: filepath.Join(publicTempDir(t), "launches"), AllowNoSandbox: true, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Launch(t.Context(), browser.Spec{LaunchID: "bare", Build: denied, Headless: true})
	if err != nil {
		t.Fatal(err)
	}
	if b.Sandboxed {
		t.Error("the browser claims a sandbox")
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("no warning was given: %q", log.String())
	}
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(publicTempDir(t), "browser")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALaunchIDAndAKeptDirectoryAreUsedOnceAtATime(t *testing.T) {
	r := newRig(t)
	spec := r.spec("same")
	spec.UserDataDir = filepath.Join(publicTempDir(t), "kept")
	b := r.launch(t, spec)
	if _, err := r.Launch(t.Context(), r.spec("same")); err == nil {
		t.Error("a second launch of the same id began")
	}
	other := spec
	other.LaunchID = "other"
	if _, err := r.Launch(t.Context(), other); err == nil {
		t.Error("a second launch on the same data directory began")
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.launch(t, other)
}

func TestAKeptDirectoryKeepsItsCookiesAcrossLaunches(t *testing.T) {
	r := newRig(t)
	site := newSite(t)
	kept := filepath.Join(publicTempDir(t), "kept")
	for i, script := range []string{`document.cookie = "k=v; max-age=3600"`, `document.cookie`} {
		spec := r.spec(fmt.Sprintf("kept-%d", i))
		spec.UserDataDir = kept
		b := r.launch(t, spec)
		c := dial(t, b)
		page := c.open(t, site.URL+"/")
		var cookie string
		eventually(t, 5*time.Second, "the page", func() bool {
			var at string
			c.eval(t, page, `location.href + document.readyState`, &at)
			return at == site.URL+"/complete"
		})
		c.eval(t, page, script, &cookie)
		if !strings.Contains(cookie, "k=v") {
			t.Errorf("launch %d: cookie %q", i, cookie)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(kept, "Default")); err != nil {
		t.Errorf("the kept directory: %v", err)
	}
}

func TestTwoLaunchersCannotShareADirectory(t *testing.T) {
	r := newRig(t)
	if _, err := browser.NewLauncher(browser.Options{Dir: r.dir}); err == nil {
		t.Error("a second launcher got the directory")
	}
}

func TestCloseEndsLaunchesUnderWay(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			spec := r.spec(fmt.Sprintf("under-way-%d", i))
			spec.Headless = i%2 == 0
			b, err := r.Launch(context.Background(), spec)
			switch {
			case err == nil:
				<-b.Done()
			case !errors.Is(err, browser.ErrClosed):
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
	r.assertNothingLeft(t)
	wg.Wait()
}

func TestAClosedLauncherRefuses(t *testing.T) {
	r := newRig(t)
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Launch(t.Context(), r.spec("late")); !errors.Is(err, browser.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
}

func TestLaunchRefusesASpecThatCannotBe(t *testing.T) {
	r := newRig(t)
	for name, spoil := range map[string]func(*browser.Spec){
		"launch id":   func(s *browser.Spec) { s.LaunchID = "../up" },
		"argument":    func(s *browser.Spec) { s.Args = []string{"--no-sandbox"} },
		"start URL":   func(s *browser.Spec) { s.StartURLs = []string{"file:///etc/passwd"} },
		"time zone":   func(s *browser.Spec) { s.TimezoneID = "../../etc/passwd" },
		"proxy":       func(s *browser.Spec) { s.Proxy = &browser.Proxy{Server: "http://u:p@h:1"} },
		"permission":  func(s *browser.Spec) { s.Permissions = []string{"everything"} },
		"user agent":  func(s *browser.Spec) { s.UserAgent = "a\nb" },
		"headless":    func(s *browser.Spec) { s.Headless, s.Build.Headful = false, false },
		"screen":      func(s *browser.Spec) { s.Screen = &browser.Size{Width: 1 << 20, Height: 1} },
		"colour name": func(s *browser.Spec) { s.ColorScheme = "mauve" },
	} {
		spec := r.spec("spoilt")
		spoil(&spec)
		if b, err := r.Launch(t.Context(), spec); err == nil {
			b.Kill(t.Context())
			t.Errorf("%s: launched", name)
		}
	}
	r.assertNothingLeft(t)
}
