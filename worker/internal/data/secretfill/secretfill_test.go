package secretfill_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

const value = "p4ss-Wörd'\"\\</script>"

// signInPage has a form. Like React, it notices a value only by an event, and only if the
// page has not set it. It reports what its inputs contain.
const signInPage = `<!doctype html><title>Sign in</title>
<input id=user autofocus><input id=password type=password><input id=code inputmode=numeric>
<input id=number type=number><input id=hidden type=hidden><input id=check type=checkbox>
<input id=off type=password disabled><fieldset disabled><input id=inside type=password></fieldset><input id=fixed type=password readonly>
<textarea id=area></textarea><div id=editor contenteditable>text</div>
<script>
const state = {};
const native = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
for (const e of document.querySelectorAll('input')) {
  let tracked = e.value;
  Object.defineProperty(e, 'value', {get() { return native.get.call(this) }, set(v) { tracked = v; native.set.call(this, v) }, configurable: true});
  e.addEventListener('input', () => {
    const now = native.get.call(e);
    if (now !== tracked) state[e.id] = tracked = now;
  });
}
const report = () => {
  const found = [...document.querySelectorAll('input:not([type=checkbox])')].map(e => native.get.call(e)).join('');
  if (found) navigator.sendBeacon('/report', found);
};
addEventListener('input', report, true);
addEventListener('pagehide', report);
</script>`

// site is a site that records what its pages report.
type site struct {
	url string
	mu  sync.Mutex
	got []string
}

func newSite(t *testing.T, host string) *site {
	t.Helper()
	s := &site{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/report":
			text, _ := io.ReadAll(r.Body)
			s.mu.Lock()
			s.got = append(s.got, string(text))
			s.mu.Unlock()
		case "/sandbox":
			w.Header().Set("Content-Security-Policy", "sandbox allow-scripts")
			_, _ = io.WriteString(w, signInPage)
		case "/frame":
			_, _ = fmt.Fprintf(w, "<!doctype html><title>Frame</title><input id=outer type=password><iframe src=%q></iframe>", r.URL.RawQuery)
		default:
			_, _ = io.WriteString(w, signInPage)
		}
	}))
	t.Cleanup(server.Close)
	s.url = strings.Replace(server.URL, "127.0.0.1", host, 1)
	return s
}

func (s *site) reports() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "\n")
}

// filler is a browser whose page is filled.
type filler struct {
	*testing.T
	*browsertest.Tab
	browser *browser.Browser
	fields  secretfill.Fields
	origins []string // that were asked about
	refuse  error    // of the secrets
	value   string
	before  func() // called before the value is returned
}

func newFiller(t *testing.T, b *browser.Browser, address string) *filler {
	t.Helper()
	f := &filler{T: t, browser: b, Tab: browsertest.OpenTab(t, b, address), value: value, before: func() {}}
	f.WaitFor("the page", "document.readyState", "complete")
	return f
}

func launch(t *testing.T) *browser.Browser {
	t.Helper()
	return browsertest.NewLauncher(t)(browser.Spec{LaunchID: "one", Headless: true, Timeout: time.Minute})
}

// target returns the id of the first target of a kind with a URL.
func (f *filler) target(kind, url string) string {
	f.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var list struct {
			TargetInfos []struct{ TargetID, Type, URL string }
		}
		if err := f.browser.CDP().Call(f.Context(), "", "Target.getTargets", nil, &list); err != nil {
			f.Fatal(err)
		}
		for _, info := range list.TargetInfos {
			if info.Type == kind && strings.HasPrefix(info.URL, url) {
				return info.TargetID
			}
		}
	}
	f.Fatalf("no %s target of %s", kind, url)
	return ""
}

