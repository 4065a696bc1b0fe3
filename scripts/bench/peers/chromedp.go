package main

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// allocator is one ExecAllocator of chromedp. Each of its contexts has its own
// browser.
type allocator struct {
	setup
	//nolint:containedctx // chromedp passes the allocator in a context
	ctx    context.Context
	cancel context.CancelFunc
}

func newChromedp(ctx context.Context, s setup) *allocator {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(s.Chromium))
	if !s.Sandbox {
		options = append(options, chromedp.NoSandbox)
	}
	a := &allocator{setup: s}
	a.ctx, a.cancel = chromedp.NewExecAllocator(ctx, options...)
	return a
}

func (a *allocator) visit(ctx context.Context, marks *marks) error {
	tab, cancel := chromedp.NewContext(a.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if _, err := chromedp.CallBrowser(tab, browser.GetVersion, cdp.Empty{}); err != nil { // starts the browser
		return fmt.Errorf("launch: %w", err)
	}
	marks.answered()
	if err := chromedp.Do(tab, chromedp.Navigate(a.Page)); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	marks.loaded()
	return chromedp.Cancel(tab)
}

func (a *allocator) close() { a.cancel() }
