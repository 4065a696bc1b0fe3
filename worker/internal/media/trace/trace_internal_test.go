package trace

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

func TestStepOf_NamesWhatPersonsRecognize(t *testing.T) {
	for message, want := range map[string]string{
		`{"id":1,"method":"Page.navigate","params":{"url":"http://user:pw@a.example/?q=1"}}`:                                       "Navigate to {address} map[address:http://a.example/?q=1]",
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
		if hidden := a.hidden(); (hidden == "") != (test.want == "hello") {
			t.Errorf("%s: hides %q", name, hidden)
		}
	}
}

func TestSecrets_RemovesThemFromValuesOnly(t *testing.T) {
	var s secrets
	for _, secret := range []string{`pass"word`, "startTime", "a b/c", "abc"} {
		s.add(secret)
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

// TestWriter_TruncatesWithMark fills a trace, and packs it although its last lines are incomplete.
func TestWriter_TruncatesWithMark(t *testing.T) {
	dir := t.TempDir()
	w, err := newWriter(dir, time.Now(), 2000)
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
	if len(files) != 3 || files["resources/"+first] != "a picture" || files["trace.network"] != "" || !strings.Contains(events, "Truncated") || strings.Contains(events, "after the limit") || strings.Contains(events, "inco") {
		t.Errorf("got %q", files)
	}
}

// TestRecorder_CountsLostRecords sends more than the queue has room for, without waiting.
func TestRecorder_CountsLostRecords(t *testing.T) {
	var place tap.Tap
	r := New(Source{Tap: &place})
	client := &tap.Client{Name: "a client"}
	for range maxQueued + 7 {
		place.Send(tap.Record{Client: client, Kind: tap.Command, Data: []byte("{}")})
	}
	if lost := r.lost.Load(); lost != 7 {
		t.Errorf("lost %d", lost)
	}
	place.Hide("a secret")
	dir := t.TempDir()
	w, err := NewWriter(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.begin(w)
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