// fill fills an input. onCall is called with the number of each CDP call.
func (f *filler) fill(target string, r secretfill.Request, onCall func(n int)) (secretfill.Filled, error) {
	f.Helper()
	b := f.browser
	conn, err := access.Browser{DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, Dial: b.Dial, Done: b.Done()}.ConnectCDP(f.Context(), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	calls := 0
	conn.OnCall(func() func() {
		if calls++; onCall != nil {
			onCall(calls)
		}
		return func() {}
	})
	r.Secret = "shop"
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	return secretfill.Fill(ctx, conn, target, r, &f.fields, func(_ context.Context, secret, _, origin string) (uuid.UUID, string, error) {
		f.origins = append(f.origins, origin)
		f.before()
		return uuid.UUID{1}, f.value, f.refuse
	})
}

// node returns the backend node of an element in the document of a tab or of a frame.
func node(t *testing.T, call func(method string, params, result any), expression string) int {
	t.Helper()
	var found struct{ Result struct{ ObjectID string } }
	call("Runtime.evaluate", map[string]any{"expression": expression}, &found)
	var described struct{ Node struct{ BackendNodeID int } }
	call("DOM.describeNode", map[string]any{"objectId": found.Result.ObjectID}, &described)
	return described.Node.BackendNodeID
}

func TestFill_PageNoticesTheValue(t *testing.T) {
	t.Parallel()
	allowed := newSite(t, "127.0.0.1")
	f := newFiller(t, launch(t), allowed.url+"/one")
	page := f.target("page", allowed.url)
	for field, id := range map[string]string{"username": "user", "password": "password", "totp": "code"} {
		for _, r := range []secretfill.Request{{Selector: "#" + id}, {BackendNodeID: node(t, f.Call, id)}} {
			f.Eval("state." + id + " = " + id + ".value = ''")
			r.Field = field
			filled, err := f.fill(page, r, nil)
			if err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
			if filled != (secretfill.Filled{SecretID: uuid.UUID{1}, Field: field, Origin: allowed.url}) {
				t.Errorf("got %+v", filled)
			}
			if got := f.Eval(id+".value") + "|" + f.Eval("state."+id); got != value+"|"+value {
				t.Errorf("%+v: the page has %q", r, got)
			}
			if got := f.Eval("getComputedStyle(" + id + ").webkitTextSecurity"); got != "disc" {
				t.Errorf("%+v: shown as %s", r, got)
			}
			if loader := f.loader(); !f.fields.Contain(secretfill.Element{Loader: loader, Node: node(t, f.Call, id)}) {
				t.Errorf("%+v: the field is not remembered", r)
			}
		}
	}
}

func (f *filler) loader() string {
	var tree struct {
		FrameTree struct{ Frame struct{ LoaderID string } }
	}
	f.Call("Page.getFrameTree", nil, &tree)
	return tree.FrameTree.Frame.LoaderID
}

func TestFill_RefusesOtherElements(t *testing.T) {
	t.Parallel()
	allowed := newSite(t, "127.0.0.1")
	f := newFiller(t, launch(t), allowed.url+"/one")
	page := f.target("page", allowed.url)
	for _, c := range []struct {
		field, selector string
		kind            fault.Kind
		detail          string
	}{
		{"password", "#user", fault.Conflict, "is no password input"}, {"username", "#password", fault.Conflict, "is no text input"},
		{"totp", "#hidden", fault.Conflict, "is no text input"}, {"totp", "#check", fault.Conflict, "is no text input"},
		{"username", "#area", fault.Conflict, "is no input"}, {"username", "#editor", fault.Conflict, "is no input"},
		{"password", "#off", fault.Conflict, "is disabled or read-only"}, {"password", "#inside", fault.Conflict, "is disabled or read-only"},
		{"password", "#fixed", fault.Conflict, "is disabled or read-only"}, {"password", "#none", fault.Conflict, "matches no element"},
		{"password", "###", fault.Validation, "is no CSS selector"}, {"seed", "#code", fault.Validation, "must be username"},
		{"password", "", fault.Validation, "must be given"},
	} {
		_, err := f.fill(page, secretfill.Request{Field: c.field, Selector: c.selector}, nil)
		if !fault.Is(err, c.kind) || !strings.Contains(fault.From(err).Details[0].Message, c.detail) {
			t.Errorf("%s into %s: got %v", c.field, c.selector, err)
		}
	}
	if len(f.origins) > 0 {
		t.Errorf("the secret was used %d times", len(f.origins))
	}
	if _, err := f.fill(page, secretfill.Request{Field: "totp", Selector: "#number"}, nil); !fault.Is(err, fault.Conflict) || f.Eval("number.value") != "" {
		t.Errorf("a text in a number input: %v", err)
	}
	if _, err := f.fill(page, secretfill.Request{Field: "totp", BackendNodeID: 1 << 30}, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("an unknown node: %v", err)
	}
	if _, err := f.fill("none", secretfill.Request{Field: "totp", Selector: "#code"}, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown target: %v", err)
	}
	f.refuse = fault.New(fault.Forbidden, "No.")
	if _, err := f.fill(page, secretfill.Request{Field: "totp", Selector: "#code"}, nil); !fault.Is(err, fault.Forbidden) || f.Eval("code.value") != "" {
		t.Errorf("a refused use: %v", err)
	}
}

func TestFill_AsksForTheOriginOfTheFrame(t *testing.T) {
	t.Parallel()
	allowed, sibling, foreign := newSite(t, "127.0.0.1"), newSite(t, "127.0.0.1"), newSite(t, "localhost")
	b := launch(t)
	request := secretfill.Request{Field: "password", Selector: "#password"}

	t.Run("same site", func(t *testing.T) {
		f := newFiller(t, b, allowed.url+"/frame?"+sibling.url)
		r := secretfill.Request{Field: "password", BackendNodeID: f.nodeIn("input[type=password]")}
		if _, err := f.fill(f.target("page", allowed.url+"/frame?"+sibling.url), r, nil); err != nil || f.origins[0] != sibling.url {
			t.Errorf("asked for %v: %v", f.origins, err)
		}
		if _, err := f.fill(f.target("page", allowed.url+"/frame?"+sibling.url), request, nil); !fault.Is(err, fault.Conflict) {
			t.Errorf("a selector reaches a frame: %v", err)
		}
	})
	t.Run("another site", func(t *testing.T) {
		f := newFiller(t, b, allowed.url+"/frame?"+foreign.url)
		if _, err := f.fill(f.target("iframe", foreign.url), request, nil); err != nil || f.origins[0] != foreign.url {
			t.Errorf("asked for %v: %v", f.origins, err)
		}
	})
	for name, address := range map[string]string{
		"sandbox": allowed.url + "/sandbox", "data": "data:text/html,<input%20id=password%20type=password>", "blank": "about:blank#one",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiller(t, b, address)
			if name == "blank" {
				f.Eval(`document.body.innerHTML = '<input id=password type=password>'`)
			}
			if _, err := f.fill(f.target("page", address), request, nil); !fault.Is(err, fault.Forbidden) || len(f.origins) > 0 {
				t.Errorf("asked for %v: %v", f.origins, err)
			}
		})
	}
}

