package rfb_test

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
)

func screencast(t *testing.T, s *fixture, access rfb.Access) *testClient {
	t.Helper()
	up, err := rfb.Screencast(t.Context(), rfb.DevTools{Port: s.DebugPort}, access)
	if err != nil {
		t.Fatal(err)
	}
	return view(t, up, access)
}

var (
	red  = color.RGBA{R: 255, A: 255}
	lime = color.RGBA{G: 255, A: 255}
	blue = color.RGBA{B: 255, A: 255}
)

// showsColour reports whether the lower left of a picture has approximately this colour.
func showsColour(u update, want color.RGBA) bool {
	if u.picture == nil {
		return false
	}
	size := u.picture.Bounds()
	r, g, b, _ := u.picture.At(size.Min.X+20, size.Max.Y-20).RGBA()
	near := func(got uint32, want uint8) bool { return max(int(got>>8), int(want))-min(int(got>>8), int(want)) < 24 }
	return near(r, want.R) && near(g, want.G) && near(b, want.B)
}

// until requests updates until one has the colour.
func (c *testClient) until(t *testing.T, want color.RGBA) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if u := c.ask(t, 1); showsColour(u, want) {
			return
		}
	}
	t.Fatalf("the picture did not change to %v", want)
}

func TestScreencast_SendsPageAsJPEG(t *testing.T) {
	s := newFixture(t, true, "/red")
	start := time.Now()
	c := screencast(t, s, rfb.Watch)
	c.watch(t, 7, 0, -223, -26)
	u := c.ask(t, 0)
	t.Logf("the first picture after %v, %v", time.Since(start), u.size)
	if u.encoding != 7 || u.size != c.size || u.picture.Bounds().Size() != c.size || !showsColour(u, red) {
		t.Errorf("encoding %d, %v of %v", u.encoding, u.size, c.size)
	}
	if want := s.eval(t, `innerWidth + 'x' + innerHeight`); want != fmt.Sprintf("%dx%d", c.size.X, c.size.Y) {
		t.Errorf("got framebuffer size %v, page size %s", c.size, want)
	}
	if u := c.ask(t, 0); !showsColour(u, red) {
		t.Error("a full request for a still page got no update")
	}
}

func TestScreencast_SendsPixelsWithoutJPEGSupport(t *testing.T) {
	s := newFixture(t, true, "/red")
	c := screencast(t, s, rfb.Watch)
	c.watch(t, 0)
	if u := c.ask(t, 0); u.encoding != 0 || !showsColour(u, red) {
		t.Errorf("encoding %d", u.encoding)
	}
}

