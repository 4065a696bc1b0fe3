package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/browser-svc/svc/worker/internal/media/keys"
)

// maxKeystrokes is the longest text that is typed key by key. Longer text is inserted.
const maxKeystrokes = 500

// point is a position in the viewport, in CSS pixels.
type point struct{ x, y float64 }

// locate scrolls an element into view and returns its center.
func (b *browser) locate(ctx context.Context, t *tab, e element, ref string) (point, error) {
	node := map[string]any{"backendNodeId": e.node}
	if err := b.callIn(ctx, t, e.session, "DOM.scrollIntoViewIfNeeded", node, nil); err != nil {
		return point{}, refused(err, ref)
	}
	var answer struct{ Quads [][]float64 }
	if err := b.callIn(ctx, t, e.session, "DOM.getContentQuads", node, &answer); err != nil {
		return point{}, refused(err, ref)
	}
	for _, q := range answer.Quads {
		if len(q) != 8 || (q[0] == q[4] && q[1] == q[5]) {
			continue
		}
		center := point{(q[0] + q[2] + q[4] + q[6]) / 4, (q[1] + q[3] + q[5] + q[7]) / 4}
		offset, err := b.offset(ctx, t, e.session)
		return point{center.x + offset.x, center.y + offset.y}, err
	}
	return point{}, errInvisible(ref)
}

// offset returns where the viewport of a frame of another site is in the tab.
func (b *browser) offset(ctx context.Context, t *tab, session string) (origin point, err error) {
	b.mu.Lock()
	frames := t.frames
	b.mu.Unlock()
	for session != t.session {
		var current embedded
		for _, f := range frames {
			if f.session == session {
				current = f
			}
		}
		if current.session == "" {
			return origin, errTabClosed
		}
		node, err := b.owner(ctx, t, current.parent, current.frame)
		if err != nil {
			return origin, err
		}
		var box struct{ Model struct{ Content []float64 } }
		if err := b.callIn(ctx, t, current.parent, "DOM.getBoxModel", map[string]any{"backendNodeId": node}, &box); err != nil {
			return origin, err
		}
		if len(box.Model.Content) > 1 {
			origin.x, origin.y = origin.x+box.Model.Content[0], origin.y+box.Model.Content[1]
		}
		session = current.parent
	}
	return origin, nil
}

func (b *browser) mouse(ctx context.Context, t *tab, kind string, position point, clicks int) error {
	params := map[string]any{"type": kind, "x": position.x, "y": position.y}
	if clicks > 0 {
		params["button"], params["clickCount"] = "left", clicks
	}
	return b.call(ctx, t, "Input.dispatchMouseEvent", params, nil)
}

// hover moves the pointer over an element.
func (b *browser) hover(ctx context.Context, t *tab, e element, ref string) error {
	position, err := b.locate(ctx, t, e, ref)
	if err != nil {
		return err
	}
	return b.mouse(ctx, t, "mouseMoved", position, 0)
}

// click clicks an element, once or twice.
func (b *browser) click(ctx context.Context, t *tab, e element, ref string, times int) error {
	position, err := b.locate(ctx, t, e, ref)
	if err != nil {
		return err
	}
	return b.clickAt(ctx, t, position, times)
}

func (b *browser) clickAt(ctx context.Context, t *tab, position point, times int) error {
	err := b.mouse(ctx, t, "mouseMoved", position, 0)
	for i := 1; i <= times && err == nil; i++ {
		if err = b.mouse(ctx, t, "mousePressed", position, i); err == nil {
			err = b.mouse(ctx, t, "mouseReleased", position, i)
		}
	}
	return err
}

// press presses and releases a key.
func (b *browser) press(ctx context.Context, t *tab, k keys.Key, modifiers int) error {
	if err := b.call(ctx, t, "Input.dispatchKeyEvent", k.Event(true, modifiers), nil); err != nil {
		return err
	}
	return b.call(ctx, t, "Input.dispatchKeyEvent", k.Event(false, modifiers), nil)
}