// nodeIn returns the node of an element in the first frame, which the page cannot reach.
func (f *filler) nodeIn(selector string) int {
	f.Helper()
	var tree struct {
		FrameTree struct {
			ChildFrames []struct{ Frame struct{ ID string } }
		}
	}
	f.Call("Page.getFrameTree", nil, &tree)
	if len(tree.FrameTree.ChildFrames) != 1 {
		f.Fatal("the page has no frame")
	}
	var world struct{ ExecutionContextID int }
	f.Call("Page.createIsolatedWorld", map[string]any{"frameId": tree.FrameTree.ChildFrames[0].Frame.ID}, &world)
	return node(f.T, func(method string, params, result any) {
		if m, ok := params.(map[string]any); ok && method == "Runtime.evaluate" {
			m["contextId"] = world.ExecutionContextID
		}
		f.Call(method, params, result)
	}, "document.querySelector('"+selector+"')")
}

// TestFill_NavigationLeaksNothing navigates before each step of a fill, from the origin of
// the secret to another one and back. The other one gets no value.
func TestFill_NavigationLeaksNothing(t *testing.T) {
	t.Parallel()
	allowed, b := newSite(t, "127.0.0.1"), launch(t)
	for name, foreign := range map[string]*site{"same site": newSite(t, "127.0.0.1"), "another site": newSite(t, "localhost")} {
		for direction, pages := range map[string][2]*site{"away": {allowed, foreign}, "back": {foreign, allowed}} {
			t.Run(name+" "+direction, func(t *testing.T) {
				f := newFiller(t, b, pages[0].url)
				page := f.target("page", pages[0].url)
				leave := func() {
					f.Navigate(pages[1].url)
					f.WaitFor("the other page", "document.readyState + ' ' + location.origin", "complete "+pages[1].url)
				}
				steps := 0
				for step := 1; step == 1 || step <= steps+1; step++ {
					f.Navigate(pages[0].url + "/" + fmt.Sprint(step))
					f.WaitFor("the page", "document.readyState + ' ' + location.origin", "complete "+pages[0].url)
					f.origins, f.refuse, f.before = nil, nil, func() {
						if f.refuse = nil; f.origins[len(f.origins)-1] != allowed.url {
							f.refuse = fault.New(fault.Forbidden, "This origin is not allowed.")
						}
						if step == steps+1 {
							leave() // while the cloud is asked
						}
					}
					_, err := f.fill(page, secretfill.Request{Field: "password", Selector: "#password"}, func(n int) {
						if steps = max(steps, n); n == step {
							leave()
						}
					})
					if got := f.Eval("password.value"); got != "" && f.Eval("location.origin") != allowed.url {
						t.Errorf("step %d: the other page has %q, %v", step, got, err)
					}
				}
				if steps < 6 {
					t.Errorf("%d steps", steps)
				}
			})
		}
		if got := foreign.reports(); got != "" {
			t.Errorf("%s: the other site got %q", name, got)
		}
	}
}

