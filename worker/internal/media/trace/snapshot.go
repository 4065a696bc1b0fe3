package trace

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pictureInterval = 200 * time.Millisecond // of a page
	repeatInterval  = 300 * time.Millisecond // between snapshots of an action that continues, or of evaluations
)

const movedOn = "the page has moved on"

// captureRequest is a snapshot that an action needs.
type captureRequest struct {
	action  *action
	page    *page
	session pageSession
	ctx     context.Context //nolint:containedctx // of the request, which is sent to the goroutine that captures
	cancel  context.CancelFunc
	picture bool
}

// captureRequested captures pages, one at a time.
func (t *tracer) captureRequested(ctx context.Context) {
	for {
		select {
		case r := <-t.captures:
			release := t.KeepAwake()
			s, err := r.session.capture(r.ctx, r.action.loads, r.picture)
			release()
			r.cancel()
			t.apply(ctx, func() { t.captured(ctx, r, s, err) })
		case <-ctx.Done():
			return
		}
	}
}

// capture captures the page after an action, unless another capture is in progress.
func (t *tracer) capture(ctx context.Context, a *action) {
	found := t.pages[a.page]
	if found != nil && found.changed == nil { // the page was not known before the answer
		found.changed, found.changedAt = a, a.began
	}
	switch {
	case found == nil || ctx.Err() != nil:
		t.drop(a, "the page is not known")
		return
	case found.changed != a:
		t.drop(a, movedOn)
		return
	}
	if t.busy != nil {
		a.postponed = true // until the capture in progress has ended
		return
	}
	r := captureRequest{action: a, page: found, session: found.pageSession, picture: time.Since(found.lastPicture) > pictureInterval}
	r.ctx, r.cancel = context.WithCancel(ctx)
	a.capturing, t.busy, found.captured = true, &r, time.Now()
	t.captures <- r // does not block: no other capture is in progress
}

// drop notes why an action has no snapshot.
func (t *tracer) drop(a *action, reason string) {
	a.captured = true
	if a.after == "" && len(a.logs) < maxNotes {
		a.log("no snapshot: " + reason)
	}
}

// captured adds a snapshot to its action, unless the page has moved on.
func (t *tracer) captured(ctx context.Context, r captureRequest, s snapshot, err error) {
	a := r.action
	a.capturing, t.busy = false, nil
	moved := r.page.changed != a && (len(s.frames) == 0 || s.frames[0].At >= millis(r.page.changedAt)-1)
	switch {
	case moved:
		t.drop(a, movedOn)
	case errors.Is(err, errTooLarge):
		t.drop(a, "the page is too large")
	case err != nil:
		t.drop(a, "the page did not answer")
	default:
		a.captured, a.capturedAt = true, time.Now()
		t.snapshots++
		a.after = fmt.Sprintf("after@%s@%d", a.id, t.snapshots)
		r.page.snapshot = a.after
		for _, later := range t.actions {
			if later != a && later.page == a.page && later.began.After(a.began) {
				later.before = a.after
			}
		}
		t.writeSnapshot(r.page, a, s)
	}
	t.proceed(ctx, a)
	for _, waiting := range t.actions {
		if waiting.postponed && waiting != a {
			waiting.postponed = false
			t.proceed(ctx, waiting)
			return
		}
	}
}

// writeSnapshot writes the picture of a page, and its frames after the action.
func (t *tracer) writeSnapshot(p *page, a *action, s snapshot) {
	a.writeFrames(t.w) // those of an earlier snapshot, which later actions may name
	for i, f := range s.frames {
		line := object{
			"callId": a.id, "snapshotName": a.after, "pageId": pageID(p.target), "frameId": f.id, "frameUrl": f.URL, "html": f.html, "viewport": object{"width": f.Viewport.Width, "height": f.Viewport.Height},
			"timestamp": t.w.offset(s.ended), "wallTime": f.At, "collectionTime": float64(s.ended.Sub(s.began).Microseconds()) / 1000, "resourceOverrides": []object{}, "isMainFrame": i == 0,
		}
		if f.Doctype != "" {
			line["doctype"] = f.Doctype
		}
		a.frames = append(a.frames, object{"type": "frame-snapshot", "snapshot": line})
	}
	if a.isWritten {
		a.writeFrames(t.w)
	}
	if s.picture == nil {
		return
	}
	p.lastPicture = time.Now()
	if name := t.w.add(s.picture, ".jpeg"); name != "" {
		t.w.line(object{
			"type": "screencast-frame", "pageId": pageID(p.target), "sha1": name, "width": s.width, "height": s.height, "timestamp": t.w.offset(s.ended), "frameSwapWallTime": millis(s.ended),
		})
	}
}
