package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
	"github.com/browser-svc/svc/worker/internal/session"
)

const (
	maxMessage    = 32 << 20 // bytes of a CDP message
	eventQueue    = 4096
	enableTimeout = 2 * time.Second // of a tab; a busy one is not awaited
	pollInterval  = 25 * time.Millisecond
)

var (
	errTabClosed  = errors.New("the tab was closed")
	errTabCrashed = errors.New("the page has crashed")
)

// browser is a browser of a session. One tool uses it at a time. It has its own CDP
// connection: sessions on the worker's control pipe would get the launch's emulation
// settings.
type browser struct {
	name      string // the handle
	launchID  uuid.UUID
	profile   string // name
	version   int    // major
	headless  bool
	keepAlive bool
	busy      chan struct{} // a semaphore of one

	conn         *cdp.Conn         // nil until the first tool
	subscription *cdp.Subscription // set with conn, as files and filled
	files        *files.Launch
	filled       *secretfill.Fields
	events       sync.WaitGroup

	mu      sync.Mutex
	tabs    []*tab // in order of opening
	opened  int
	refs    int // last assigned number of an element
	current *tab
}

// tab is a tab of a browser. Its fields after ctx are guarded by the browser's lock.
type tab struct {
	name    string // such as t1
	target  string // id in CDP; also of its main frame
	session string // CDP session
	ctx     context.Context
	cancel  context.CancelCauseFunc

	frames        []embedded // frames of other sites, which have their own CDP session
	loading       bool
	awaited       bool // select_tab has waited for the first page
	acceptDialogs bool
	dialogs       []string // shown since the last result
	reported      bool     // a result has mentioned the tab
	snapshot      map[string]element
	requests      []networkRequest     // the newest
	picture       picture              // the latest screenshot
	dragged       chan json.RawMessage // gets the data of a drag; nil if none is awaited
}

// embedded is a frame of another site than its parent.
type embedded struct{ session, parent, frame string }

func newBrowser(launch session.Session, keepAlive bool) *browser {
	return &browser{
		launchID: launch.LaunchID, profile: launch.ProfileName, version: launch.BrowserVersion, headless: launch.Headless, keepAlive: keepAlive, busy: make(chan struct{}, 1),
	}
}

// connect connects to the browser unless it is connected, and waits for its tabs.
func (b *browser) connect(ctx context.Context, launch access.Browser) error {
	if b.conn != nil && b.conn.Err() == nil {
		return nil
	}
	b.disconnect()
	var err error
	if b.conn, err = launch.ConnectCDP(ctx, maxMessage); err != nil {
		return err
	}
	events := b.conn.Subscribe(eventQueue, "Target.attachedToTarget", "Target.detachedFromTarget", "Page.javascriptDialogOpening",
		"Page.frameStartedLoading", "Page.frameStoppedLoading", "Inspector.targetCrashed", "Input.dragIntercepted",
		"Network.requestWillBeSent", "Network.responseReceived", "Network.loadingFailed")
	conn := b.conn
	b.subscription = events
	b.events.Go(func() {
		for e := range events.Events() {
			b.handle(conn, e)
		}
		_ = conn.Close() // if events were lost
	})
	if err := b.conn.Call(ctx, "", "Target.setAutoAttach", cdp.AutoAttach(false, "page"), nil); err != nil {
		return err
	}
	var list struct{ TargetInfos []targetInfo }
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return err
	}
	for _, info := range list.TargetInfos {
		if info.Type != "page" {
			continue
		}
		t, err := b.awaitTab(ctx, info.TargetID)
		if err != nil {
			return err
		}
		b.mu.Lock()
		t.reported = true
		b.mu.Unlock()
	}
	return nil
}

// close disconnects from a browser that no tool uses.
func (b *browser) close() {
	b.busy <- struct{}{}
	b.disconnect()
	<-b.busy
}

