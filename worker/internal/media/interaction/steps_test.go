package interaction_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

const stepsPage = `<!doctype html><title>Steps</title><style>* { font: 16px/20px sans-serif; margin: 0 } br { display: block }</style>
<input id=user placeholder="User name"><input id=password type=password aria-label=Password>
<button id=echo onclick="this.setAttribute('aria-label', 'Hello ' + document.getElementById('password').value)">Echo</button>
<button id=show onclick="document.getElementById('password').type = 'text'">Show</button><br>
<button id=first>Add</button><button id=second>Add</button><button style="display: none">Add</button><button aria-hidden=true>Add</button><br>
<div id=plain>Plain text</div><div data-testid=test id=test><b>x</b>y</div><div id=named><i>x</i>y</div><div><u id=><i>x</i>y</u></div>
<select id=color aria-labelledby=label><option>red<option>green</select><b id=label>Color</b>
<label for=box id=boxlabel>Accept</label><input type=checkbox id=box><input type=date id=date aria-label=When><br>
<div id=editor contenteditable role=textbox aria-label=Editor style="height: 20px"></div>
<div id=open></div><div id=closed></div><a id=popup target=_blank href=/other>New tab</a> <a id=link href=/other>Other</a>
<iframe id=frame srcdoc="<body style='margin: 0'><button>In a frame</button>" width=200 height=30></iframe>
<script>
document.getElementById('open').attachShadow({mode: 'open'}).innerHTML = '<button>In a shadow</button>';
document.getElementById('closed').attachShadow({mode: 'closed'}).innerHTML = '<input type=password>';
</script>`

// stepsOf is a browser whose steps are collected.
type stepsOf struct {
	*watched
	steps chan script.Step
}

