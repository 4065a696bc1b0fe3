package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	maxSnapshot = 40_000 // bytes of a snapshot
	maxName     = 300    // characters of a name or value
	maxURL      = 200    // characters of a link's address
)

// axNode is a node of Accessibility.getFullAXTree.
type axNode struct {
	NodeID           string
	Ignored          bool
	Role             axValue
	Name             axValue
	Value            axValue
	Properties       []axProperty
	ChildIDs         []string
	BackendDOMNodeID int
}

type axProperty struct {
	Name  string
	Value axValue
}

type axValue struct{ Value any }

// text returns the value as one line.
func (v axValue) text() string {
	switch value := v.Value.(type) {
	case nil:
		return ""
	case string:
		return strings.Join(strings.Fields(value), " ")
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		return string(encoded)
	}
}

// frameTree is the accessibility tree of a document.
type frameTree struct {
	nodes  map[string]axNode
	root   string
	ref    func(backendID int) string // assigns a reference
	filled func(backendID int) bool   // reports whether a field was filled with a secret
	hidden hiddenNodes                // what a person cannot see
	inside map[int]*frameTree         // the documents of its frames, by the node of their owner
}

func newFrameTree(nodes []axNode, ref func(int) string) *frameTree {
	t := &frameTree{nodes: map[string]axNode{}, ref: ref, filled: func(int) bool { return false }, inside: map[int]*frameTree{}}
	for i, n := range nodes {
		if i == 0 {
			t.root = n.NodeID
		}
		t.nodes[n.NodeID] = n
	}
	return t
}

// isInteractive reports whether a person can act on a role. These always get a reference.
func isInteractive(role string) bool {
	switch role {
	case "button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "radio", "searchbox",
		"slider", "spinbutton", "switch", "tab", "textbox", "treeitem", "option", "ComboBoxSelect", "Date", "DateTime", "InputTime",
		"ColorWell", "DisclosureTriangle", "PopUpButton", "ToggleButton":
		return true
	}
	return false
}

// isTransparent reports whether only the content of a role is shown.
func isTransparent(role string) bool {
	switch role {
	case "", "none", "generic", "RootWebArea", "WebArea", "LabelText", "MenuListPopup", "Section", "paragraph", "strong", "emphasis",
		"Abbr", "code", "mark", "time", "sectionheader", "sectionfooter":
		return true
	}
	return false
}

// isField reports whether the content of a role is its value, not elements.
func isField(role string) bool {
	switch role {
	case "textbox", "searchbox", "spinbutton", "slider", "Date", "DateTime", "InputTime", "ColorWell":
		return true
	}
	return false
}

// isHidden reports whether a role and its content are not shown.
func isHidden(role string) bool {
	return role == "InlineTextBox" || role == "LineBreak" || role == "ListMarker"
}

// line is a line of a snapshot, with the lines below it.
type line struct {
	text  string // of a text; otherwise empty
	label string // role, name and states
	node  int    // backend DOM node; 0 for none
	acts  bool   // a person can act on it, so it has a reference
	value string
	below []line
	tree  *frameTree
}

// lines returns the lines of a node and of everything below it.
func (t *frameTree) lines(id string, inName string) []line {
	n, ok := t.nodes[id]
	if !ok {
		return nil
	}
	role, name := n.Role.text(), n.Name.text()
	switch {
	case t.filled(n.BackendDOMNodeID) && (n.Ignored || isTransparent(role)):
		return nil
	case n.Ignored:
		return t.children(n, inName)
	case isHidden(role):
		return nil
	case role == "StaticText":
		if name == "" || strings.Contains(inName, name) || t.hidden.nodes[n.BackendDOMNodeID] {
			return nil
		}
		return []line{{text: name, node: n.BackendDOMNodeID, tree: t}}
	case isTransparent(role) && !n.focusable():
		return t.paragraph(n, inName)
	}
	entry := line{label: n.label(), node: n.BackendDOMNodeID, acts: isInteractive(role) || n.focusable(), value: n.shownValue(), tree: t}
	invisible := t.hidden.nodes[n.BackendDOMNodeID]
	if invisible && !entry.acts && !t.filled(n.BackendDOMNodeID) {
		return t.children(n, "")
	}
	if invisible || name != "" && t.isHiddenName(n, name) {
		entry.label += " [hidden]"
	}
	switch inside := t.inside[n.BackendDOMNodeID]; {
	case inside != nil && invisible:
	case inside != nil:
		entry.below = inside.lines(inside.root, "")
	case t.filled(n.BackendDOMNodeID):
		entry.value = filledValue
	case !isField(role):
		entry.below = t.children(n, name)
	}
	if name == "" && entry.value == "" && len(entry.below) == 0 && !entry.acts {
		return nil
	}
	return []line{entry}
}

