package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type newTabInput struct {
	onBrowser
	URL string `json:"url,omitempty" jsonschema:"address to open, as in navigate; by default an empty page"`
}

type tabInput struct {
	onBrowser
	Tab string `json:"tab" jsonschema:"the tab, such as t2"`
}

type closeTabInput struct {
	onBrowser
	Tab string `json:"tab,omitempty" jsonschema:"the tab, such as t2; by default the selected one"`
}

func (s *Service) addTabTools(server *sdk.Server) {
	addBrowserTool(s, server, "list_tabs", "List the tabs of a browser.", func(ctx context.Context, b *browser, _ pageInput) (result, error) {
		return b.listTabs(ctx)
	})
	addBrowserTool(s, server, "new_tab", "Open a tab and select it.", func(ctx context.Context, b *browser, input newTabInput) (result, error) {
		return s.newTab(ctx, b, input.URL)
	})
	addBrowserTool(s, server, "select_tab", "Select the tab that the other tools act on.", func(ctx context.Context, b *browser, input tabInput) (result, error) {
		t, err := b.named(input.Tab)
		if err != nil {
			return result{}, err
		}
		if err := b.selectTab(ctx, t); err != nil {
			return result{}, err
		}
		return result{}, b.awaitFirstPage(ctx, t)
	})
	addBrowserTool(s, server, "close_tab", "Close a tab.", func(ctx context.Context, b *browser, input closeTabInput) (result, error) {
		return b.closeTab(ctx, input.Tab)
	})
}

func (b *browser) listTabs(ctx context.Context) (result, error) {
	var list struct{ TargetInfos []targetInfo }
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return result{}, err
	}
	about := map[string]targetInfo{}
	for _, info := range list.TargetInfos {
		about[info.TargetID] = info
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, t := range b.tabs {
		selected := ""
		if t == b.current {
			selected = " (selected)"
		}
		t.reported = true
		lines = append(lines, fmt.Sprintf("%s%s: %s %s", t.name, selected, quote(about[t.target].URL), quote(about[t.target].Title)))
	}
	return result{content: joinLines(lines...)}, nil
}

func (s *Service) newTab(ctx context.Context, b *browser, address string) (result, error) {
	var opened struct{ TargetID string }
	if err := b.conn.Call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &opened); err != nil {
		return result{}, err
	}
	t, err := b.awaitTab(ctx, opened.TargetID)
	if err != nil {
		return result{}, err
	}
	if err := b.selectTab(ctx, t); err != nil || address == "" {
		return result{}, err
	}
	return result{}, pageCall{b, s, t}.navigate(ctx, address, "")
}

// selectTab makes a tab the selected one and shows it.
func (b *browser) selectTab(ctx context.Context, t *tab) error {
	b.mu.Lock()
	b.current, t.reported = t, true
	b.mu.Unlock()
	return b.conn.Call(ctx, "", "Target.activateTarget", map[string]any{"targetId": t.target}, nil)
}

// awaitFirstPage waits until a tab that a page has opened has loaded its first page. A page that
// does not finish is not an error.
func (b *browser) awaitFirstPage(ctx context.Context, t *tab) error {
	b.mu.Lock()
	wasAwaited := t.awaited
	t.awaited = true
	b.mu.Unlock()
	if wasAwaited {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	_ = poll(limited, func() bool {
		var answer struct{ TargetInfo targetInfo }
		err := b.conn.Call(limited, "", "Target.getTargetInfo", map[string]any{"targetId": t.target}, &answer)
		_ = b.subscription.Flush(limited)
		b.mu.Lock()
		defer b.mu.Unlock()
		return err != nil || answer.TargetInfo.URL != "" && !t.loading
	})
	// Loading that began before the tab was attached was not reported.
	_ = b.awaitPromise(limited, t, whenLoaded)
	return ctx.Err()
}

// whenLoaded is fulfilled when the page is loaded.
const whenLoaded = `document.readyState === 'complete' || new Promise(resolve => addEventListener('load', () => resolve(true), {once: true}))`

func (b *browser) closeTab(ctx context.Context, name string) (result, error) {
	t, err := b.named(name)
	if err != nil {
		return result{}, err
	}
	b.mu.Lock()
	last := len(b.tabs) == 1
	b.mu.Unlock()
	if last {
		return result{}, toolError("This is the only tab. Call end_browser to end the browser, or navigate elsewhere.")
	}
	if err := b.conn.Call(ctx, "", "Target.closeTarget", map[string]any{"targetId": t.target}, nil); err != nil {
		return result{}, err
	}
	err = poll(ctx, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.tabOf(t.session) == nil
	})
	return result{note: fmt.Sprintf("Closed tab %s.", t.name)}, err
}
