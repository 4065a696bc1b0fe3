package trace

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

func TestStepOf_NamesWhatPersonsRecognize(t *testing.T) {
	for message, want := range map[string]string{
		`{"id":1,"method":"Page.navigate","params":{"url":"http://user:pw@a.example/?q=1&id_token=a#b"}}`:                          "Navigate to {address} map[address:http://a.example/?q=1&id_token=***]",
		`{"method":"Page.reload","params":{},"id":1}`:                                                                              "Reload map[]",
		`{"id":1,"method":"Input.dispatchMouseEvent","params":{"type":"mousePressed","x":1,"y":2,"button":"left","clickCount":2}}`: "Double click map[button:left x:1 y:2]",
		`{"id":1,"method":"Input.dispatchTouchEvent","params":{"type":"touchStart","touchPoints":[{"x":3,"y":4}]}}`:                "Tap map[x:3 y:4]",
		`{"id":1,"method":"DOM.setFileInputFiles","params":{"files":["/a","/b"]}}`:                                                 "Set files {files} map[files:/a, /b]",
		`{"id":1,"method":"Page.handleJavaScriptDialog","params":{"accept":true,"promptText":"secret"}}`:                           "Answer a dialog map[accept:true]",
		`{"id":1,"method":"Runtime.evaluate","params":{"expression":"1 +\n 1"}}`:                                                   "Evaluate {head} map[expression:1 +\n 1 head:1 + 1]",
		`{"id":1,"method":"Svc.fillSecret","params":{"secret":"shop","field":"password"}}`:                                         "Fill the secret {secret} map[field:password secret:shop]",
		`{"id":1,"method":"WebDriver.POST /element/f.A.d.B.e.5/click","params":{}}`:                                                "Click {element} map[]",
		`{"id":1,"method":"WebDriver.POST /element","params":{"using":"css selector","value":"#a"}}`:                               "Find {value} map[using:css selector value:#a]",
		`{"id":1,"method":"WebDriver.POST /alert/text","params":{"text":"secret"}}`:                                                "Answer the dialog map[]",
		`{"id":1,"method":"WebDriver.POST /cookie","params":{"cookie":{"name":"a","value":"secret"}}}`:                             "Add a cookie map[]",
		`{"id":1,"method":"WebDriver.GET /element/e/attribute/href"}`:                                                              "GET element/attribute/href map[]",
		`{"id":1,"method":"MCP.fill_form","params":{"fields":[{"ref":"e1","value":"secret"}]}}`:                                    "Fill a form map[]",
		`{"id":1,"method":"MCP.click","params":{"ref":"e12"}}`:                                                                     "Click {ref} map[ref:e12]",
		`{"id":1,"method":"Runtime.callFunctionOn","params":{"functionDeclaration":"(utilityScript, ...args) => utilityScript.evaluate(...args)","arguments":[{"objectId":"1.2.3"},{"value":true},{"value":true},{"value":"() => 2"},{"value":"secret"}]}}`: "Evaluate {head} map[expression:() => 2 head:() => 2]",
		`{"id":1,"method":"Network.setCookie","params":{"value":"secret"}}`: " map[]",
	} {
		m := readMessage([]byte(message))
		s := stepOf(m)
		if got := s.title + " " + fmt.Sprint(s.params); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", message, got, want)
		}
	}
}

func TestReadMessage_OfBeginning(t *testing.T) {
	m := readMessage([]byte(`{"id":7,"method":"Runtime.evaluate","params":{"expression":"aaaa`))
	if m.ID != 7 || m.Method != "Runtime.evaluate" || m.Params != nil {
		t.Errorf("got %+v", m)
	}
	for _, invalid := range []string{"", "[]", `{"id":`, `{"id":"a"}`, "\xff"} {
		if m := readMessage([]byte(invalid)); m.ID != 0 || m.Method != "" {
			t.Errorf("%q: got %+v", invalid, m)
		}
	}
}

