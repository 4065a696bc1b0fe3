package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

type targetInfo struct{ TargetID, Type, URL, Title string }

// handle handles an event of the browser. It never waits for an answer.
func (b *browser) handle(conn *cdp.Conn, e cdp.Event) {
	var p struct {
		SessionID, FrameID, Type, Message string
		TargetInfo                        targetInfo
		Data                              json.RawMessage
	}
	if e.Flushed != nil {
		close(e.Flushed)
		return
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tabOf(e.SessionID)
	switch {
	case e.Method == "Target.attachedToTarget":
		b.attached(conn, t, e.SessionID, p.SessionID, p.TargetInfo)
	case e.Method == "Target.detachedFromTarget":
		b.detached(p.SessionID)
	case t == nil:
	case strings.HasPrefix(e.Method, "Network."):
		t.recordRequest(e)
	case e.Method == "Input.dragIntercepted":
		select {
		case t.dragged <- p.Data:
		default: // nobody awaits it
		}
	case e.Method == "Page.javascriptDialogOpening":
		accept := p.Type == "alert" || p.Type == "beforeunload" || t.acceptDialogs
		t.dialogs = append(t.dialogs, dialogNote(p.Type, p.Message, accept))
		post(conn, e.SessionID, "Page.handleJavaScriptDialog", map[string]any{"accept": accept})
	case e.Method == "Page.frameStartedLoading" && p.FrameID == t.target:
		t.loading = true
	case e.Method == "Page.frameStoppedLoading" && p.FrameID == t.target:
		t.loading = false
	case e.Method == "Inspector.targetCrashed" && e.SessionID == t.session:
		t.cancel(errTabCrashed) // until the tab is navigated
		t.loading = false
	}
}

func dialogNote(kind, message string, accepted bool) string {
	end := "dismissed"
	if accepted {
		end = "accepted"
	}
	return fmt.Sprintf("The page showed a dialog (%s) with the text %s. It was %s.", kind, quote(message), end)
}

// attached adds a tab, or a frame of a tab. The caller holds the lock.
func (b *browser) attached(conn *cdp.Conn, owner *tab, parent, session string, info targetInfo) {
	switch {
	case info.Type == "page":
		b.opened++
		t := &tab{name: fmt.Sprintf("t%d", b.opened), target: info.TargetID, session: session}
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
		b.tabs = append(b.tabs, t)
		if b.current == nil {
			b.current = t
		}
		post(conn, session, "Page.enable", nil)
		post(conn, session, "Inspector.enable", nil)
	case info.Type == "iframe" && owner != nil:
		owner.frames = append(owner.frames, embedded{session, parent, info.TargetID})
	default:
		return
	}
	post(conn, session, "Network.enable", nil)
	post(conn, session, "Target.setAutoAttach", cdp.AutoAttach(false, "iframe"))
}

// detached removes a tab or a frame. The caller holds the lock.
func (b *browser) detached(session string) {
	for i, t := range b.tabs {
		t.frames = slices.DeleteFunc(t.frames, func(f embedded) bool { return f.session == session })
		if t.session != session {
			continue
		}
		t.cancel(errTabClosed)
		b.tabs = slices.Delete(b.tabs, i, i+1)
		if b.current == t {
			b.current = nil
			if len(b.tabs) > 0 {
				b.current = b.tabs[len(b.tabs)-1]
			}
		}
		return
	}
}

// tabOf returns the tab with a CDP session, its own or that of a frame. The caller holds
// the lock.
func (b *browser) tabOf(session string) *tab {
	for _, t := range b.tabs {
		if t.session == session || slices.ContainsFunc(t.frames, func(f embedded) bool { return f.session == session }) {
			return t
		}
	}
	return nil
}

// revive lets commands reach a tab that has crashed.
func (b *browser) revive(t *tab) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(context.Cause(t.ctx), errTabCrashed) {
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
	}
}

// post sends a command without waiting for the answer.
func post(conn *cdp.Conn, session, method string, params any) {
	if reply, err := conn.Send(context.Background(), session, method, params); err == nil {
		reply.Discard()
	}
}
