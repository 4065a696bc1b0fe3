package rfb_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

const (
	insert            = 0xff63
	clipboardEncoding = -1063131698
)

// extendedRequest requests the text of the extended clipboard.
var extendedRequest = []byte{6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 0x02, 0, 0, 1}

// copyPage has a text, fields and handlers of its own. Its query is the address of a frame.
const copyPage = `<!doctype html><body><p id=p>text – of the page</p><p id=own>own</p><input id=f value="a field: ä€"><input id=secret type=password value=hunter2>
<input id=n type=number value=42><textarea id=long></textarea><div id=host></div><iframe id=frame></iframe>
<script>
log = [];
addEventListener('keydown', e => log.push(e.key));
if (location.search) frame.src = location.search.slice(1);
host.attachShadow({mode: 'closed'}).innerHTML = '<input value="in a shadow">';
own.addEventListener('copy', e => { e.clipboardData.setData('text/plain', 'of the handler'); e.preventDefault(); e.stopPropagation(); });
const select = node => { document.activeElement.blur(); getSelection().selectAllChildren(node); };
const focusAll = field => { getSelection().removeAllRanges(); field.focus(); field.select(); };
</script>`

// newCopyFixture is newFixture with copyPage and a build. The page has a frame of another
// site, in which text is selected.
func newCopyFixture(t *testing.T, engine builds.Engine) *fixture {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, copyPage)
	}))
	t.Cleanup(site.Close)
	path := "/?" + strings.Replace(site.URL, "127.0.0.1", "localhost", 1) + "/"
	b := browsertest.NewEngineLauncher(t, engine)(browser.Spec{LaunchID: "view", Headless: true, Emulation: settings.Emulation{Screen: &settings.Size{Width: 800, Height: 600}}, Options: settings.Options{StartURLs: []string{site.URL + path}}})
	s := &fixture{Browser: b, site: site.URL}
	s.attach(t, path)
	return s
}

func pressControl(k uint32) []byte {
	return slices.Concat(holdKey(0xffe3, 1), keys(k), holdKey(0xffe3, 0))
}

// copied returns the next text for the clipboard.
func (c *testClient) copied(t *testing.T) string {
	t.Helper()
	select {
	case text := <-c.cut:
		return text
	case <-time.After(10 * time.Second):
		t.Fatal("no text was copied")
	}
	return ""
}

func TestScreencast_CopiesToClient(t *testing.T) {
	for name, engine := range map[string]builds.Engine{"chromium": builds.Chromium, "headless shell": builds.HeadlessShell} {
		t.Run(name, func(t *testing.T) {
			s := newCopyFixture(t, engine)
			c, other, watcher := screencast(t, s, rfb.Control), screencast(t, s, rfb.Control), screencast(t, s, rfb.Watch)
			for _, client := range []*testClient{c, other, watcher} {
				client.watch(t, 7, -223)
				client.ask(t, 0)
			}
			for _, test := range []struct {
				script string
				key    uint32
				want   string
			}{
				{`select(p)`, 'c', "text ? of the page"},
				{`focusAll(f)`, 'c', "a field: \xe4?"},
				{`f.setSelectionRange(2, 7)`, insert, "field"},
				{`focusAll(n)`, 'c', "42"},
				{`focusAll(secret)`, 'c', ""},
				{`select(own)`, 'c', "of the handler"},
				{`select(p)`, 'x', ""},
				{`focusAll(f)`, 'x', "a field: \xe4?"},
				{`f.value`, 'c', ""},
				{`long.value = 'x'.repeat(256 << 10), focusAll(long)`, 'c', strings.Repeat("x", 256<<10)},
				{`long.value += 'x', focusAll(long)`, 'c', ""},
				{`document.addEventListener('copy', e => e.preventDefault(), {once: true}), select(p)`, 'c', ""},
				{`addEventListener('copy', e => e.stopImmediatePropagation(), {once: true, capture: true}), select(p)`, 'c', ""},
				{`select(p)`, 'c', "text ? of the page"},
			} {
				s.eval(t, `log.length = 0, `+test.script)
				c.write(t, slices.Concat(pressControl(test.key), keys(0xffe1)))
				testenv.Eventually(t, "the key after", func() bool { return s.eval(t, `log.includes('Shift')`) == "true" })
				c.ask(t, 0) // the text comes before this picture
				got := ""
				if len(c.cut) > 0 {
					got = <-c.cut
				}
				if got != test.want {
					t.Errorf("%s: copied %.50q (%d bytes), want %.50q", test.script, got, len(got), test.want)
				}
			}
			if got := s.eval(t, `Object.keys(window).filter(k => /cop/.test(k)).join()`); got != "" {
				t.Errorf("the page sees %q", got)
			}
			for name, client := range map[string]*testClient{"other": other, "watcher": watcher} {
				select {
				case got := <-client.cut:
					t.Errorf("the %s client got %.50q", name, got)
				default:
				}
			}
		})
	}
}

// TestScreencast_CopiesFromFrames copies text of a frame with its own process.
func TestScreencast_CopiesFromFrames(t *testing.T) {
	for name, engine := range map[string]builds.Engine{"chromium": builds.Chromium, "headless shell": builds.HeadlessShell} {
		t.Run(name, func(t *testing.T) {
			s := newCopyFixture(t, engine)
			c := screencast(t, s, rfb.Control)
			c.watch(t, 7, -223)
			c.ask(t, 0)
			var position [2]int
			_, err := fmt.Sscan(s.eval(t, `(r => Math.round(r.x + 40) + ' ' + Math.round(r.y + 40))(frame.getBoundingClientRect())`), &position[0], &position[1])
			if err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the focus of the frame", func() bool {
				c.write(t, click(position[0], position[1]))
				return s.eval(t, `document.activeElement.id`) == "frame"
			})
			c.write(t, slices.Concat(pressControl('a'), pressControl('c')))
			if got := c.copied(t); !strings.Contains(got, "text ? of the page") {
				t.Errorf("copied %q", got)
			}
		})
	}
}

// TestScreencast_CopiesAllCharacters uses the extended clipboard.
func TestScreencast_CopiesAllCharacters(t *testing.T) {
	s := newCopyFixture(t, builds.Chromium)
	c := screencast(t, s, rfb.Control)
	c.watch(t, 7, -223, clipboardEncoding)
	if got, want := c.copied(t), "\x03\x00\x00\x01\x00\x00\x00\x00"; got != want {
		t.Fatalf("the clipboard was announced as %x", got)
	}
	c.write(t, extendedRequest) // there is no text yet
	c.ask(t, 0)
	s.eval(t, `long.value = 'ä€\n😀', focusAll(long)`)
	c.write(t, pressControl('c'))
	if got, want := c.copied(t), "\x08\x00\x00\x01"; got != want {
		t.Fatalf("the text was announced as %x", got)
	}
	c.write(t, extendedRequest)
	got := c.copied(t)
	if !strings.HasPrefix(got, "\x10\x00\x00\x01") {
		t.Fatalf("the text came as %x", got)
	}
	r, err := zlib.NewReader(strings.NewReader(got[4:]))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	const want = "ä€\r\n😀\x00"
	if err != nil || !bytes.Equal(raw, append(binary.BigEndian.AppendUint32(nil, uint32(len(want))), want...)) {
		t.Errorf("got %q, %v", raw, err)
	}
}