// TestAction_ShowsOnlyKeysOfKnownFields types into a field of each kind, and looks at the focus before, during and after.
func TestAction_ShowsOnlyKeysOfKnownFields(t *testing.T) {
	start := time.UnixMilli(1_800_000_000_000)
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type focus struct {
		ms   int
		kind string
	}
	for name, test := range map[string]struct {
		since, now int
		focus      []focus
		want       string
	}{
		"a text field":                             {0, 200, []focus{{0, "none"}, {50, "text"}}, "hello"},
		"a password field":                         {0, 200, []focus{{50, "secret"}}, mask},
		"a frame":                                  {0, 200, []focus{{50, "unknown"}}, mask},
		"a text field before a password field":     {0, 200, []focus{{50, "text"}, {130, "secret"}}, "hello"},
		"a text field after a password field":      {0, 200, []focus{{10, "secret"}, {50, "text"}}, "hello"},
		"a password field while it is typed":       {0, 200, []focus{{50, "text"}, {110, "secret"}}, mask},
		"a password field that was left meanwhile": {0, 200, []focus{{50, "secret"}, {110, "text"}}, mask},
		"another document":                         {150, 200, []focus{{150, "text"}}, mask},
		"a check that came too early":              {0, 105, []focus{{50, "text"}}, mask},
	} {
		a := &action{step: step{kind: key}, keys: []*typedKey{{text: "hello", sent: after(100), answered: after(120)}}}
		log := focusLog{Since: millis(after(test.since)), Now: millis(after(test.now))}
		for _, f := range test.focus {
			log.Log = append(log.Log, struct {
				T    float64
				Kind string
			}{millis(after(f.ms)), f.kind})
		}
		a.judge(log)
		if a.describeKeys(); a.params["text"] != test.want {
			t.Errorf("%s: got %v, want %s", name, a.params["text"], test.want)
		}
		if hidden := a.hidden(false, false); (hidden == nil) != (test.want == "hello") {
			t.Errorf("%s: hides %q", name, hidden)
		}
	}
}

