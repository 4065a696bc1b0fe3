package interaction_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// formPage has controls, and records what scripts could notice of a watcher.
const formPage = `<!doctype html><title>Form</title><style>* { font: 20px/30px sans-serif; display: block }</style>
<script>
const before = Object.getOwnPropertyNames(window).length;
const native = EventTarget.prototype.addEventListener;
let listeners = 0;
EventTarget.prototype.addEventListener = function (...args) { listeners++; return native.apply(this, args) };
let changes = 0, parsed = false; // the number of additions by the parser depends on its timing
const count = records => changes += records.filter(r => parsed || r.type === 'attributes' || r.removedNodes.length).length;
const observer = new MutationObserver(count);
observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
function noticed() {
  const now = Object.getOwnPropertyNames(window);
  return JSON.stringify({
    globals: now.length - before, named: now.filter(n => n.startsWith('svc')), listeners, changes,
    scripts: document.scripts.length, handlers: [typeof onclick, typeof oninput, onclick],
    attributes: [...document.querySelectorAll('*')].filter(e => e.attributes.length > 3).length,
  });
}
</script>
<button id=save><b id=part>Save the form</b></button>
<label for=user>User name</label><input id=user>
<input id=password type=password aria-label="Password" value="old-secret">
<textarea id=note placeholder="A note"></textarea>
<div id=editor contenteditable role=textbox aria-label="Editor"><p id=paragraph>typed-secret</p></div>
<div id=plain contenteditable>typed-secret</div>
<a id=link href="/next" onclick="event.stopImmediatePropagation()">Next page</a>
<script>count(observer.takeRecords()); parsed = true</script>`

