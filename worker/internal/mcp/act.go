package mcp

import (
	"context"

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
	addPageTool(s, server, "click", "Click an element of the latest snapshot.", func(ctx context.Context, p pageCall, in clickInput) (result, error) {
		return p.act(ctx, in.Ref, in.AcceptDialog, func(e element) error {
			times := 1
			if in.Double {
				times = 2
			}
			return p.click(ctx, p.tab, e, in.Ref, times)
		})
	})
	addPageTool(s, server, "type", "Type a text into a field of the latest snapshot, in place of its content.", func(ctx context.Context, p pageCall, in typeInput) (result, error) {
		return p.act(ctx, in.Ref, false, func(e element) error {
			if err := p.typeText(ctx, p.tab, e, in.Ref, in.Text); err != nil || !in.Submit {
				return err
			}
			return p.pressKeys(ctx, p.tab, "Enter")
		})
	})
	addPageTool(s, server, "press_key", "Press a key, which goes to the focused element of the page.", func(ctx context.Context, p pageCall, in keyInput) (result, error) {
		if err := p.pressKeys(ctx, p.tab, in.Key); err != nil {
			return result{}, err
		}
		return result{}, p.settle(ctx, p.tab)
	})
	addPageTool(s, server, "select_option", "Select options of a list (combobox or listbox) of the latest snapshot.", func(ctx context.Context, p pageCall, in selectInput) (result, error) {
		return p.act(ctx, in.Ref, false, func(e element) error { return p.choose(ctx, p.tab, e, in.Ref, in.Values) })
	})
	addPageTool(s, server, "hover", "Move the pointer over an element of the latest snapshot.", func(ctx context.Context, p pageCall, in hoverInput) (result, error) {
		return p.act(ctx, in.Ref, false, func(e element) error {
			_, err := p.hover(ctx, p.tab, e, in.Ref)
			return err
		})
	})
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
	if err := do(e); err != nil {
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