// parseKeys reads a key with modifiers, such as Control+A.
func parseKeys(text string) (modifierKeys []keys.Key, k keys.Key, err error) {
	names := strings.Split(text, "+")
	if rest, ok := strings.CutSuffix(text, "++"); ok {
		names = append(strings.Split(rest, "+"), "+")
	} else if text == "+" {
		names = []string{text}
	}
	for i, name := range names {
		k, ok := keys.Named(name)
		last := i == len(names)-1
		if !ok || !last && k.Modifier == 0 {
			return nil, k, toolError(fmt.Sprintf("%s is not a key. Use a character or a name such as Enter, Tab, Escape, ArrowDown, F5 or Control+A.", quote(text)))
		}
		if last {
			return modifierKeys, k, nil
		}
		modifierKeys = append(modifierKeys, k)
	}
	return modifierKeys, k, nil
}

// pressKeys presses a key while modifiers are held.
func (b *browser) pressKeys(ctx context.Context, t *tab, text string) error {
	modifierKeys, k, err := parseKeys(text)
	if err != nil {
		return err
	}
	modifiers := 0
	for _, m := range modifierKeys {
		modifiers |= m.Modifier
		if err := b.call(ctx, t, "Input.dispatchKeyEvent", m.Event(true, modifiers), nil); err != nil {
			return err
		}
	}
	err = b.press(ctx, t, k, modifiers)
	for i := len(modifierKeys) - 1; i >= 0 && err == nil; i-- {
		modifiers &^= modifierKeys[i].Modifier
		err = b.call(ctx, t, "Input.dispatchKeyEvent", modifierKeys[i].Event(false, modifiers), nil)
	}
	return err
}

// apply calls a JavaScript function on an element and decodes its result.
func (b *browser) apply(ctx context.Context, t *tab, e element, ref, function string, into any, args ...any) error {
	var object struct{ Object struct{ ObjectID string } }
	if err := b.callIn(ctx, t, e.session, "DOM.resolveNode", map[string]any{"backendNodeId": e.node}, &object); err != nil {
		return refused(err, ref)
	}
	arguments := []map[string]any{}
	for _, arg := range args {
		arguments = append(arguments, map[string]any{"value": arg})
	}
	answer := evaluated{into: into}
	err := b.callIn(ctx, t, e.session, "Runtime.callFunctionOn", map[string]any{
		"objectId": object.Object.ObjectID, "functionDeclaration": function, "arguments": arguments, "returnByValue": true, "userGesture": true,
	}, &answer.raw)
	if err != nil {
		return err
	}
	return answer.decode()
}

// fieldKind says how text gets into an element: key by key into a text, a multi-line text
// or a widget that takes keys, or as a value into a field with its own picker. It is none
// for elements that take no text, such as headings, links and buttons.
const fieldKind = `function() {
  if (this.nodeType !== 1) return 'none';
  if (this.matches(':disabled') || this.readOnly) return 'locked';
  if (this.isContentEditable || this.tagName === 'TEXTAREA') return 'lines';
  if (this.tagName === 'SELECT') return 'select';
  if (this.tagName !== 'INPUT') {
    const role = this.getAttribute('role') ?? '';
    if (['textbox', 'searchbox', 'combobox', 'spinbutton', 'application', 'grid', 'gridcell', 'listbox', 'tree'].includes(role)) return 'keys';
    return role === '' && this.hasAttribute('tabindex') && this.tabIndex >= 0 && this.matches('div, span, canvas') ? 'keys' : 'none';
  }
  if (['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(this.type)) return 'value';
  return ['button', 'checkbox', 'radio', 'submit', 'reset', 'image', 'file', 'hidden'].includes(this.type) ? 'none' : 'text';
}`

const selectContent = `function() {
  this.focus();
  if (this.select) { this.select(); return true; }
  getSelection().selectAllChildren(this);
  return true;
}`