// paragraph returns the lines of a transparent node. Adjacent texts become one.
func (t *frameTree) paragraph(n axNode, inName string) []line {
	below := t.children(n, inName)
	if len(below) < 2 || n.Role.text() != "paragraph" {
		return below
	}
	texts := make([]string, 0, len(below))
	for _, l := range below {
		if l.text == "" {
			return below
		}
		texts = append(texts, l.text)
	}
	return []line{{text: strings.Join(texts, " "), node: n.BackendDOMNodeID, tree: t}}
}

// isHiddenName reports whether a name contains text that a person cannot see: of the element, or
// of another one that labels it.
func (t *frameTree) isHiddenName(n axNode, name string) bool {
	content, hasHidden := t.ownText(n, name)
	return hasHidden || content != name && t.hidden.matches(name)
}

// ownText returns the visible text of a node, and whether a name contains hidden text of it.
func (t *frameTree) ownText(n axNode, name string) (content string, hasHidden bool) {
	var texts []string
	for _, id := range n.ChildIDs {
		child := t.nodes[id]
		text, hidden := child.Name.text(), false
		if child.Role.text() != "StaticText" {
			text, hidden = t.ownText(child, name)
		} else if t.hidden.nodes[child.BackendDOMNodeID] {
			text, hidden = "", text != "" && strings.Contains(name, text)
		}
		hasHidden = hasHidden || hidden
		if text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " "), hasHidden
}

func (t *frameTree) children(n axNode, inName string) (all []line) {
	for _, id := range n.ChildIDs {
		all = append(all, t.lines(id, inName)...)
	}
	return all
}

func (n axNode) property(name string) string {
	for _, p := range n.Properties {
		if p.Name == name {
			return p.Value.text()
		}
	}
	return ""
}

func (n axNode) focusable() bool {
	return n.property("focusable") == "true" && n.Role.text() != "RootWebArea"
}

// label returns role, name and states.
func (n axNode) label() string {
	var b strings.Builder
	b.WriteString(n.Role.text())
	if name := n.Name.text(); name != "" {
		b.WriteString(" " + quote(name))
	}
	for _, state := range []string{"level", "checked", "pressed", "expanded", "selected", "disabled", "readonly", "required", "invalid", "focused"} {
		switch value := n.property(state); {
		case value == "", value == "false" && state != "checked" && state != "expanded":
		case value == "true":
			b.WriteString(" [" + state + "]")
		default:
			b.WriteString(" [" + state + "=" + value + "]")
		}
	}
	if url := n.property("url"); url != "" && n.Role.text() == "link" {
		b.WriteString(" [url=" + shorten(url, maxURL) + "]")
	}
	return b.String()
}

func (n axNode) shownValue() string {
	if value := n.Value.text(); value != n.Name.text() {
		return value
	}
	return ""
}

// treeWriter writes lines until its text is full, and assigns references to all of them.
type treeWriter struct {
	strings.Builder
	skip           int // lines to leave out
	total, written int // lines
	full           bool
}

func (w *treeWriter) lines(lines []line, depth int) {
	for _, l := range lines {
		text := strings.Repeat("  ", depth) + "- " + l.format() + "\n"
		w.total++
		if w.total > w.skip && !w.full {
			if w.full = w.Len()+len(text) > maxSnapshot; !w.full {
				w.WriteString(text)
				w.written++
			}
		}
		if l.onlyText() == "" {
			w.lines(l.below, depth+1)
		}
	}
}

// onlyText returns the text below a line if there is nothing else.
func (l line) onlyText() string {
	if l.value != "" {
		return ""
	}
	var texts []string
	for _, below := range l.below {
		if below.text == "" {
			return ""
		}
		texts = append(texts, below.text)
	}
	return strings.Join(texts, " ")
}

func (l line) format() string {
	ref := ""
	if leaf := len(l.below) == 0 || l.onlyText() != ""; l.node != 0 && (l.acts || leaf) {
		ref = " [ref=" + l.tree.ref(l.node) + "]"
	}
	if l.text != "" {
		return "text" + ref + ": " + shorten(l.text, maxName)
	}
	if content := l.onlyText() + l.value; content != "" {
		return l.label + ref + ": " + shorten(content, maxName)
	}
	return l.label + ref
}

// quote returns a text as a short string literal.
func quote(text string) string { return fmt.Sprintf("%q", shorten(text, maxName)) }

// shorten limits a text to a number of characters.
func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
