package rfb_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/rfb"
)

// pages is a site: /note has a text field that takes the focus and notes what
// reaches it in window.log, /<colour> has that colour.
const pages = `<!doctype html><title>%[1]s</title><body style="margin:0;background:%[1]s">
<textarea id=t autofocus style="position:fixed;left:0;top:0;width:50vw;height:50vh;font:16px monospace"></textarea>
<div id=d style="position:fixed;right:0;bottom:0;width:9px;height:9px"></div>
<script>
log = [];
for (const kind of ['keydown', 'mousedown', 'mousemove', 'wheel', 'paste', 'dblclick'])
	addEventListener(kind, e => log.push(kind + ' ' + (e.key || e.button || 0) + ' ' + (e.code || '')), true);
if (%[2]t) setInterval(() => d.style.background = d.style.background == 'red' ? 'lime' : 'red', 100);
</script>`

// stage is a running browser with one page, and what is done to look into it.
type stage struct {
	*browser.Browser
	site    string
	session string
}

func newStage(t *testing.T, headless bool, path string) *stage {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		colour := strings.TrimPrefix(name, "moving-")
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, pages, colour, colour != name)
	}))
	t.Cleanup(site.Close)
	l, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(testenv.PublicTempDir(t), "launches")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(builds, func(b browser.Build) bool { return b.Headful })
	if i < 0 {
		t.Fatal("no Chromium is installed; these tests need one")
	}
	b, err := l.Launch(t.Context(), browser.Spec{
		LaunchID: "view", Build: builds[i], Headless: headless,
		Screen: &browser.Size{Width: 800, Height: 600}, StartURLs: []string{site.URL + path},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Browser: b, site: site.URL}
	s.look(t, path)
	return s
}

func (s *stage) call(t *testing.T, session, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.CDP().Call(ctx, session, method, params, result); err != nil {
		t.Fatal(err)
	}
}

// look attaches to the page at a path, once it is loaded.
func (s *stage) look(t *testing.T, path string) {
	t.Helper()
	var id string
	eventually(t, "the page "+path, func() bool {
		var list struct {
			TargetInfos []struct{ TargetID, Type, URL string }
		}
		s.call(t, "", "Target.getTargets", nil, &list)
		for _, target := range list.TargetInfos {
			if target.Type == "page" && target.URL == s.site+path {
				id = target.TargetID
			}
		}
		return id != ""
	})
	var attached struct{ SessionID string }
	s.call(t, "", "Target.attachToTarget", map[string]any{"targetId": id, "flatten": true}, &attached)
	s.session = attached.SessionID
	eventually(t, "the page's script", func() bool { return s.eval(t, `typeof log + document.readyState`) == "objectcomplete" })
}

// eval returns what an expression yields, as text.
func (s *stage) eval(t *testing.T, expression string) string {
	t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	s.call(t, s.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}, &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return fmt.Sprint(answer.Result.Value)
}

func (s *stage) open(t *testing.T, path string) {
	t.Helper()
	s.call(t, "", "Target.createTarget", map[string]any{"url": s.site + path}, nil)
}

// connect opens the browser's display.
func (s *stage) connect(t *testing.T, password func(browser.Display) string) *rfb.Upstream {
	t.Helper()
	d, ok := s.Display()
	if !ok {
		t.Fatal("the browser has no display")
	}
	up, err := rfb.Connect(t.Context(), d.Socket, password(d))
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func full(d browser.Display) string     { return d.Password }
func viewOnly(d browser.Display) string { return d.ViewPassword }

// update is what one FramebufferUpdate showed.
type update struct {
	picture  image.Image // nil: a change of size
	encoding int32
	size     image.Point
}

// client is a viewer, and its view.
type client struct {
	net.Conn
	in      *bufio.Reader
	size    image.Point
	updates chan update
	fences  chan []byte
	cut     chan string
	ended   chan error // what Serve returned
}

// pair is a real connection on the loopback.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// view serves the upstream to a new client, which has done its handshake.
func view(t *testing.T, up *rfb.Upstream, access rfb.Access) *client {
	t.Helper()
	ours, theirs := pair(t)
	c := &client{
		Conn: ours, in: bufio.NewReader(ours), ended: make(chan error, 1),
		updates: make(chan update, 100), fences: make(chan []byte, 100), cut: make(chan string, 100),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { c.ended <- rfb.Serve(ctx, theirs, up, access) })
	t.Cleanup(func() {
		ours.Close()
		cancel()
		serving.Wait()
	})
	c.greet(t)
	return c
}

func (c *client) greet(t *testing.T) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got := string(c.read(t, 12)); got != "RFB 003.008\n" {
		t.Fatalf("version %q", got)
	}
	c.say(t, []byte("RFB 003.008\n"))
	if got := c.read(t, 2); !bytes.Equal(got, []byte{1, 1}) {
		t.Fatalf("security types %v, want none", got)
	}
	c.say(t, []byte{1})
	if got := c.read(t, 4); !bytes.Equal(got, make([]byte, 4)) {
		t.Fatalf("security result %v", got)
	}
	c.say(t, []byte{0})
	init := c.read(t, 24)
	c.size = image.Pt(int(binary.BigEndian.Uint16(init)), int(binary.BigEndian.Uint16(init[2:])))
	c.read(t, int(binary.BigEndian.Uint32(init[20:])))
	c.SetReadDeadline(time.Time{})
}

