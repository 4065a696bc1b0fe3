package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// onElement selects the element of a tool.
type onElement struct {
	onBrowser
	Ref string `json:"ref" jsonschema:"reference of the element in the latest snapshot, such as e12"`
}

type clickInput struct {
	onElement
	Double       bool `json:"double,omitempty" jsonschema:"click twice"`
	AcceptDialog bool `json:"acceptDialog,omitempty" jsonschema:"accept a confirmation that the click opens; by default it is dismissed"`
}

type typeInput struct {
	onElement
	Text   string `json:"text" jsonschema:"the new content of the field; empty clears it"`
	Submit bool   `json:"submit,omitempty" jsonschema:"press Enter afterwards"`
}

type fillInput struct {
	onBrowser
	Fields []fieldInput `json:"fields" jsonschema:"the fields, in order"`
}

type fieldInput struct {
	Ref   string `json:"ref" jsonschema:"reference of the field in the latest snapshot, such as e12"`
	Value string `json:"value" jsonschema:"the text, the label or value of the option, or true or false for a checkbox or radio button"`
}

type keyInput struct {
	onBrowser
	Key string `json:"key" jsonschema:"a character, or a key such as Enter, Tab, Escape, ArrowDown, PageDown, F5 or Control+A"`
}

type selectInput struct {
	onElement
	Values []string `json:"values" jsonschema:"labels or values of the options to select"`
}

type hoverInput struct{ onElement }

func (s *Service) addInputTools(server *sdk.Server) {
	addPageTool(s, server, "click", "Click an element of the latest snapshot.", func(ctx context.Context, p pageCall, input clickInput) (result, error) {
		return p.act(ctx, input.Ref, input.AcceptDialog, func(e element) error {
			times := 1
			if input.Double {
				times = 2
			}
			return p.click(ctx, p.tab, e, input.Ref, times)
		})
	})
	addPageTool(s, server, "type", "Type a text into a field of the latest snapshot, in place of its content.", func(ctx context.Context, p pageCall, input typeInput) (result, error) {
		return p.act(ctx, input.Ref, false, func(e element) error {
			if err := p.typeText(ctx, p.tab, e, input.Ref, input.Text); err != nil || !input.Submit {
				return err
			}
			return p.pressKeys(ctx, p.tab, "Enter")
		})
	})
	addPageTool(s, server, "fill_form", "Fill several fields of the latest snapshot: text fields, lists of options, checkboxes and radio buttons.", func(ctx context.Context, p pageCall, input fillInput) (result, error) {
		return p.fillForm(ctx, input.Fields)
	})
	addPageTool(s, server, "press_key", "Press a key, which goes to the focused element of the page.", func(ctx context.Context, p pageCall, input keyInput) (result, error) {
		if err := p.pressKeys(ctx, p.tab, input.Key); err != nil {
			return result{}, err
		}
		return result{}, p.settle(ctx, p.tab)
	})
	addPageTool(s, server, "select_option", "Select options of a list (combobox or listbox) of the latest snapshot.", func(ctx context.Context, p pageCall, input selectInput) (result, error) {
		return p.act(ctx, input.Ref, false, func(e element) error { return p.choose(ctx, p.tab, e, input.Ref, input.Values) })
	})
	addPageTool(s, server, "hover", "Move the pointer over an element of the latest snapshot.", func(ctx context.Context, p pageCall, input hoverInput) (result, error) {
		return p.act(ctx, input.Ref, false, func(e element) error { return p.hover(ctx, p.tab, e, input.Ref) })
	})
}

// checkedState returns whether a checkbox or radio button is checked, "" for other elements.
const checkedState = `function() {
  if (this.nodeType !== 1) return '';
  if (this.tagName === 'INPUT') return ['checkbox', 'radio'].includes(this.type) ? String(this.checked) : '';
  return ['checkbox', 'radio', 'switch'].includes(this.getAttribute('role')) ? String(this.getAttribute('aria-checked') === 'true') : '';
}`

// fillForm fills fields. If a reference is not valid, it changes nothing.
func (p pageCall) fillForm(ctx context.Context, fields []fieldInput) (result, error) {
	if len(fields) == 0 {
		return result{}, toolError("fields: must have at least one field.")
	}
	elements := make([]element, len(fields))
	var invalid []string
	for i, f := range fields {
		var err error
		if elements[i], err = p.find(ctx, p.tab, f.Ref); err != nil {
			invalid = append(invalid, p.service.describe(err, p.browser).Error())
		}
	}
	if len(invalid) > 0 {
		return result{}, toolError(joinLines(invalid...))
	}
	for i, f := range fields {
		if err := p.fill(ctx, elements[i], f); err != nil {
			if _, ok := errors.AsType[toolError](err); ok && i > 0 {
				return result{}, toolError(fmt.Sprintf("%s The %d fields before it are filled.", err, i))
			}
			return result{}, err
		}
	}
	return result{}, p.settle(ctx, p.tab)
}

func (p pageCall) fill(ctx context.Context, e element, f fieldInput) error {
	var kind, checked string
	if err := p.apply(ctx, p.tab, e, f.Ref, checkedState, &checked); err != nil {
		return err
	}
	if checked != "" {
		if f.Value != "true" && f.Value != "false" {
			return toolError(fmt.Sprintf("The value of %s must be true or false.", f.Ref))
		}
		if checked == f.Value {
			return nil
		}
		return p.click(ctx, p.tab, e, f.Ref, 1)
	}
	if err := p.apply(ctx, p.tab, e, f.Ref, fieldKind, &kind); err != nil {
		return err
	}
	if kind == "select" {
		return p.choose(ctx, p.tab, e, f.Ref, []string{f.Value})
	}
	return p.typeText(ctx, p.tab, e, f.Ref, f.Value)
}

// act acts on an element and waits for what follows. A tab that the action closes is no
// error.
func (p pageCall) act(ctx context.Context, ref string, accept bool, do func(element) error) (result, error) {
	e, err := p.find(ctx, p.tab, ref)
	if err != nil {
		return result{}, err
	}
	p.mu.Lock()
	p.tab.acceptDialogs = accept
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.tab.acceptDialogs = false
		p.mu.Unlock()
	}()
	return p.perform(ctx, func() error { return do(e) })
}

// perform acts on the page and waits for what follows. A tab that the action closes is no error.
func (p pageCall) perform(ctx context.Context, do func() error) (result, error) {
	if err := do(); err != nil {
		if p.isClosed() {
			return result{note: "The tab was closed."}, nil
		}
		return result{}, err
	}
	return result{}, p.settle(ctx, p.tab)
}

// isClosed reports whether the tab was closed.
func (p pageCall) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tabOf(p.tab.session) == nil
}