func newSite(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/form" {
			_, _ = w.Write([]byte(formPage))
			return
		}
		_, _ = w.Write([]byte("<!doctype html><title>Next</title><button id=back>Go back</button>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// user drives the page of a browser as a CDP client does.
type user struct {
	*testing.T
	conn    *cdp.Conn
	session string
	events  *cdp.Subscription
}

func (u *user) call(method string, params, result any) {
	u.Helper()
	if err := u.conn.Call(u.Context(), u.session, method, params, result); err != nil {
		u.Fatal(err)
	}
}

func (u *user) evaluate(expression string) string {
	u.Helper()
	var got struct{ Result struct{ Value any } }
	u.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	return fmt.Sprint(got.Result.Value)
}

func (u *user) click(id string) {
	u.Helper()
	var x, y float64
	position := u.evaluate(`(e => { const r = e.getBoundingClientRect(); return (r.x + 8) + ' ' + (r.y + r.height / 2) })(document.getElementById('` + id + `'))`)
	if _, err := fmt.Sscan(position, &x, &y); err != nil {
		u.Fatalf("%s: %v", position, err)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		u.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
}

func (u *user) open(url string) {
	u.Helper()
	u.call("Page.navigate", map[string]any{"url": url}, nil)
	u.loaded()
}

func (u *user) loaded() {
	u.Helper()
	select {
	case <-u.events.Events():
	case <-time.After(20 * time.Second):
		u.Fatal("the page did not load")
	}
}

// watched is a user of a watched browser.
type watched struct {
	*user
	tab     string
	connect func() *cdp.Conn
	actions chan interaction.Action
	ended   chan error
}

// newWatched opens a tab in a new browser.
func newWatched(t *testing.T) *watched {
	t.Helper()
	b := browsertest.NewLauncher(t)(browser.Spec{LaunchID: "one", Headless: true, Timeout: time.Minute})
	running := access.Browser{DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, Dial: b.Dial, Done: b.Done()}
	w := &watched{actions: make(chan interaction.Action, 100), ended: make(chan error, 1), connect: func() *cdp.Conn {
		conn, err := running.ConnectCDP(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}}
	w.user = &user{T: t, conn: w.connect()}
	var target struct{ TargetID string }
	w.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	w.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	w.tab, w.session = target.TargetID, attached.SessionID
	w.events = w.conn.Subscribe(100, "Page.loadEventFired")
	w.call("Page.enable", nil, nil)
	return w
}

// watch starts the watcher, until the test ends.
func (w *watched) watch() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	conn, ended := w.connect(), make(chan struct{})
	go func() {
		defer close(ended)
		w.ended <- interaction.Watch(ctx, conn, "world", func(interaction.Kind) func(interaction.Action) {
			return func(a interaction.Action) { w.actions <- a }
		})
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
	})
}

// next returns the next action.
func (w *watched) next() string {
	w.Helper()
	select {
	case a := <-w.actions:
		if a.TargetID != w.tab || time.Since(a.At) > time.Minute {
			w.Errorf("got %+v", a)
		}
		return fmt.Sprintf("%s %s %q", a.Kind, a.Role, a.Name)
	case err := <-w.ended:
		w.Fatal(err)
	case <-time.After(10 * time.Second):
		w.Fatal("no action is reported")
	}
	panic("unreachable")
}

// begin clicks an element until the watcher follows the document.
func (w *watched) begin(id, want string) {
	w.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(w.actions) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		w.click(id)
	}
	time.Sleep(200 * time.Millisecond) // for the names of the last clicks
	if got := w.next(); got != want {
		w.Errorf("got %s", got)
	}
	for len(w.actions) > 0 {
		<-w.actions
	}
}

// TestWatch_FollowsReplacedDocument clicks in a document that has replaced itself, which
// removes all listeners, also twice and while it is written.
func TestWatch_FollowsReplacedDocument(t *testing.T) {
	u, site := newWatched(t), newSite(t)
	u.watch()
	u.open(site + "/next")
	u.begin("back", `click button "Go back"`)
	for _, page := range []string{"one", "two"} {
		u.evaluate(`document.open(); document.write('<!doctype html><button id=` + page + `>Button ` + page + `</button>'); document.close()`)
		u.loaded()
		u.click(page)
		if got := u.next(); got != `click button "Button `+page+`"` {
			t.Errorf("got %s", got)
		}
	}
	u.evaluate(`document.open(); document.write('<!doctype html><button id=three>Button three</button>')`)
	u.click("three")
	if got := u.next(); got != `click button "Button three"` {
		t.Errorf("got %s", got)
	}
	if left := len(u.actions); left > 0 {
		t.Errorf("%d more actions, such as %+v", left, <-u.actions)
	}
}

// TestWatch_NamesControlsOnly uses a form and checks the actions, what they do not
// contain, and that the page notices nothing.
func TestWatch_NamesControlsOnly(t *testing.T) {
	u, site := newWatched(t), newSite(t)
	u.open(site + "/form")
	unwatched := u.evaluate("noticed()")
	u.watch()
	next, begin, actions := u.next, func() { u.begin("part", `click button "Save the form"`) }, u.actions
	begin()
	for _, reloaded := range []bool{false, true} {
		if reloaded {
			u.open(site + "/form")
			begin()
		}
		for _, step := range []struct {
			do   func()
			want []string
		}{
			{func() { u.evaluate(`document.getElementById('save').click()`) }, nil}, // a script, not a user
			{func() { u.click("user") }, []string{`click textbox "User name"`}},
			{func() { u.call("Input.insertText", map[string]any{"text": "my-secret"}, nil) }, []string{`input textbox "User name"`}},
			{func() { u.call("Input.insertText", map[string]any{"text": "more"}, nil) }, nil},
			{func() { u.click("password") }, []string{`click textbox "Password"`}},
			{func() { u.call("Input.insertText", map[string]any{"text": "my-secret"}, nil) }, []string{`input textbox "Password"`}},
			{func() { u.click("note") }, []string{`click textbox "A note"`}},
			{func() {
				if noticed := u.evaluate("noticed()"); noticed != unwatched {
					t.Errorf("reloaded=%t: the page notices %s, and without a watcher %s", reloaded, noticed, unwatched)
				}
			}, nil},
			{func() { u.click("paragraph") }, []string{`click textbox "Editor"`}},
			{func() { u.call("Input.insertText", map[string]any{"text": "my-secret"}, nil) }, []string{`input textbox "Editor"`}},
			{func() { u.click("plain") }, []string{`click generic ""`}},
		} {
			step.do()
			for _, want := range step.want {
				if got := next(); got != want {
					t.Errorf("reloaded=%t: got %s, want %s", reloaded, got, want)
				}
			}
		}
	}
	u.click("link")
	u.loaded()
	if got := next(); got != `click link "Next page"` {
		t.Errorf("got %s", got)
	}
	if left := len(actions); left > 0 {
		t.Errorf("%d more actions, such as %+v", left, <-actions)
	}
}
