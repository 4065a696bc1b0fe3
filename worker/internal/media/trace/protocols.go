package trace

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

// protocolStep is the step of a command of WebDriver or MCP.
type protocolStep struct {
	title          string
	changes, loads bool
}

var webDriverSteps = map[string]protocolStep{
	"POST url":               {"Navigate to {address}", true, true},
	"POST back":              {"Go back", true, true},
	"POST forward":           {"Go forward", true, true},
	"POST refresh":           {"Reload", true, true},
	"POST element":           {"Find {value}", false, false},
	"POST elements":          {"Find all {value}", false, false},
	"POST element/element":   {"Find {value}", false, false},
	"POST element/elements":  {"Find all {value}", false, false},
	"POST element/click":     {"Click {element}", true, false},
	"POST element/clear":     {"Clear {element}", true, false},
	"POST actions":           {"Perform actions", true, false},
	"POST window":            {"Switch to a window", false, false},
	"POST window/new":        {"Open a window", false, false},
	"DELETE window":          {"Close the window", false, false},
	"POST window/rect":       {"Set the size of the window", true, false},
	"POST frame":             {"Switch to a frame", false, false},
	"POST frame/parent":      {"Switch to the parent frame", false, false},
	"GET screenshot":         {"Take a screenshot", false, false},
	"GET element/screenshot": {"Take a screenshot of {element}", false, false},
	"POST print":             {"Print to PDF", false, false},
	"POST alert/accept":      {"Accept the dialog", true, false},
	"POST alert/dismiss":     {"Dismiss the dialog", true, false},
	"POST alert/text":        {"Answer the dialog", false, false},
	"POST cookie":            {"Add a cookie", false, false},
	"POST goog/cdp/execute":  {"Send a command of CDP", true, false},
	"POST element/submit":    {"Submit {element}", true, true},
	"GET element/text":       {"Get the text of {element}", false, false},
	"GET element/displayed":  {"Check whether {element} is shown", false, false},
	"GET title":              {"Get the title", false, false},
	"GET url":                {"Get the address", false, false},
	"GET source":             {"Get the source of the page", false, false},
}

var mcpSteps = map[string]protocolStep{
	"navigate":      {"Navigate to {address}", true, true},
	"go_back":       {"Go back", true, true},
	"click":         {"Click {ref}", true, false},
	"fill_form":     {"Fill a form", true, false},
	"select_option": {"Select options of {ref}", true, false},
	"hover":         {"Hover over {ref}", true, false},
	"drag":          {"Drag {ref}", true, false},
	"click_at":      {"Click", true, false},
	"drag_at":       {"Drag", true, false},
	"fill_secret":   {"Fill the secret {secret}", true, false},
	"screenshot":    {"Take a screenshot", false, false},
	"snapshot":      {"List the elements of the page", false, false},
	"read_page":     {"Read the page", false, false},
	"new_tab":       {"Open a tab", false, false},
	"select_tab":    {"Select a tab", false, false},
	"close_tab":     {"Close a tab", false, false},
	"wait_for":      {"Wait", true, false},
}

// webDriverStep returns the step of a command, which has the verb and the path below the session as its method.
func webDriverStep(s step, params json.RawMessage) step {
	verb, path, _ := strings.Cut(s.method, " ")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 1 && (parts[0] == "element" || parts[0] == "shadow") && parts[1] != "active" {
		s.element = parts[1]
		parts = append(parts[:1], parts[2:]...)
	}
	name := verb + " " + strings.Join(parts, "/")
	var p struct{ URL, Using, Value, Text, Script, Handle, Cmd string }
	_ = json.Unmarshal(params, &p) // what is of another type stays empty
	s.method, s.params = name, object{}
	for name, text := range map[string]string{"address": har.CleanURL(p.URL, nil), "using": p.Using, "command": p.Cmd} {
		if text != "" {
			s.params[name] = cut(text, maxParam)
		}
	}
	switch name {
	case "POST timeouts":
		return s // ignored
	case "POST element/value":
		s.kind, s.alone, s.changes, s.text = key, true, true, p.Text
		return s
	case "POST execute/sync", "POST execute/async":
		return evaluated(s, p.Script)
	case "POST window":
		s.handle = p.Handle
	}
	known, ok := webDriverSteps[name]
	if !ok {
		known.title = name
	}
	if p.Using != "" { // other values can be secrets
		s.finds, s.params["value"] = verb == "POST", cut(p.Value, maxParam)
	}
	s.kind, s.title, s.changes, s.loads = single, known.title, known.changes, known.loads
	return s
}

