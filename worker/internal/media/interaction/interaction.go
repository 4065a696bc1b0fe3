// Package interaction reports what a user does in the pages of a browser: which controls
// are clicked and which fields are changed, by their accessible names. Watch never reports
// what is typed; WatchSteps reports it for scripts, except in fields for secrets.
//
// It listens in a world of its own, of which the scripts of a page see nothing, so it knows
// the input of all sources: CDP clients, the live view and the keyboard.
package interaction

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	eventQueue  = 1024
	callTimeout = 2 * time.Second // of a page, which can be busy
	maxNames    = 8               // names that are looked up at the same time
)

// Kind is what a user did.
type Kind string

// The kinds.
const (
	Click Kind = "click"
	Input Kind = "input" // a field was changed; once until the focus moves
)

// Action is what a user did.
type Action struct {
	At         time.Time
	Kind       Kind
	TargetID   string // of the tab
	Role, Name string // in the accessibility tree; empty if unknown
}

// watcher is a connection that watches all tabs.
type watcher struct {
	conn  *cdp.Conn
	begin func(Kind) (add func(Action))
	world string
	names chan struct{} // limits the lookups of names
	work  sync.WaitGroup
	steps *steps // instead of begin; nil: none

	mu   sync.Mutex
	tabs map[string]string // target id of the tab, by CDP session
}

// Watch calls begin for each action, in order, until ctx or the connection ends. It calls the function that begin
// returns, also concurrently, when it knows the name. world is a name that pages cannot guess.
func Watch(ctx context.Context, conn *cdp.Conn, world string, begin func(Kind) (add func(Action))) error {
	w := newWatcher(conn, world)
	w.begin = begin
	return w.run(ctx)
}

func newWatcher(conn *cdp.Conn, world string) *watcher {
	return &watcher{conn: conn, world: world, names: make(chan struct{}, maxNames), tabs: map[string]string{}}
}

// run follows the pages of the browser until ctx or the connection ends.
func (w *watcher) run(ctx context.Context) error {
	defer w.work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := w.conn.Subscribe(eventQueue, "Target.attachedToTarget", "Target.detachedFromTarget", "Runtime.bindingCalled",
		"Runtime.executionContextCreated")
	defer events.Close()
	if err := w.conn.Call(ctx, "", "Target.setAutoAttach", cdp.AutoAttach(false, "page"), nil); err != nil {
		return err
	}
	if w.steps != nil {
		w.steps.existing = len(events.Events())
	}
	for {
		select {
		case e, open := <-events.Events():
			if !open {
				return errors.Join(errors.New("interaction: the connection has ended"), events.Err())
			}
			w.handle(ctx, e)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *watcher) handle(ctx context.Context, e cdp.Event) {
	switch e.Method {
	case "Target.attachedToTarget":
		var p struct {
			SessionID  string
			TargetInfo struct{ TargetID, OpenerID string }
		}
		if json.Unmarshal(e.Params, &p) != nil {
			return
		}
		w.mu.Lock()
		tab, below := w.tabs[e.SessionID]
		if !below { // otherwise it is a frame of another site
			tab = p.TargetInfo.TargetID
		}
		w.tabs[p.SessionID] = tab
		w.mu.Unlock()
		if w.steps != nil && !below {
			w.steps.opened(p.SessionID, tab, p.TargetInfo.OpenerID)
		}
		w.work.Go(func() { w.listen(ctx, p.SessionID) })
	case "Target.detachedFromTarget":
		var p struct{ SessionID string }
		_ = json.Unmarshal(e.Params, &p) // "" for an invalid event
		w.mu.Lock()
		delete(w.tabs, p.SessionID)
		w.mu.Unlock()
		if w.steps != nil {
			w.steps.detached(p.SessionID)
		}
	case "Runtime.executionContextCreated":
		var p struct {
			Context struct {
				AuxData struct {
					IsDefault bool
					FrameID   string
				}
			}
		}
		if json.Unmarshal(e.Params, &p) != nil || !p.Context.AuxData.IsDefault {
			return
		}
		if w.steps != nil {
			w.steps.document(e.SessionID, p.Context.AuxData.FrameID)
		}
		w.work.Go(func() { w.install(ctx, e.SessionID, p.Context.AuxData.FrameID) })
		if w.steps != nil {
			w.steps.navigated(ctx, e.SessionID, p.Context.AuxData.FrameID)
		}
	default:
		w.reported(ctx, e)
	}
}

// listen begins to follow the documents of a page. A page that ends meanwhile is not an
// error. Page.enable would run the script earlier, but then the dialogs of the page would
// wait for this connection.
func (w *watcher) listen(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, call := range []struct {
		method string
		params any
	}{
		{"Target.setAutoAttach", cdp.AutoAttach(false, "iframe")},
		{"Runtime.addBinding", map[string]any{"name": binding, "executionContextName": w.world}},
		{"Runtime.enable", nil},
	} {
		if w.conn.Call(ctx, session, call.method, call.params, nil) != nil {
			return
		}
	}
}

// install runs the script in a new document.
func (w *watcher) install(ctx context.Context, session, frame string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var world struct{ ExecutionContextID int }
	create := map[string]any{"frameId": frame, "worldName": w.world}
	if w.conn.Call(ctx, session, "Page.createIsolatedWorld", create, &world) != nil {
		return
	}
	evaluate := map[string]any{"expression": watchScript, "contextId": world.ExecutionContextID, "silent": true}
	if w.steps != nil {
		evaluate["expression"] = w.steps.expression(frame)
	}
	_ = w.conn.Call(ctx, session, "Runtime.evaluate", evaluate, nil) // fails if the document is gone
	if w.steps != nil {
		w.steps.installed(ctx, session, frame)
	}
}

// report is what the script sends.
type report struct {
	Kind     Kind
	Slot     int    // of the element
	Field    bool   // text can be typed into it
	Fallback string // a name for a page that leaves before its own is known
	Role     string // the same
}

// reported looks up the name of an element that was used.
func (w *watcher) reported(ctx context.Context, e cdp.Event) {
	var p struct {
		Name, Payload      string
		ExecutionContextID int
	}
	if json.Unmarshal(e.Params, &p) != nil || p.Name != binding {
		return
	}
	if w.steps != nil {
		w.steps.reported(e.SessionID, p.Payload)
		return
	}
	var r report
	if json.Unmarshal([]byte(p.Payload), &r) != nil {
		return
	}
	w.mu.Lock()
	action := Action{At: time.Now(), Kind: r.Kind, TargetID: w.tabs[e.SessionID], Role: r.Role, Name: r.Fallback}
	w.mu.Unlock()
	add := w.begin(r.Kind)
	select {
	case w.names <- struct{}{}:
	default: // a page that reports in a loop
		add(action)
		return
	}
	w.work.Go(func() {
		defer func() { <-w.names }()
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if role, name, err := w.describe(ctx, e.SessionID, p.ExecutionContextID, r); err == nil {
			action.Role, action.Name = role, name
		}
		add(action)
	})
}