const setValue = `function(value) {
  this.focus();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(this, value);
  this.dispatchEvent(new Event('input', {bubbles: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return this.value;
}`

// typeText replaces the content of a field with a text.
func (b *browser) typeText(ctx context.Context, t *tab, e element, ref, text string) error {
	var kind string
	if err := b.apply(ctx, t, e, ref, fieldKind, &kind); err != nil {
		return err
	}
	switch kind {
	case "none":
		return toolError(fmt.Sprintf("The element %s takes no text. Use a textbox, searchbox or combobox of the snapshot, click for this element, or press_key for keys without a field.", ref))
	case "select":
		return toolError(fmt.Sprintf("The element %s is a list of options. Use select_option for it.", ref))
	case "locked":
		return toolError(fmt.Sprintf("The field %s is disabled or read-only.", ref))
	case "value":
		var got string
		if err := b.apply(ctx, t, e, ref, setValue, &got, text); err != nil {
			return err
		}
		if got != text && text != "" {
			return toolError(fmt.Sprintf("The field %s did not accept %s. A date is 2026-12-31, a time 23:59, a color #ff8800; a number must be in the range of the field.", ref, quote(text)))
		}
		return nil
	}
	if err := b.click(ctx, t, e, ref, 1); err != nil {
		return err
	}
	if kind != "keys" {
		var done bool
		if err := b.apply(ctx, t, e, ref, selectContent, &done); err != nil {
			return err
		}
	}
	return b.keyIn(ctx, t, text, kind == "text")
}

// keyIn types a text into what has the focus, in place of what is selected.
func (b *browser) keyIn(ctx context.Context, t *tab, text string, oneLine bool) error {
	if text == "" {
		k, _ := keys.Named("Delete")
		return b.press(ctx, t, k, 0)
	}
	if oneLine {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	}
	if len(text) > maxKeystrokes {
		return b.call(ctx, t, "Input.insertText", map[string]any{"text": text}, nil)
	}
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		name := string(r)
		if r == '\n' {
			name = "Enter"
		}
		k, ok := keys.Named(name)
		if !ok {
			if err := b.call(ctx, t, "Input.insertText", map[string]any{"text": name}, nil); err != nil {
				return err
			}
			continue
		}
		if err := b.press(ctx, t, k, 0); err != nil {
			return err
		}
	}
	return nil
}

const chooseOptions = `function(names) {
  if (this.tagName !== 'SELECT') return {error: 'list'};
  if (this.disabled) return {error: 'disabled'};
  const options = [...this.options], label = o => o.label.trim().replace(/\s+/g, ' ');
  const found = names.map(w => options.find(o => label(o) === w) ?? options.find(o => o.value === w));
  if (found.includes(undefined)) return {error: 'option', options: options.slice(0, 100).map(label)};
  if (!this.multiple && found.length !== 1) return {error: 'one'};
  for (const o of options) o.selected = found.includes(o);
  this.focus();
  this.dispatchEvent(new Event('input', {bubbles: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return {};
}`

// choose selects options of a list by label or value.
func (b *browser) choose(ctx context.Context, t *tab, e element, ref string, values []string) error {
	var result struct {
		Error   string
		Options []string
	}
	if err := b.apply(ctx, t, e, ref, chooseOptions, &result, values); err != nil {
		return err
	}
	switch result.Error {
	case "list":
		return toolError(fmt.Sprintf("The element %s is not a list of options. Click it, take a snapshot, and click the option.", ref))
	case "disabled":
		return toolError(fmt.Sprintf("The list %s is disabled.", ref))
	case "one":
		return toolError(fmt.Sprintf("The list %s takes exactly one option.", ref))
	case "option":
		names, err := json.Marshal(result.Options)
		if err != nil {
			return err
		}
		return toolError(fmt.Sprintf("The list %s has no such option. Use one of its options. %s", ref, mark(shorten(string(names), 4*maxName))))
	}
	return nil
}
