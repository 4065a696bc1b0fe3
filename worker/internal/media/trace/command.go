package trace

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

const (
	maxExpression = 2 << 10 // bytes of an expression
	maxHead       = 80      // bytes of an expression in a title
	maxParam      = 1 << 10 // bytes of another parameter
)

// message is a message of either side, perhaps only its beginning.
type message struct {
	ID                int64
	Method, SessionID string
	Params, Result    json.RawMessage
	Error             *struct{ Message string }
}

// readMessage reads the members of a message that are complete.
func readMessage(data []byte) (m message) {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return message{}
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return m
		}
		var ignored json.RawMessage
		field := map[any]any{
			"id": &m.ID, "method": &m.Method, "sessionId": &m.SessionID, "params": &m.Params, "result": &m.Result, "error": &m.Error,
		}[name]
		if field == nil {
			field = &ignored
		}
		if d.Decode(field) != nil {
			return m
		}
	}
	return m
}

// kind says how a command becomes an action.
type kind int

const (
	ignored    kind = iota
	single          // an action
	press           // the beginning of a click
	release         // its end
	key             // a part of what is typed
	scroll          // a part of a scroll
	evaluation      // an action, together with repetitions
	internal        // an evaluation that the client's program needs for itself
)

// step is what a command does.
type step struct {
	kind          kind
	title         string // with names of parameters in braces, as in the format
	class, method string
	params        object
	changes       bool // it can change the page
	loads         bool // it loads a document
	point         object
	text          string // of a key
	special       bool   // the key has no text
	alone         bool   // no other keys belong to the action
	element       string // id of an element of WebDriver
	finds         bool   // the result has elements
	handle        string // of the window for the commands that follow
	world         int    // the execution context of an evaluation; 0: that of the page
}

// values are the parameters of a command that become those of an action.
type values struct {
	URL, Format, Text, Type, Key, Button, Expression, FunctionDeclaration, PromptText, Secret, Field string
	Files                                                                                            []string
	Accept                                                                                           bool
	X, Y, DeltaX, DeltaY                                                                             float64
	ClickCount, Modifiers, Width, Height                                                             int
	EntryID                                                                                          int
	Arguments                                                                                        []struct{ Value json.RawMessage }
	ObjectID                                                                                         string
	ContextID, ExecutionContextID                                                                    int
}

// simple are the commands whose steps have fixed titles.
var simple = map[string]struct {
	title          string
	changes, loads bool
}{
	"Page.navigate":                      {"Navigate to {address}", true, true},
	"Page.reload":                        {"Reload", true, true},
	"Page.navigateToHistoryEntry":        {"Go to entry {entry} of the history", true, true},
	"Page.captureScreenshot":             {"Take a screenshot", false, false},
	"Page.printToPDF":                    {"Print to PDF", false, false},
	"Page.handleJavaScriptDialog":        {"Answer a dialog", true, false},
	"Page.close":                         {"Close the page", false, false},
	"Page.bringToFront":                  {"Bring the page to the front", false, false},
	"Page.setDocumentContent":            {"Set the content of the page", true, false},
	"DOM.setFileInputFiles":              {"Set files {files}", true, false},
	"Target.createTarget":                {"Open a page {address}", false, false},
	"Target.closeTarget":                 {"Close a page", false, false},
	"Browser.close":                      {"Close the browser", false, false},
	"Emulation.setDeviceMetricsOverride": {"Set the viewport to {width} x {height}", true, false},
	"Svc.fillSecret":                     {"Fill the secret {secret}", true, false},
	"Svc.requestHuman":                   {"Hand over to a person", true, false},
}

// stepOf returns what a command does.
func stepOf(m message) step {
	var v values
	_ = json.Unmarshal(m.Params, &v) // what is of another type stays empty
	class, method, _ := strings.Cut(m.Method, ".")
	s := step{kind: ignored, class: class, method: method, params: object{}}
	switch class {
	case "WebDriver":
		return webDriverStep(s, m.Params)
	case "MCP":
		return mcpStep(s, m.Params)
	}
	switch m.Method {
	case "Input.dispatchMouseEvent":
		return mouseStep(s, v)
	case "Input.dispatchTouchEvent":
		return touchStep(s, m.Params, v.Type)
	case "Input.dispatchKeyEvent":
		return keyStep(s, v)
	case "Input.insertText", "Input.imeSetComposition":
		s.kind, s.text, s.changes = key, v.Text, true
		return s
	case "Runtime.evaluate", "Runtime.callFunctionOn":
		return evaluationStep(s, v)
	}
	if fixed, ok := simple[m.Method]; ok {
		s.kind, s.title, s.changes, s.loads = single, fixed.title, fixed.changes, fixed.loads
		s.params = v.params()
	}
	if m.Method == "Page.handleJavaScriptDialog" {
		s.params["accept"] = v.Accept
	}
	return s
}