// TestFill_ShowsDiscs compares pictures of fields that have different values.
func TestFill_ShowsDiscs(t *testing.T) {
	t.Parallel()
	allowed := newSite(t, "127.0.0.1")
	f := newFiller(t, launch(t), allowed.url)
	page := f.target("page", allowed.url)
	picture := func(style string) []byte {
		f.Eval("document.activeElement.blur(); password.type = 'text'; " + style)
		var shot struct{ Data []byte }
		f.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
		f.Eval("password.type = 'password'")
		return shot.Data
	}
	shots := map[string][]byte{}
	for _, name := range []string{"wwwwww", "iiiiii"} {
		f.value = name
		for field, selector := range map[string]string{"username": "#user", "password": "#password", "totp": "#code"} {
			if _, err := f.fill(page, secretfill.Request{Field: field, Selector: selector}, nil); err != nil {
				t.Fatal(err)
			}
		}
		shots[name] = picture("")
	}
	if !bytes.Equal(shots["wwwwww"], shots["iiiiii"]) {
		t.Error("the picture depends on the value")
	}
	if bytes.Equal(shots["iiiiii"], picture("for (const e of [user, password, code]) e.style.removeProperty('-webkit-text-security')")) {
		t.Error("the picture does not show the fields")
	}
}

func TestFill_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	allowed := newSite(t, "127.0.0.1")
	f := newFiller(t, launch(t), allowed.url)
	f.refuse = fmt.Errorf("refused: %w", cdp.ErrClosed)
	if _, err := f.fill(f.target("page", allowed.url), secretfill.Request{Field: "totp", Selector: "#code"}, nil); err == nil || strings.Contains(err.Error(), value) {
		t.Errorf("got %v", err)
	}
}
