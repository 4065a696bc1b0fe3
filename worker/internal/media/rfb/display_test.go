package rfb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
)

// controller is a client with control. Its own input marks the end of the input of
// others.
type controller struct {
	*testClient
	stage *fixture
}

func newController(t *testing.T, s *fixture) controller {
	t.Helper()
	c := view(t, s.connect(t, fullPassword), rfb.Control)
	c.watch(t, 0)
	c.ask(t, 0)
	testenv.Eventually(t, "a click, which gives the window the focus", func() bool {
		c.write(t, click(100, 200))
		return strings.Contains(s.eval(t, `log.join()`), "mousedown")
	})
	ty := controller{c, s}
	ty.mark(t)
	return ty
}

// mark types a z, waits for it, and returns and clears the page's log of events.
func (ty controller) mark(t *testing.T) string {
	t.Helper()
	ty.write(t, keys('z'))
	log := ""
	testenv.Eventually(t, "the typed z", func() bool {
		log = ty.stage.eval(t, `log.join('; ')`)
		return strings.Contains(log, "keydown z")
	})
	ty.stage.eval(t, `log.length = 0`)
	return log
}

// paste empties the text field, presses Ctrl+V there and returns its text.
func (ty controller) paste(t *testing.T) string {
	t.Helper()
	ty.stage.eval(t, `t.value = ''`)
	ty.write(t, slices.Concat(holdKey(0xffe3, 1), keys('v'), holdKey(0xffe3, 0)))
	ty.mark(t)
	text := ""
	testenv.Eventually(t, "the pasted text", func() bool {
		text = ty.stage.eval(t, `t.value`)
		return strings.HasSuffix(text, "z")
	})
	return strings.TrimSuffix(text, "z")
}

const onlyMark = "keydown z KeyZ"

func resizeMessage(width, height int) []byte {
	m := []byte{251, 0, byte(width >> 8), byte(width), byte(height >> 8), byte(height), 1, 0}
	m = append(m, make([]byte, 8)...)
	m = append(m, byte(width>>8), byte(width), byte(height>>8), byte(height))
	return append(m, make([]byte, 4)...)
}

var (
	xvpReboot       = []byte{250, 0, 1, 3}
	qemuKeyA        = []byte{255, 0, 0, 1, 0, 0, 0, 'a', 0, 0, 0, 0x1e}
	qemuKeyAUp      = []byte{255, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0, 0x1e}
	qemuAudioOn     = []byte{255, 1, 0, 0}
	qemuAudioFormat = []byte{255, 1, 0, 2, 3, 2, 0, 0, 0xac, 0x44}
	// A negative length, the flags "provide" and "text", then compressed data.
	extendedClipboard = append([]byte{6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf4}, 0x10, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	giiVersion        = []byte{253, 129, 0, 4, 0, 1, 0, 0}
)

func fence(payload string) []byte {
	m := binary.BigEndian.AppendUint32([]byte{248, 0, 0, 0}, 1<<31)
	return append(append(m, byte(len(payload))), payload...)
}

func TestServe_WatcherInputNeverReachesDisplay(t *testing.T) {
	s := newFixture(t, false, "/moving-white")
	ty := newController(t, s)
	ty.write(t, cutText("before"))
	if got := ty.paste(t); got != "before" {
		t.Fatalf("pasting the controller's clipboard gives %q", got)
	}
	messages := []struct {
		name string
		sent []byte
	}{
		{"keys", keys('a', 'b', 0xff0d)},
		{"pointer", slices.Concat(click(120, 200), pointer(8, 120, 200), pointer(0, 120, 200))},
		{"clipboard", cutText("after")},
		{"extended clipboard", extendedClipboard},
		{"resize", resizeMessage(640, 480)},
		{"xvp", xvpReboot},
		{"QEMU key", slices.Concat(qemuKeyA, qemuKeyAUp)},
		{"QEMU audio", slices.Concat(qemuAudioOn, qemuAudioFormat)},
	}
	for _, m := range messages {
		t.Run(m.name, func(t *testing.T) {
			c := view(t, s.connect(t, fullPassword), rfb.Watch) // only the filter blocks input
			c.watch(t, 0, -312, -313, -308, -223, -258, -309, -1063131698)
			c.ask(t, 0)
			c.write(t, m.sent)
			c.write(t, fence("after it"))
			waitForFence(t, c, "after it")
			if got := ty.mark(t); got != onlyMark {
				t.Errorf("the page got %q, want only the mark", got)
			}
			if got := s.eval(t, `screen.width + 'x' + screen.height`); got != "800x600" {
				t.Errorf("the screen is %s", got)
			}
			if u := c.ask(t, 0); u.picture == nil {
				t.Errorf("update %+v", u)
			}
			c.ask(t, 1) // updates still arrive
		})
	}
	if got := ty.paste(t); got != "before" {
		t.Errorf("the clipboard was changed to %q", got)
	}
}

func waitForFence(t *testing.T, c *testClient, want string) {
	t.Helper()
	for {
		select {
		case got := <-c.fences:
			if string(got) == want {
				return
			}
		case <-time.After(5 * time.Second):
			t.Fatal("no answer to the fence")
		}
	}
}

func TestServe_UnknownMessageEndsConnection(t *testing.T) {
	s := newFixture(t, false, "/white")
	for name, sent := range map[string][]byte{
		"gii":                giiVersion,
		"unknown":            {77, 1, 2, 3},
		"QEMU unknown":       {255, 9, 0, 0},
		"fence too long":     append([]byte{248, 0, 0, 0, 0, 0, 0, 0, 65}, make([]byte, 65)...),
		"too many encodings": {2, 0, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			for _, access := range []rfb.Access{rfb.Watch, rfb.Control} {
				c := view(t, s.connect(t, viewOnlyPassword), access)
				c.write(t, sent)
				var broken *rfb.ProtocolError
				if err := c.end(t); !errors.As(err, &broken) || broken.Reason == "" {
					t.Errorf("access %d: ended with %v, want a ProtocolError", access, err)
				}
			}
		})
	}
	assertNothingRuns(t)
}