// disconnect ends the connection and forgets the tabs.
func (b *browser) disconnect() {
	if b.conn == nil {
		return
	}
	_ = b.conn.Close()
	b.events.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tabs {
		t.cancel(errTabClosed)
	}
	b.conn, b.tabs, b.current = nil, nil, nil
}

// selected returns the tab that tools act on.
func (b *browser) selected() (*tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		return nil, toolError("The browser has no open tab. Call new_tab.")
	}
	return b.current, nil
}

// named returns the tab with a name, or the selected one.
func (b *browser) named(name string) (*tab, error) {
	if name == "" {
		return b.selected()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, t := range b.tabs {
		if t.name == name {
			return t, nil
		}
		names = append(names, t.name)
	}
	return nil, toolError(fmt.Sprintf("There is no tab %s. The tabs are: %s.", quote(name), strings.Join(names, ", ")))
}

// awaitTab waits until the tab with a target id is attached.
func (b *browser) awaitTab(ctx context.Context, target string) (*tab, error) {
	var found *tab
	err := poll(ctx, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		i := slices.IndexFunc(b.tabs, func(t *tab) bool { return t.target == target })
		if i >= 0 {
			found = b.tabs[i]
		}
		return found != nil
	})
	if err != nil {
		return found, err
	}
	limited, cancel := context.WithTimeout(ctx, enableTimeout)
	defer cancel()
	// Otherwise a page that is opened now would send its first requests unrecorded.
	_ = b.call(limited, found, "Network.enable", nil, nil)
	return found, ctx.Err()
}

// poll waits until ok.
func poll(ctx context.Context, ok func() bool) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// call sends a command to the page. It fails if the tab is closed or crashes meanwhile.
func (b *browser) call(ctx context.Context, t *tab, method string, params, result any) error {
	return b.callIn(ctx, t, t.session, method, params, result)
}

// callIn is call for the CDP session of a frame of the tab.
func (b *browser) callIn(ctx context.Context, t *tab, session, method string, params, result any) error {
	b.mu.Lock()
	alive := t.ctx
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })()
	err := b.conn.Call(ctx, session, method, params, result)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// evaluate evaluates an expression in the page and decodes its value.
func (b *browser) evaluate(ctx context.Context, t *tab, expression string, into any) error {
	answer := evaluated{into: into}
	if err := b.call(ctx, t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer.raw); err != nil {
		return err
	}
	return answer.decode()
}

// evaluated is the answer to an evaluation.
type evaluated struct {
	raw struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	into any
}

func (e *evaluated) decode() error {
	if e.raw.ExceptionDetails != nil {
		return fmt.Errorf("evaluate: %s", e.raw.ExceptionDetails.Text)
	}
	if err := json.Unmarshal(e.raw.Result.Value, e.into); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

const (
	settleStart = 150 * time.Millisecond // for an action to start a navigation
	settleMax   = 10 * time.Second
)

// settle waits until a navigation that an action may have started has finished. A page
// that does not finish, is replaced or shows a dialog is not an error.
func (b *browser) settle(ctx context.Context, t *tab) error {
	select {
	case <-time.After(settleStart):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	_ = b.awaitPromise(limited, t, afterTasks)
	_ = b.subscription.Flush(limited) // the event of a navigation precedes the answer
	_ = poll(limited, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return !t.loading
	})
	return ctx.Err()
}

// awaitPromise evaluates a promise in the page and waits until it is settled.
func (b *browser) awaitPromise(ctx context.Context, t *tab, promise string) error {
	return b.call(ctx, t, "Runtime.evaluate", map[string]any{"expression": promise, "awaitPromise": true, "returnByValue": true}, nil)
}

// afterTasks is fulfilled after the tasks that an action has queued, such as the submission
// of a form. Unlike a timer, a message is not delayed in a tab in the background.
const afterTasks = `new Promise(resolve => {
  const {port1, port2} = new MessageChannel();
  port1.onmessage = () => resolve(true);
  port2.postMessage(0);
})`
