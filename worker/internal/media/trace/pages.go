package trace

import (
	"context"
	"encoding/json"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	eventQueue    = 4096
	attachTimeout = 2 * time.Second
)

// page is an open page.
type page struct {
	pageSession
	worlds      map[int]bool // execution contexts other than those of scripts of the page
	snapshot    string       // the latest one
	captured    time.Time
	lastPicture time.Time
	changed     *action // the latest action that can change the page
	changedAt   time.Time
}

// subscribe follows the pages of the browser.
func (t *tracer) subscribe(ctx context.Context) (*cdp.Subscription, error) {
	events := t.conn.Subscribe(eventQueue, "Target.attachedToTarget", "Target.detachedFromTarget", "Runtime.executionContextCreated", "Runtime.executionContextsCleared")
	if err := t.conn.Call(ctx, "", "Target.setAutoAttach", cdp.AutoAttach(false, "page"), nil); err != nil {
		events.Close()
		return nil, err
	}
	return events, nil
}

// pageEvent follows the pages and their documents.
func (t *tracer) pageEvent(ctx context.Context, e cdp.Event) {
	switch e.Method {
	case "Target.attachedToTarget":
		var p struct {
			SessionID  string
			TargetInfo struct{ TargetID string }
		}
		if json.Unmarshal(e.Params, &p) == nil {
			t.opened(ctx, p.TargetInfo.TargetID, p.SessionID)
		}
	case "Target.detachedFromTarget":
		var p struct{ SessionID string }
		_ = json.Unmarshal(e.Params, &p) // "" for an invalid event
		for target, found := range t.pages {
			if found.session == p.SessionID {
				delete(t.pages, target)
				t.w.line(object{"type": "event", "time": t.w.offset(time.Now()), "class": "BrowserContext", "method": "pageClosed", "params": object{"pageId": pageID(target)}})
			}
		}
	case "Runtime.executionContextsCleared":
		if found := t.pageOfSession(e.SessionID); found != nil {
			clear(found.worlds)
		}
	default:
		var p struct {
			Context struct {
				ID      int
				AuxData struct {
					FrameID   string
					IsDefault bool
				}
			}
		}
		found := t.pageOfSession(e.SessionID)
		if json.Unmarshal(e.Params, &p) != nil || found == nil {
			return
		}
		if !p.Context.AuxData.IsDefault {
			found.worlds[p.Context.ID] = true
			return
		}
		delete(found.worlds, p.Context.ID) // of an earlier process
		if p.Context.AuxData.FrameID != found.target {
			return // what is typed into a frame is not known
		}
		s := found.pageSession
		t.work.Go(func() { s.watchFocus(ctx, s.target) })
	}
}

// opened adds a page.
func (t *tracer) opened(ctx context.Context, target, session string) {
	s := pageSession{conn: t.conn, session: session, target: target, world: t.world, filled: t.Filled}
	t.pages[target] = &page{pageSession: s, worlds: map[int]bool{}}
	if t.current == "" {
		t.current = target
	}
	t.w.line(object{"type": "event", "time": t.w.offset(time.Now()), "class": "BrowserContext", "method": "page", "params": object{"pageId": pageID(target)}})
	t.work.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		_ = s.call(ctx, "Runtime.enable", nil, nil) // the page may have ended
	})
}

func (t *tracer) pageOfSession(session string) *page {
	for _, found := range t.pages {
		if found.session == session {
			return found
		}
	}
	return nil
}