func TestServe_ControlReachesDisplay(t *testing.T) {
	s := newFixture(t, false, "/white")
	ty := newController(t, s)
	s.eval(t, `t.value = ''`)
	ty.write(t, keys('H', 'i'))
	ty.write(t, slices.Concat(qemuKeyA, qemuKeyAUp))
	ty.write(t, slices.Concat(pointer(0, 600, 500), pointer(16, 600, 500), pointer(0, 600, 500)))
	got := ty.mark(t)
	for _, want := range []string{"keydown i", "keydown a", "mousemove", "wheel"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page got %q, without %q", got, want)
		}
	}
	ty.write(t, resizeMessage(640, 480))
	ty.write(t, xvpReboot)
	ty.mark(t)
	if got := s.eval(t, `screen.width + 'x' + screen.height`); got != "800x600" {
		t.Errorf("the screen is %s", got)
	}
}

func TestServe_ClipboardNeedsControl(t *testing.T) {
	s := newFixture(t, false, "/white")
	ty := newController(t, s)
	watcher := view(t, s.connect(t, viewOnlyPassword), rfb.Watch)
	watcher.watch(t, 0, -312)
	ty.write(t, cutText("from the client"))
	if got := ty.paste(t); got != "from the client" {
		t.Errorf("pasted %q", got)
	}
	s.eval(t, `t.value = 'from the page', t.select()`)
	ty.write(t, slices.Concat(holdKey(0xffe3, 1), keys('c'), holdKey(0xffe3, 0)))
	select {
	case got := <-ty.cut:
		if got != "from the page" {
			t.Errorf("the client's clipboard is %q", got)
		}
	case <-time.After(5 * time.Second):
		t.Error("the copied text did not arrive")
	}
	watcher.ask(t, 0)
	select {
	case got := <-watcher.cut:
		t.Errorf("the watcher got the clipboard %q", got)
	default:
	}
}

func TestConnect_ViewOnlyPasswordBlocksInput(t *testing.T) {
	s := newFixture(t, false, "/moving-white")
	ty := newController(t, s)
	ty.write(t, cutText("before"))
	c := view(t, s.connect(t, viewOnlyPassword), rfb.Control) // the filter blocks nothing
	c.watch(t, 0, -312, -313, -258)
	c.ask(t, 0)
	for _, m := range [][]byte{keys('a'), click(120, 200), cutText("after"), qemuKeyA, qemuKeyAUp, fence("behind")} {
		c.write(t, m)
	}
	waitForFence(t, c, "behind")
	if got := ty.mark(t); got != onlyMark {
		t.Errorf("the page got %q, want only the mark", got)
	}
	if got := ty.paste(t); got != "before" {
		t.Errorf("the clipboard was changed to %q", got)
	}
	c.ask(t, 1)
}

func TestConnect_Errors(t *testing.T) {
	s := newFixture(t, false, "/white")
	d, _ := s.Display()
	for range 10 { // failures must not lock out the worker
		if up, err := rfb.Connect(t.Context(), d.Socket, "wrong"); err == nil {
			up.Close()
			t.Fatal("a wrong password was accepted")
		} else if strings.Contains(err.Error(), d.Password) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
	up := s.connect(t, func(d display.VNC) string { return d.Password })
	if w, h := up.Size(); w != 800 || h != 600 {
		t.Errorf("size %dx%d", w, h)
	}
	up.Close()
	if _, err := rfb.Connect(t.Context(), d.Socket+"-none", ""); err == nil {
		t.Error("got no error for a missing socket")
	}
}

func TestServe_EndsWithEitherSideOrContext(t *testing.T) {
	s := newFixture(t, false, "/white")
	leaver := view(t, s.connect(t, viewOnlyPassword), rfb.Watch)
	leaver.Close()
	if err := leaver.end(t); !errors.Is(err, rfb.ErrClientGone) {
		t.Errorf("after the client disconnected: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the worker stops")
	ours, theirs := pair(t)
	defer ours.Close()
	ended := make(chan error, 1)
	go func() { ended <- rfb.Serve(ctx, theirs, s.connect(t, viewOnlyPassword), rfb.Watch, func() {}) }()
	cancel(stop)
	if err := <-ended; !errors.Is(err, stop) {
		t.Errorf("after cancellation: %v", err)
	}
	stays := view(t, s.connect(t, viewOnlyPassword), rfb.Watch)
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stays.end(t); !errors.Is(err, rfb.ErrEnded) {
		t.Errorf("after the browser ended: %v", err)
	}
	assertNothingRuns(t)
}
