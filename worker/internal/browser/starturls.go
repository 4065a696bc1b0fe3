package browser

import (
	"context"
	"errors"
	"fmt"
)

// OpenStartURLs opens URLs in the tabs of a browser that has a blank tab for each of them as its start URLs, so that other
// connections could follow these tabs before. It does not wait until the pages have loaded.
func (b *Browser) OpenStartURLs(ctx context.Context, urls []string) (err error) {
	for i, target := range b.startTabs[:min(len(urls), len(b.startTabs))] {
		if failed := b.openStartURL(ctx, target, urls[i]); failed != nil { // the tab may be closed already
			err = errors.Join(err, fmt.Errorf("start URL: %w", failed))
		}
	}
	return err
}

func (b *Browser) openStartURL(ctx context.Context, target, url string) error {
	var attached struct{ SessionID string }
	if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": target, "flatten": true}, &attached); err != nil {
		return err
	}
	defer b.detach(ctx, []string{attached.SessionID})
	return b.emul.navigate(ctx, attached.SessionID, url)
}

// findStartTab notes the blank tab that the browser has opened at its start. Extensions can have opened others.
func (b *Browser) findStartTab(ctx context.Context) error {
	var listed struct {
		TargetInfos []struct{ TargetID, Type, URL string }
	}
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &listed); err != nil {
		return fmt.Errorf("start URL: %w", err)
	}
	b.startTabs = []string{""}
	for _, target := range listed.TargetInfos {
		if target.Type == "page" && target.URL == "about:blank" {
			b.startTabs[0] = target.TargetID
		}
	}
	return nil
}