func TestScreencast_FollowsNavigationTabsAndSizes(t *testing.T) {
	s := newFixture(t, true, "/red")
	c := screencast(t, s, rfb.Watch)
	c.watch(t, 7, 0, -223)
	c.until(t, red)
	s.call(t, s.session, "Page.navigate", map[string]any{"url": s.site + "/blue"}, nil)
	c.until(t, blue)
	s.open(t, "/lime")
	c.until(t, lime)
	s.attach(t, "/lime")
	s.call(t, s.session, "Page.close", nil, nil)
	c.until(t, blue)
	s.attach(t, "/blue")
	s.call(t, s.session, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": 500, "height": 400, "deviceScaleFactor": 1, "mobile": false}, nil)
	testenv.Eventually(t, "a picture of the new size", func() bool {
		u := c.ask(t, 1)
		return u.picture != nil && u.size == image.Pt(500, 400) && c.size == u.size
	})
}

func TestScreencast_DispatchesInputWithControl(t *testing.T) {
	s := newFixture(t, true, "/white")
	c := screencast(t, s, rfb.Control)
	c.watch(t, 7, -223)
	c.ask(t, 0)
	c.write(t, click(100, 100))
	c.write(t, slices.Concat(keys('H', 'i', ' ', '1', '!', ';'), keys(0x010020ac, 0x6c1, 0xe9, 0xff0d), keys('x')))
	value := func(want string) {
		t.Helper()
		got := ""
		defer func() { t.Logf("the field has %q", got) }()
		testenv.Eventually(t, fmt.Sprintf("the field's %q", want), func() bool { got = s.eval(t, `t.value`); return got == want })
	}
	value("Hi 1!;€аé\nx")
	control := func(k uint32) []byte { return slices.Concat(holdKey(0xffe3, 1), keys(k), holdKey(0xffe3, 0)) }
	c.write(t, control('a'))
	c.write(t, slices.Concat(cutText("from the client \xe4"), control('v')))
	value("from the client ä")
	c.write(t, keys(0xff08))
	value("from the client ")
	s.eval(t, `log.length = 0`)
	c.write(t, slices.Concat(click(300, 90), click(300, 90), pointer(16, 300, 90), pointer(0, 300, 90)))
	for _, want := range []string{"dblclick", "wheel", "mousemove"} {
		testenv.Eventually(t, want, func() bool { return s.eval(t, `log.some(l => l.startsWith('`+want+`'))`) == "true" })
	}
	if got := s.eval(t, `log.filter(l => l.startsWith('keydown')).length`); got != "0" {
		t.Errorf("got %s key events from the pointer", got)
	}
}

func TestScreencast_IgnoresInputWithWatch(t *testing.T) {
	s := newFixture(t, true, "/moving-white")
	for name, served := range map[string]rfb.Access{"filter and screencast": rfb.Watch, "screencast only": rfb.Control} {
		t.Run(name, func(t *testing.T) {
			up, err := rfb.Screencast(t.Context(), rfb.DevTools{Port: s.DebugPort}, rfb.Watch)
			if err != nil {
				t.Fatal(err)
			}
			c := view(t, up, served)
			c.watch(t, 7, -223)
			c.ask(t, 0)
			c.write(t, slices.Concat(click(100, 100), keys('a'), cutText("c"), resizeMessage(10, 10), xvpReboot))
			c.ask(t, 0)
			other := screencast(t, s, rfb.Control)
			other.watch(t, 7)
			other.ask(t, 0)
			other.write(t, keys('z'))
			testenv.Eventually(t, "the marker", func() bool { return s.eval(t, `log.length`) != "0" })
			if got := s.eval(t, `log.join()`); got != onlyMark {
				t.Errorf("the page got %q, want only the marker", got)
			}
			s.eval(t, `log.length = 0`)
			other.Close()
			other.end(t)
		})
	}
}

func TestScreencast_StalledClientBuffersNothing(t *testing.T) {
	s := newFixture(t, true, "/moving-white")
	c := screencast(t, s, rfb.Watch)
	c.write(t, encodingsMessage(0)) // raw pixels, the largest encoding
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c.request(t, 0)
	testenv.Eventually(t, "the first bytes", func() bool { _, err := c.reader.Peek(1); return err == nil })
	before := memory()
	for range 200 {
		c.request(t, 0)
	}
	moved := s.eval(t, `new Promise(done => setTimeout(() => done('moved'), 2000))`)
	if after := memory(); moved != "moved" || after > before+16<<20 {
		t.Errorf("memory grew by %d MiB", (after-before)>>20)
	}
	c.Close()
	if err := c.end(t); !errors.Is(err, rfb.ErrClientGone) {
		t.Errorf("ended with %v", err)
	}
	assertNothingRuns(t)
}

func TestScreencast_SlowClientSeesLastPicture(t *testing.T) {
	s := newFixture(t, true, "/red")
	c := screencast(t, s, rfb.Watch)
	c.watch(t, 7, -223)
	c.until(t, red)
	s.eval(t, `new Promise(done => { let n = 0; const h = setInterval(() => {
		document.body.style.background = n++ < 30 ? 'rgb(' + n + ',0,0)' : 'blue'; if (n > 40) { clearInterval(h); done(); } }, 20) })`)
	c.until(t, blue)
}

func TestScreencast_EndsWithBrowser(t *testing.T) {
	s := newFixture(t, true, "/red")
	c := screencast(t, s, rfb.Watch)
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.end(t); !errors.Is(err, rfb.ErrEnded) {
		t.Errorf("ended with %v", err)
	}
	assertNothingRuns(t)
	if _, err := rfb.Screencast(t.Context(), rfb.DevTools{Port: s.DebugPort}, rfb.Watch); err == nil {
		t.Error("got no error without a browser")
	}
}

func TestScreencast_ShowsNoPageThenNextPage(t *testing.T) {
	s := newFixture(t, true, "/red")
	c := screencast(t, s, rfb.Watch)
	c.watch(t, 7, 0, -223)
	c.until(t, red)
	s.call(t, "", "Target.setDiscoverTargets", map[string]any{"discover": true}, nil)
	s.call(t, s.session, "Page.close", nil, nil)
	c.until(t, color.RGBA{R: 0xec, G: 0xef, B: 0xf1, A: 255})
	s.open(t, "/blue")
	c.until(t, blue)
}