// evaluated returns the step of an expression.
func evaluated(s step, expression string) step {
	s.kind, s.changes, s.title = single, true, "Evaluate {head}"
	s.params["expression"], s.params["head"] = cut(expression, maxExpression), cut(strings.Join(strings.Fields(expression), " "), maxHead)
	return s
}

// mcpStep returns the step of a tool.
func mcpStep(s step, params json.RawMessage) step {
	var p struct {
		URL, Ref, Target, Tab, Secret, Field, Text, Key, Expression string
		X, Y                                                        float64
	}
	_ = json.Unmarshal(params, &p) // what is of another type stays empty
	for name, text := range map[string]string{"address": har.CleanURL(p.URL, nil), "ref": p.Ref, "target": p.Target, "tab": p.Tab, "secret": p.Secret, "field": p.Field} {
		if text != "" {
			s.params[name] = cut(text, maxParam)
		}
	}
	switch s.method {
	case "type":
		s.kind, s.alone, s.changes, s.text = key, true, true, p.Text
		return s
	case "press_key":
		s.kind, s.alone, s.changes, s.text, s.special = key, true, true, p.Key, len(p.Key) > 1
		return s
	case "evaluate":
		return evaluated(s, p.Expression)
	case "click_at":
		s.point = object{"x": p.X, "y": p.Y}
	}
	known, ok := mcpSteps[s.method]
	if !ok {
		known.title = "Tool " + s.method
	}
	s.kind, s.title, s.changes, s.loads = single, known.title, known.changes, known.loads
	return s
}

// keyNames are the keys without text, as WebDriver sends them.
var keyNames = map[rune]string{
	backspace: "Backspace", '\uE004': "Tab", '\uE006': "Enter", '\uE007': "Enter", '\uE00C': "Escape", '\uE012': "ArrowLeft", '\uE013': "ArrowUp",
	'\uE014': "ArrowRight", '\uE015': "ArrowDown", '\uE017': "Delete", '\uE008': "Shift", '\uE009': "Control", '\uE00A': "Alt", '\uE03D': "Meta",
}

// backspace is a key as WebDriver sends it.
const backspace = '\uE003'

// isKey reports whether a character is a key without text, as WebDriver sends it.
func isKey(r rune) bool { return r >= '\uE000' && r <= '\uE05D' }

// namedKeys returns a text with names for keys without text.
func namedKeys(text string) string {
	var named strings.Builder
	for _, r := range text {
		switch name := keyNames[r]; {
		case name != "":
			named.WriteString("[" + name + "]")
		case isKey(r):
			fmt.Fprintf(&named, "[%U]", r)
		default:
			named.WriteRune(r)
		}
	}
	return named.String()
}

// foundElements notes how the elements in the answer to a search were found.
func (t *tracer) foundElements(a *action, result json.RawMessage) {
	var answer struct{ Value json.RawMessage }
	_ = json.Unmarshal(result, &answer) // without elements otherwise
	var list []map[string]string
	var single map[string]string
	if json.Unmarshal(answer.Value, &list) != nil && json.Unmarshal(answer.Value, &single) == nil {
		list = append(list, single)
	}
	if len(t.elements) > maxSessions {
		clear(t.elements)
	}
	for _, element := range list {
		for _, id := range element {
			t.elements[id], _ = a.params["value"].(string)
		}
	}
}
