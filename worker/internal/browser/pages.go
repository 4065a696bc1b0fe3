package browser

import (
	"context"
	"fmt"
)

// pageTargets returns the target ids of the browser's tabs.
func (b *Browser) pageTargets(ctx context.Context) (ids []string, err error) {
	var list struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return nil, err
	}
	for _, t := range list.TargetInfos {
		if t.Type == "page" {
			ids = append(ids, t.TargetID)
		}
	}
	return ids, nil
}

// awaitFirstPage waits until the first page of a warm browser answers. The request
// executes no script: the renderer would load what scripts need for a document that
// the session replaces.
func (b *Browser) awaitFirstPage(ctx context.Context) error {
	sessions, err := b.attachToPages(ctx)
	defer b.detach(ctx, sessions)
	for _, session := range sessions {
		if err == nil {
			err = b.conn.Call(ctx, session, "Page.getFrameTree", nil, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("first page: %w", err)
	}
	return nil
}

// attachToPages attaches to all pages. With an error it returns the sessions so far.
func (b *Browser) attachToPages(ctx context.Context) (sessions []string, err error) {
	pages, err := b.pageTargets(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range pages {
		var attachment struct{ SessionID string }
		if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": id, "flatten": true}, &attachment); err != nil {
			return sessions, err
		}
		sessions = append(sessions, attachment.SessionID)
	}
	return sessions, nil
}

// detach ends sessions of attachToPages.
func (b *Browser) detach(ctx context.Context, sessions []string) {
	for _, id := range sessions {
		_ = b.conn.Call(ctx, "", "Target.detachFromTarget", object{"sessionId": id}, nil)
	}
}