func (c *client) read(t *testing.T, n int) []byte {
	t.Helper()
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		t.Fatal(err)
	}
	return buf
}

func (c *client) say(t *testing.T, message []byte) {
	t.Helper()
	if _, err := c.Write(message); err != nil {
		t.Fatal(err)
	}
}

// watch reads everything that comes from now on. The client asks for these
// encodings and 32-bit pixels.
func (c *client) watch(t *testing.T, encodings ...int32) {
	t.Helper()
	c.say(t, []byte{0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0})
	c.say(t, encodingsMessage(encodings...))
	go func() {
		defer close(c.updates)
		for c.hear() == nil {
			continue
		}
	}()
}

func (c *client) hear() error {
	kind, err := c.in.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case 0:
		head, err := c.some(3)
		if err != nil {
			return err
		}
		for range binary.BigEndian.Uint16(head[1:]) {
			if err := c.rect(); err != nil {
				return err
			}
		}
		return nil
	case 2, 150:
		return nil
	case 3:
		head, err := c.some(7)
		if err != nil {
			return err
		}
		text, err := c.some(int(binary.BigEndian.Uint32(head[3:])))
		c.cut <- string(text)
		return err
	case 248:
		head, err := c.some(8)
		if err != nil {
			return err
		}
		payload, err := c.some(int(head[7]))
		c.fences <- payload
		return err
	default:
		return fmt.Errorf("server message %d", kind)
	}
}

func (c *client) some(n int) ([]byte, error) {
	buf := make([]byte, n)
	_, err := io.ReadFull(c.in, buf)
	return buf, err
}

func (c *client) rect() error {
	head, err := c.some(12)
	if err != nil {
		return err
	}
	size := image.Pt(int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint16(head[6:])))
	u := update{encoding: int32(binary.BigEndian.Uint32(head[8:])), size: size}
	switch u.encoding {
	case 0:
		raw, err := c.some(4 * size.X * size.Y)
		if err != nil {
			return err
		}
		img := image.NewRGBA(image.Rectangle{Max: size})
		for i := 0; i < len(raw); i += 4 {
			img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = raw[i+2], raw[i+1], raw[i], 255
		}
		u.picture = img
	case 7:
		if u.picture, err = c.tight(); err != nil {
			return err
		}
	case -223:
		c.size = size
	case -308:
		screens, err := c.some(4)
		if err != nil {
			return err
		}
		if _, err := c.some(16 * int(screens[0])); err != nil {
			return err
		}
	case -258:
	default:
		return fmt.Errorf("encoding %d", u.encoding)
	}
	c.updates <- u
	return nil
}

func (c *client) tight() (image.Image, error) {
	control, err := c.in.ReadByte()
	if err != nil || control != 0x90 {
		return nil, fmt.Errorf("compression control %x, %w", control, err)
	}
	length := 0
	for i := range 3 {
		b, err := c.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if i == 2 {
			length |= int(b) << 14
			break
		}
		length |= int(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			break
		}
	}
	data, err := c.some(length)
	if err != nil {
		return nil, err
	}
	return jpeg.Decode(bytes.NewReader(data))
}

// ask requests an update, and returns it. What only confirms an extension is
// not one.
func (c *client) ask(t *testing.T, incremental byte) update {
	t.Helper()
	for {
		c.request(t, incremental)
		if u := c.next(t); u.encoding != -308 && u.encoding != -258 {
			return u
		}
		incremental = 1 // else it is confirmed again
	}
}

func (c *client) request(t *testing.T, incremental byte) {
	t.Helper()
	c.say(t, []byte{3, incremental, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
}

func (c *client) next(t *testing.T) update {
	t.Helper()
	select {
	case u, ok := <-c.updates:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return u
	case <-time.After(10 * time.Second):
		t.Fatal("no update")
	}
	return update{}
}

// end waits for what Serve returns.
func (c *client) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the view goes on")
	}
	return nil
}

func encodingsMessage(encodings ...int32) []byte {
	m := []byte{2, 0, 0, byte(len(encodings))}
	for _, e := range encodings {
		m = binary.BigEndian.AppendUint32(m, uint32(e))
	}
	return m
}

// keys are a key going down and up, for each keysym.
func keys(keysyms ...uint32) []byte {
	var m []byte
	for _, k := range keysyms {
		m = append(m, holdKey(k, 1)...)
		m = append(m, holdKey(k, 0)...)
	}
	return m
}

func holdKey(keysym uint32, down byte) []byte {
	return binary.BigEndian.AppendUint32([]byte{4, down, 0, 0}, keysym)
}

func pointer(buttons byte, x, y int) []byte {
	return []byte{5, buttons, byte(x >> 8), byte(x), byte(y >> 8), byte(y)}
}

func click(x, y int) []byte {
	return slices.Concat(pointer(0, x, y), pointer(1, x, y), pointer(0, x, y))
}

func cutText(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{6, 0, 0, 0}, uint32(len(text))), text...)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within ten seconds: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// assertNothingRuns fails when a goroutine of the package is left.
func assertNothingRuns(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	eventually(t, "no goroutine left", func() bool {
		all := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(all, "/worker/internal/rfb.")
	})
}
