package browser_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestLaunch_Headless(t *testing.T) {
	r := newFixture(t)
	b := r.launch(t, r.spec("one"))
	var version struct{ Product string }
	unmarshal(t, dial(t, b).call(t, "", "Browser.getVersion", nil), &version)
	if !strings.Contains(version.Product, r.build.Version) {
		t.Errorf("the browser behind the socket is %s, want %s", version.Product, r.build.Version)
	}
	if err := b.CDP().Call(t.Context(), "", "Browser.getVersion", nil, &version); err != nil {
		t.Errorf("control pipe: %v", err)
	}
	if got := b.Exit(); got != (browser.Exit{}) {
		t.Errorf("exit of a running browser: %+v", got)
	}
}

func TestLaunch_HeadfulFillsDisplay(t *testing.T) {
	r := newFixture(t)
	spec := r.spec("window")
	spec.Headless, spec.Screen = false, &settings.Size{Width: 1280, Height: 800}
	c := dial(t, r.launch(t, spec))
	page := c.attach(t, firstPage(t, c))
	var got []int
	defer func() { t.Log("last seen:", got) }()
	// Chromium makes a window of the screen's size one pixel smaller, so that it is
	// not treated as full-screen.
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

// Pages expect WebGL, and a browser without it is unusual.
func TestLaunch_HasWebGL(t *testing.T) {
	r := newFixture(t)
	for name, change := range map[string]func(*browser.Spec){
		"headless":       func(*browser.Spec) {},
		"headful":        func(s *browser.Spec) { s.Headless = false },
		"headless-shell": func(s *browser.Spec) { s.Build = headlessShell(t) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec(name)
			change(&spec)
			c := dial(t, r.launch(t, spec))
			var pixel []int
			page := c.attach(t, firstPage(t, c))
			c.eval(t, page, `(() => {
				const gl = document.createElement('canvas').getContext('webgl2');
				if (!gl) return null;
				gl.clearColor(1, 0, 0, 1);
				gl.clear(gl.COLOR_BUFFER_BIT);
				const pixel = new Uint8Array(4);
				gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
				return [...pixel];
			})()`, &pixel)
			if !slices.Equal(pixel, []int{255, 0, 0, 255}) {
				t.Errorf("drew %v, want red", pixel)
			}
		})
	}
}

// Internal pages cost each launch half a second of CPU.
func TestLaunch_OpensNoInternalPages(t *testing.T) {
	r := newFixture(t)
	for name, headless := range map[string]bool{"headless": true, "headful": false} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec(name)
			spec.Headless = headless
			c := dial(t, r.launch(t, spec))
			firstPage(t, c)
			var all struct{ TargetInfos []struct{ Type, URL string } }
			unmarshal(t, c.call(t, "", "Target.getTargets", map[string]any{"filter": []any{map[string]any{}}}), &all)
			for _, target := range all.TargetInfos {
				if target.Type != "page" && target.Type != "tab" {
					t.Errorf("unexpected target of type %s at %s", target.Type, target.URL)
				}
			}
		})
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

func TestLaunch_OpensStartURLs(t *testing.T) {
	r := newFixture(t)
	site := newSite(t)
	for _, name := range []string{"plain", "emulated", "postponed"} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec("urls-" + name)
			spec.StartURLs = []string{site.URL + "/a", site.URL + "/b"}
			want := []string{"/a", "/b"}
			if name == "emulated" {
				spec.Viewport = &settings.Size{Width: 500, Height: 400}
			}
			if name == "postponed" {
				spec.StartURLs, want = []string{"about:blank", "about:blank"}, append(want, "about:blank")
			}
			b := r.launch(t, spec)
			c := dial(t, b)
			if name == "postponed" {
				c.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}) // a tab of a client
				if err := b.OpenStartURLs(t.Context(), []string{site.URL + "/a", site.URL + "/b"}); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, 5*time.Second, "both tabs", func() bool {
				var urls []string
				for _, target := range c.targets(t) {
					if target.Type == "page" && (!target.Attached || name == "emulated") {
						urls = append(urls, strings.TrimPrefix(target.URL, site.URL))
					}
				}
				slices.Sort(urls)
				return slices.Equal(urls, want)
			})
		})
	}
}

// TestLaunch_WithoutTabAppliesSettings tests cold launches and warm browsers.
func TestLaunch_WithoutTabAppliesSettings(t *testing.T) {
	r := newFixture(t)
	for name, get := range map[string]func(*testing.T, browser.Spec) *browser.Browser{"started": r.launch, "configured": r.launchConfigured} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec("tabless-" + name)
			spec.StartURLs, spec.Viewport = []string{}, &settings.Size{Width: 500, Height: 400}
			c := dial(t, get(t, spec))
			if tabs := c.pages(t); len(tabs) > 0 {
				t.Errorf("tabs: %+v", tabs)
			}
			for range 2 {
				var width int
				c.eval(t, c.open(t, "about:blank"), "innerWidth", &width)
				if width != 500 {
					t.Errorf("got a tab of width %d", width)
				}
			}
		})
	}
}

func TestLaunch_Parallel(t *testing.T) {
	r := newFixture(t)
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
			t.Errorf("%s: got exit %v, want killed", b.LaunchID, e)
		}
	}
	r.assertNoLeaks(t)
}

func TestLaunch_RefusesDuplicateID(t *testing.T) {
	r := newFixture(t).withShell(t)
	b := r.launch(t, r.spec("same"))
	if _, err := r.Launch(t.Context(), r.spec("same")); err == nil {
		t.Error("a second launch of the same id began")
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.launch(t, r.spec("same"))
}