// TestAction_HidesWhatFieldsGet types with special keys, and into fields that the focus tells apart.
func TestAction_HidesWhatFieldsGet(t *testing.T) {
	tab, back := &typedKey{text: "Tab", special: true}, &typedKey{text: "Backspace", special: true}
	for name, test := range map[string]struct {
		keys        []*typedKey
		typed, done []string
	}{
		"two fields":            {[]*typedKey{{text: "alice"}, tab, {text: "hunt"}, {text: "er2"}}, []string{"alice", "", "hunt", "hunter2"}, []string{"alice", "hunter2"}},
		"keys of WebDriver":     {[]*typedKey{{text: "alice\uE004hunter2\uE007"}}, []string{"alice", "hunter2", ""}, []string{"alice", "hunter2"}},
		"a correction":          {[]*typedKey{{text: "huntr"}, back, {text: "er2"}}, []string{"huntr", "hunt", "hunter2"}, []string{"hunter2"}},
		"focus without a key":   {[]*typedKey{{text: "4111", field: 1}, {text: "2222", field: 2}, {text: "3"}}, []string{"4111", "2222", "22223"}, []string{"4111", "22223"}},
		"a field that is shown": {[]*typedKey{{text: "hunter2"}, {text: "Ada", isPlain: true}, {text: "code"}}, []string{"hunter2", "code"}, []string{"hunter2", "code"}},
		"a long text":           {[]*typedKey{{text: strings.Repeat("a", maxHidden+1)}}, []string{strings.Repeat("a", maxHidden), "a"}, []string{strings.Repeat("a", maxHidden), "a"}},
	} {
		a := &action{step: step{kind: key}, keys: test.keys}
		if diff := cmp.Diff([][]string{test.typed, test.done}, [][]string{a.hidden(true, false), a.hidden(false, false)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTracer_HidesTypedTextsAtOnce writes lines while a command waits for its answer, and after its action.
func TestTracer_HidesTypedTextsAtOnce(t *testing.T) {
	dir, client := t.TempDir(), &tap.Client{}
	w, err := NewWriter(dir, time.Now(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	tr := newTracer(New(Source{Tap: new(tap.Tap)}), w)
	for _, message := range []string{`{"id":1,"method":"Input.insertText","params":{"text":"alice"}}`, `{"id":2,"method":"Input.dispatchKeyEvent","params":{"type":"keyDown","key":"Tab"}}`, `{"id":3,"method":"Input.insertText","params":{"text":"hunter2"}}`} {
		tr.handle(t.Context(), tap.Record{Client: client, Kind: tap.Command, At: time.Now(), Data: []byte(message)})
	}
	w.line(object{"text": "1 alice hunter2"})
	tr.end()
	w.line(object{"text": "2 alice hunter2"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, EventsName))
	if text := string(raw); err != nil || strings.Contains(text, "hunter2") || strings.Contains(text, "alice") || strings.Count(text, "*** ***") != 2 {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestSecrets_RemovesThemFromValuesOnly(t *testing.T) {
	var s secrets
	for _, secret := range []string{`pass"word`, "startTime", "a b/c", "abc"} {
		s.set(secret, []string{secret})
	}
	line := s.remove([]byte(`{"type":"before","startTime":1.5,"params":{"url":"http://a/?p=pass%22word&q=a+b%2Fc","list":["xpass\"wordx","abc"],"startTime":"startTime"}}`))
	var got any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "before", "startTime": 1.5, "params": map[string]any{
		"url": "http://a/?p=***&q=***", "list": []any{"x***x", "abc"}, "startTime": mask,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecrets_HidesTheLatest types more texts than the list can have.
func TestSecrets_HidesTheLatest(t *testing.T) {
	s := secrets{filled: (&filledFields{[]string{"first"}}).Values}
	for i := range maxTyped + 1 {
		s.set(fmt.Sprint(i), []string{fmt.Sprintf("text %d.", i)})
	}
	if got, want := string(s.remove([]byte(`["first","text 1000."]`))), `["***","***"]`+"\n"; got != want || len(s.typed) != maxTyped {
		t.Errorf("got %s with %d texts", got, len(s.typed))
	}
}

// TestTracer_ForgetsUnansweredCommands sends commands that get no answers.
func TestTracer_ForgetsUnansweredCommands(t *testing.T) {
	w, err := NewWriter(t.TempDir(), time.Now(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	tr, client := newTracer(New(Source{Tap: new(tap.Tap)}), w), &tap.Client{}
	for i := range maxOpen + 10 {
		tr.handle(t.Context(), tap.Record{Client: client, Kind: tap.Command, At: time.Now(), Data: fmt.Appendf(nil, `{"id":%d,"method":"Page.reload"}`, i+1)})
	}
	if err := w.Close(); err != nil || len(tr.waiting) != maxOpen || len(tr.actions) != maxOpen {
		t.Errorf("%d commands of %d actions wait: %v", len(tr.waiting), len(tr.actions), err)
	}
}

// TestTracer_CapturesWhatWasPostponed ends a capture before the goroutine that captures is ready for the next one.
func TestTracer_CapturesWhatWasPostponed(t *testing.T) {
	tr := newTracer(New(Source{Tap: new(tap.Tap)}), nil)
	for _, target := range []string{"first", "second"} {
		a := &action{step: step{kind: single, changes: true}, id: target, page: target}
		tr.pages[target], tr.actions = &page{changed: a}, append(tr.actions, a)
	}
	first, second := tr.actions[0], tr.actions[1]
	tr.captureDue(t.Context(), first)
	tr.captureDue(t.Context(), second)
	if !first.capturing || second.capturing || !second.postponed {
		t.Fatalf("at first: %+v, %+v", first, second)
	}
	first.open = true // so that it is not written
	tr.captured(t.Context(), <-tr.captures, snapshot{}, errTooLarge)
	if second.postponed || !second.capturing {
		t.Errorf("in the end: %+v", second)
	}
}

// TestTracer_FollowsRequestsAgain loses the connection of the requests.
func TestTracer_FollowsRequestsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := NewWriter(dir, time.Now(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		connections := 0
		tr := newTracer(New(Source{Tap: new(tap.Tap), Connect: func(context.Context) (*cdp.Conn, error) {
			input, _ := io.Pipe()
			_, output := io.Pipe()
			conn := cdp.New(input, output)
			if connections++; connections == 1 {
				_ = conn.Close()
			}
			return conn, nil
		}}), w)
		ctx, cancel := context.WithCancel(t.Context())
		go tr.followRequests(ctx)
		synctest.Wait()
		tr.reportLost() // of the end of a browser, nothing is missing
		time.Sleep(retryInterval)
		synctest.Wait()
		tr.reportLost()
		cancel()
		synctest.Wait()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, EventsName))
		if err != nil || connections != 2 || strings.Count(string(raw), "requests before this are missing") != 1 {
			t.Errorf("%d connections: %s, %v", connections, raw, err)
		}
	})
}

// TestWriter_TruncatesWithMark fills a trace, and packs it although its last lines are incomplete.
func TestWriter_TruncatesWithMark(t *testing.T) {
	dir := t.TempDir()
	ended := 0
	w, err := newWriter(dir, time.Now(), 2000, func() { ended++ })
	if err != nil {
		t.Fatal(err)
	}
	w.line(object{"type": "context-options"})
	first := w.add([]byte("a picture"), ".jpeg")
	if again := w.add([]byte("a picture"), ".jpeg"); again != first {
		t.Errorf("got %q and %q", first, again)
	}
	w.add(make([]byte, 3000), ".dat")
	w.line(object{"type": "after the limit"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	open := map[string]io.Reader{}
	for _, name := range Names() {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name != ResourcesName {
			raw = append(raw, `{"name":"inco`...)
		}
		open[name] = bytes.NewReader(raw)
	}
	var packed bytes.Buffer
	if err := WriteZip(&packed, Parts{open[EventsName], open[NetworkName], open[ResourcesName], open[IndexName], int64(len("a picture"))}); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(raw)
	}
	events := files["trace.trace"]
	if ended != 1 || len(files) != 3 || files["resources/"+first] != "a picture" || files["trace.network"] != "" || !strings.Contains(events, "Truncated") || strings.Contains(events, "after the limit") || strings.Contains(events, "inco") {
		t.Errorf("got %q", files)
	}
}

// filledFields are fields with secrets.
type filledFields struct{ values []string }

func (*filledFields) Nodes(string) []int { return nil }

func (f *filledFields) Values() []string { return f.values }

// TestWriter_LimitsSteps adds more steps than a script can have, among them one with a secret.
func TestWriter_LimitsSteps(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(dir, time.Now(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	w.begin(func() []string { return []string{"planted"} })
	for range maxSteps + 7 {
		w.addStep(script.Step{Kind: script.Fill, Target: &script.Locator{}, Values: []string{"planted"}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, StepsName))
	if err != nil || strings.Contains(string(raw), "planted") {
		t.Fatalf("got %.300s, %v", raw, err)
	}
	steps, err := script.Read(bytes.NewReader(raw))
	if err != nil || len(steps) != maxSteps || !steps[0].Secret || steps[maxSteps-1].Kind != script.Missing {
		t.Errorf("got %d steps, %v", len(steps), err)
	}
}

// TestRecorder_CountsLostRecords sends more than the queue has room for, without waiting.
func TestRecorder_CountsLostRecords(t *testing.T) {
	var place tap.Tap
	r := New(Source{Tap: &place, Filled: &filledFields{[]string{"a secret"}}})
	client := &tap.Client{Name: "a client"}
	for range maxQueued + 7 {
		place.Send(tap.Record{Client: client, Kind: tap.Command, Data: []byte("{}")})
	}
	if lost := r.lost.Load(); lost != 7 {
		t.Errorf("lost %d", lost)
	}
	dir := t.TempDir()
	w, err := NewWriter(dir, time.Now(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	w.begin(r.Filled.Values)
	tr := &tracer{Recorder: r, w: w}
	tr.reportLost()
	w.line(object{"text": "has a secret"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if place.Active() {
		t.Error("the tap is still observed")
	}
	raw, err := os.ReadFile(filepath.Join(dir, EventsName))
	if err != nil || !strings.Contains(string(raw), `"method":"lost","params":{"count":7}`) || strings.Contains(string(raw), "a secret") {
		t.Errorf("got %s, %v", raw, err)
	}
}