// params returns the parameters of a single step that are shown.
func (v values) params() object {
	params := object{}
	for name, text := range map[string]string{
		"address": har.CleanURL(v.URL, nil), "format": v.Format, "files": strings.Join(v.Files, ", "), "secret": v.Secret, "field": v.Field,
	} {
		if text != "" {
			params[name] = cut(text, maxParam)
		}
	}
	for name, number := range map[string]int{"entry": v.EntryID, "width": v.Width, "height": v.Height} {
		if number != 0 {
			params[name] = number
		}
	}
	return params
}

func mouseStep(s step, v values) step {
	s.point = object{"x": v.X, "y": v.Y}
	s.params = object{"x": v.X, "y": v.Y, "button": v.Button}
	switch s.changes = true; v.Type {
	case "mousePressed":
		s.kind, s.title = press, "Click"
		switch {
		case v.ClickCount == 2:
			s.title = "Double click"
		case v.ClickCount > 2:
			s.title = "Click {count} times"
			s.params["count"] = v.ClickCount
		case v.Button == "right":
			s.title = "Right click"
		}
	case "mouseReleased":
		s.kind = release
	case "mouseWheel":
		s.kind, s.title, s.params = scroll, "Scroll", object{"deltaX": v.DeltaX, "deltaY": v.DeltaY}
	default: // each move of the pointer
		s.changes = false
	}
	return s
}

func touchStep(s step, params json.RawMessage, kind string) step {
	var touch struct{ TouchPoints []struct{ X, Y float64 } }
	_ = json.Unmarshal(params, &touch) // without points otherwise
	switch kind {
	case "touchStart":
		s.kind, s.title, s.changes = press, "Tap", true
		if len(touch.TouchPoints) > 0 {
			s.point = object{"x": touch.TouchPoints[0].X, "y": touch.TouchPoints[0].Y}
			s.params = s.point
		}
	case "touchEnd", "touchCancel":
		s.kind, s.changes = release, true
	}
	return s
}

// Modifiers of keys that make a command of a text.
const (
	altKey, controlKey, metaKey = 1, 2, 4
)

func keyStep(s step, v values) step {
	if v.Type == "keyUp" {
		return s
	}
	s.kind, s.text, s.changes = key, v.Text, true
	if combined := v.Modifiers & (altKey | controlKey | metaKey); combined != 0 && v.Type != "char" {
		s.special = true
		for name, bit := range map[string]int{"Alt+": altKey, "Control+": controlKey, "Meta+": metaKey} {
			if combined == bit {
				s.text = name + v.Key
			}
		}
		if combined&(combined-1) != 0 {
			s.text = "Control+Alt+" + v.Key
		}
		return s
	}
	if s.text == "\r" || s.text == "" || s.text == "\t" {
		s.special, s.text = true, v.Key
		if len(v.Key) <= 1 || slices.Contains([]string{"Shift", "Control", "Alt", "Meta"}, v.Key) { // its text comes with another event
			s.kind = ignored
		}
	}
	return s
}

// evaluationStep tells what a user evaluates from what clients evaluate for themselves.
func evaluationStep(s step, v values) step {
	expression := v.Expression
	if expression == "" {
		expression = v.FunctionDeclaration
	}
	if strings.Contains(expression, "utilityScript.evaluate(") && len(v.Arguments) > 3 { // Playwright
		expression = ""
		_ = json.Unmarshal(v.Arguments[3].Value, &expression) // not a text: internal
	}
	s.kind, s.changes, s.world = evaluation, true, v.world()
	known, isInternal := recognized(expression)
	switch {
	case known != "":
		s.kind, s.title = single, known
		return s
	case isInternal:
		s.kind, s.changes = internal, false
	}
	if before, _, found := strings.Cut(expression, "\n//# sourceURL="); found { // puppeteer
		expression = before
	}
	s.title, s.params = "Evaluate {head}", object{"expression": cut(expression, maxExpression), "head": cut(strings.Join(strings.Fields(expression), " "), maxHead)}
	return s
}

// world returns the execution context of an evaluation. Ids of objects begin with those of their isolate and their context.
func (v values) world() int {
	if parts := strings.Split(v.ObjectID, "."); len(parts) == 3 {
		id, _ := strconv.Atoi(parts[1]) // 0: unknown
		return id
	}
	return max(v.ContextID, v.ExecutionContextID)
}

// recognized returns a title for an evaluation with which a client does what a user asked for, and whether another one is
// internal.
func recognized(expression string) (title string, isInternal bool) {
	switch {
	case strings.Contains(expression, "injected.selectOptions("), strings.Contains(expression, "instanceof HTMLSelectElement") && strings.Contains(expression, "new Set(vals"):
		return "Select an option", false
	case strings.Contains(expression, "sourceURL=pptr:internal"), strings.Contains(expression, "injected"), strings.Contains(expression, "const module = {};"):
		return "", true
	case strings.TrimSpace(expression) == "", strings.Join(strings.Fields(expression), " ") == "() => { return document; }": // puppeteer
		return "", true
	}
	return "", false
}

// cut shortens a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