func newSteps(t *testing.T) *stepsOf {
	t.Helper()
	s := &stepsOf{newWatched(t), make(chan script.Step, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	conn, ended := s.connect(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = interaction.WatchSteps(ctx, conn, "world", func(step script.Step) { s.steps <- step })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

// text describes a step.
func text(s script.Step) string {
	parts := []string{string(s.Kind)}
	for _, f := range s.Frames {
		parts = append(parts, "in", f.Path)
	}
	if t := s.Target; t != nil {
		parts = append(parts, string(t.Way), t.Role, t.Name)
		if t.Count > 1 {
			parts = append(parts, string(rune('0'+t.Index))+"/"+string(rune('0'+t.Count)))
		}
		if t.Name == "" || t.Shadow {
			parts = append(parts, t.Path)
		}
	}
	parts = append(append(parts, s.Values...), s.Key, s.URL)
	if s.Secret {
		parts = append(parts, "secret")
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// next returns the next step.
func (s *stepsOf) next() string {
	s.Helper()
	select {
	case step := <-s.steps:
		if raw, _ := json.Marshal(step); strings.Contains(string(raw), "s3cret") {
			s.Errorf("a step has the secret: %s", raw)
		}
		return text(step)
	case <-time.After(5 * time.Second):
		return "nothing"
	}
}

func (s *stepsOf) enter(text string) {
	s.Helper()
	s.call("Input.insertText", map[string]any{"text": text}, nil)
}

func (s *stepsOf) press(key string, modifiers int, text string) {
	s.Helper()
	down := map[string]any{"type": "keyDown", "key": key, "modifiers": modifiers, "text": text}
	s.call("Input.dispatchKeyEvent", down, nil)
	s.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "modifiers": modifiers}, nil)
}

// mouse presses a button of the mouse on an element a number of times, as a person does.
func (s *stepsOf) mouse(id, button string, times int) {
	s.Helper()
	for count := 1; count <= times; count++ {
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			position := decodePoint(s, id)
			s.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": position[0], "y": position[1], "button": button, "clickCount": count}, nil)
		}
	}
}

func decodePoint(s *stepsOf, id string) (point [2]float64) {
	s.Helper()
	text := s.evaluate(`(e => { const r = e.getBoundingClientRect(); return JSON.stringify([r.x + Math.min(8, r.width / 2), r.y + r.height / 2]) })(document.getElementById('` + id + `'))`)
	if err := json.Unmarshal([]byte(text), &point); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
	return point
}

// TestWatchSteps_DescribesWhatIsDone uses each kind of control, as clients and persons do.
func TestWatchSteps_DescribesWhatIsDone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(map[string]string{"/": stepsPage}[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	s := newSteps(t)
	for got := ""; got != "tab"; got = s.next() { // of the tab that the test opens, or of the first one
		continue
	}
	s.open(server.URL + "/")
	testenv.Eventually(t, "the document is followed", func() bool {
		for len(s.steps) > 0 {
			if text(<-s.steps) == "goto "+server.URL+"/" {
				return true
			}
		}
		return false
	})
	time.Sleep(300 * time.Millisecond) // until the listeners are in the document and its frame
	const field, password, editor = "role textbox User name", "role textbox Password", "role textbox Editor"
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { s.click("user"); s.enter("Ada"); s.press("Tab", 0, "") }, []string{"click " + field, "fill " + field + " Ada", "press " + field + " Tab"}},
		{func() { s.enter("s3cret-1"); s.press("Enter", 0, "\r") }, []string{"fill " + password + " secret", "press " + password + " Enter"}},
		{func() { s.click("echo"); s.click("echo") }, []string{"click role button Echo", "click text Echo"}},
		{func() { s.click("show"); s.click("password"); s.enter("s3cret-2"); s.click("first") }, []string{
			"click role button Show", "click " + password, "fill " + password + " secret", "click role button Add 0/2",
		}},
		{func() { s.mouse("second", "left", 2) }, []string{"click role button Add 1/2", "dblclick role button Add 1/2"}},
		{func() { s.mouse("plain", "right", 1); s.mouse("plain", "middle", 1) }, []string{"rightclick text Plain text", "middleclick text Plain text"}},
		{func() { s.click("test"); s.click("named") }, []string{"click testid test", "click id #named"}},
		{func() { s.click("boxlabel"); s.click("box") }, []string{"check role checkbox Accept", "uncheck role checkbox Accept"}},
		{func() {
			s.evaluate(`(e => { e.value = 'green'; e.dispatchEvent(new Event('change', {bubbles: true})) })(document.getElementById('color'))`)
		}, []string{"select role combobox Color green"}},
		{func() {
			s.evaluate(`(e => { e.value = '2026-01-05'; for (const name of ['input', 'change']) e.dispatchEvent(new Event(name, {bubbles: true})) })(document.getElementById('date'))`)
		}, []string{"set label When 2026-01-05"}},
		{func() { s.click("editor"); s.enter("new"); s.click("open") }, []string{"click " + editor, "fill " + editor + " new", "click role button In a shadow button"}},
		{func() { s.press("k", 2, "") }, []string{"press role button In a shadow button Control+k"}},
		{func() { s.click("closed"); s.press("x", 0, "x"); s.press("Escape", 0, "") }, []string{"click id #closed", "press id #closed Escape"}},
		{func() { s.click("frame") }, []string{"click in #frame role button In a frame"}},
		{func() { s.evaluate(`document.getElementById('first').click()`); s.click("popup") }, []string{"click role link New tab", "tab", "arrive " + server.URL + "/other"}},
	} {
		step.do()
		for _, want := range step.want {
			if got := s.next(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	s.call("Page.bringToFront", nil, nil)
	s.click("link")
	s.loaded()
	for _, want := range []string{"click role link Other", "arrive " + server.URL + "/other"} {
		if got := s.next(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	time.Sleep(3500 * time.Millisecond) // later, a page does not do it because of the click
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { s.call("Page.navigateToHistoryEntry", map[string]any{"entryId": s.entry(0)}, nil) }, "back"},
		{func() { s.call("Page.navigateToHistoryEntry", map[string]any{"entryId": s.entry(1)}, nil) }, "forward"},
		{func() { s.call("Page.reload", nil, nil) }, "reload"},
		{func() {
			s.call("Page.navigate", map[string]any{"url": strings.Replace(server.URL, "http://", "http://user:s3cret@", 1) + "/?a=1"}, nil)
		}, "goto " + server.URL + "/?a=1"},
	} {
		step.do()
		if got := s.next(); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	for len(s.steps) > 0 {
		t.Errorf("one more: %s", text(<-s.steps))
	}
}

// entry returns the id of an entry of the history, from the first one of the site.
func (s *stepsOf) entry(n int) int {
	s.Helper()
	var history struct{ Entries []struct{ ID int } }
	s.call("Page.getNavigationHistory", nil, &history)
	return history.Entries[len(history.Entries)-2+n].ID
}
