package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
)

// byChromedp ignores in.Close: chromedp only disconnects from a browser that it did
// not start, and refuses to send Browser.close.
func byChromedp(ctx context.Context, in input) (visit, error) {
	var options []remote.Option
	if strings.HasPrefix(in.Endpoint, "ws") {
		options = append(options, remote.NoModifyURL)
	}
	ctx, leave := remote.NewAllocator(ctx, in.Endpoint, options...)
	defer leave()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	seen, err := visitByChromedp(ctx, in)
	if err != nil {
		return visit{}, fmt.Errorf("chromedp: %w", err)
	}
	return seen, nil
}

func visitByChromedp(ctx context.Context, in input) (seen visit, err error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(in.URL)); err != nil {
		return seen, err
	}
	if seen.Title, err = chromedp.Run(ctx, chromedp.Title()); err != nil {
		return seen, err
	}
	if seen.Value, err = chromedp.Run(ctx, chromedp.Evaluate[int](in.Expression)); err != nil {
		return seen, err
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return seen, err
	}
	version, err := chromedp.CallBrowser(ctx, browser.GetVersion, cdp.Empty{})
	seen.Screenshot, seen.Version = len(picture), version.Product
	return seen, err
}
