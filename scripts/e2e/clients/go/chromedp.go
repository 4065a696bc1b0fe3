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

// byChromedp ignores task.Close: chromedp only disconnects from a browser that it did
// not start, and refuses to send Browser.close.
func byChromedp(ctx context.Context, task input) (visit, error) {
	var options []remote.Option
	if strings.HasPrefix(task.Endpoint, "ws") {
		options = append(options, remote.NoModifyURL)
	}
	ctx, leave := remote.NewAllocator(ctx, task.Endpoint, options...)
	defer leave()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	result, err := visitByChromedp(ctx, task)
	if err != nil {
		return visit{}, fmt.Errorf("chromedp: %w", err)
	}
	return result, nil
}

func visitByChromedp(ctx context.Context, task input) (result visit, err error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(task.URL)); err != nil {
		return result, err
	}
	if result.Title, err = chromedp.Run(ctx, chromedp.Title()); err != nil {
		return result, err
	}
	if result.Value, err = chromedp.Run(ctx, chromedp.Evaluate[int](task.Expression)); err != nil {
		return result, err
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return result, err
	}
	version, err := chromedp.CallBrowser(ctx, browser.GetVersion, cdp.Empty{})
	result.Screenshot, result.Version = len(picture), version.Product
	return result, err
}
