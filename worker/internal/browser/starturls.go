package browser

import (
	"context"
	"fmt"
	"slices"
)

// OpenStartURLs opens URLs in the tabs of a browser that has a blank tab for each of them as its start URLs, so that other
// connections could follow these tabs before. It does not wait until the pages have loaded.
func (b *Browser) OpenStartURLs(ctx context.Context, urls []string) error {
	var listed struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &listed); err != nil {
		return fmt.Errorf("start URL: %w", err)
	}
	for _, target := range listed.TargetInfos {
		i := slices.Index(b.startTabs, target.TargetID) + 1 // 0: the first tab
		if target.Type != "page" || i >= len(urls) {
			continue
		}
		var attached struct{ SessionID string }
		if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
			return fmt.Errorf("start URL: %w", err)
		}
		if err := b.emul.navigate(ctx, attached.SessionID, urls[i]); err != nil {
			return fmt.Errorf("start URL: %w", err)
		}
	}
	return nil
}
