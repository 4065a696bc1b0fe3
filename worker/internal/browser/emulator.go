package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	settingTimeout = 10 * time.Second // to apply the settings to one page
	targetQueue    = 4096             // unread events
)

// emulator applies settings to every page before its first script runs, no
// matter which client opens it: targets wait at creation until their settings
// are applied. It does nothing before start.
type emulator struct {
	conn  *cdp.Conn
	log   *slog.Logger
	end   func() // ends the browser without waiting
	queue int    // unread events
	work  sync.WaitGroup

	// The settings to apply; set by start.
	page, frame []setting
	permissions []string
	startURL    string

	events    *cdp.Subscription
	once      sync.Once
	firstPage chan error // result of the first page's setup

	mu      sync.Mutex
	closed  bool
	granted map[string]bool        // browser contexts
	ready   map[string]chan string // by target id: gets the session of a page that has its settings
}

type attachedEvent struct {
	TargetID           string `json:"targetId"` // of a detached target
	SessionID          string `json:"sessionId"`
	WaitingForDebugger bool   `json:"waitingForDebugger"`
	TargetInfo         struct {
		TargetID         string `json:"targetId"`
		Type             string `json:"type"`
		BrowserContextID string `json:"browserContextId"`
	} `json:"targetInfo"`
}

func newEmulator(conn *cdp.Conn, log *slog.Logger, end func()) *emulator {
	return &emulator{
		conn: conn, log: log, end: end, queue: targetQueue,
		firstPage: make(chan error, 1), granted: map[string]bool{}, ready: map[string]chan string{},
	}
}

// start attaches to the browser's existing and future pages. It returns when the
// first page, if any, has its settings and navigates to the start URL. It is
// called once, for a spec that needs it, and ends with the connection.
func (e *emulator) start(ctx context.Context, s *Spec) error {
	e.page, e.frame, e.startURL = pageSettings(s), frameSettings(s), "about:blank"
	if len(s.StartURLs) > 0 {
		e.startURL = s.StartURLs[0]
	}
	for _, name := range s.Permissions {
		if p := permissions[name]; !slices.Contains(e.permissions, p) {
			e.permissions = append(e.permissions, p)
		}
	}
	if !e.subscribe() {
		return cdp.ErrClosed
	}
	if err := e.conn.Call(ctx, "", "Target.setAutoAttach", cdp.AutoAttach(true, "page"), nil); err != nil || s.noTabs() {
		return err
	}
	select {
	case err := <-e.firstPage:
		return err
	case <-e.conn.Done():
		return e.conn.Err()
	case <-ctx.Done():
		return fmt.Errorf("first page: %w", ctx.Err())
	}
}

// navigate sends a page to a URL. The response is ignored.
func (e *emulator) navigate(ctx context.Context, session, url string) error {
	if url == "about:blank" {
		return nil
	}
	reply, err := e.conn.Send(ctx, session, "Page.navigate", object{"url": url})
	if err != nil {
		return err
	}
	reply.Discard()
	return nil
}

// navigateWhenReady navigates a new, blank page once it has its settings. A URL that a
// complete browser opens itself is requested before. It returns at once.
func (e *emulator) navigateWhenReady(targetID, url string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*settingTimeout) // longer than apply
		defer cancel()
		select {
		case session := <-e.readySession(targetID):
			if err := e.navigate(ctx, session, url); err != nil {
				e.log.Debug("failed to navigate new page", "error", err)
			}
		case <-e.conn.Done():
		case <-ctx.Done():
			e.forget(targetID)
			e.log.Error("new page did not get its settings and stays blank")
		}
	})
}

// readySession returns the channel of a page, which may not be attached yet.
func (e *emulator) readySession(targetID string) chan string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready[targetID] == nil {
		e.ready[targetID] = make(chan string, 1)
	}
	return e.ready[targetID]
}

// forget forgets a page that is gone.
func (e *emulator) forget(targetID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ready, targetID)
}

// subscribe starts handling events; false after wait was called.
func (e *emulator) subscribe() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.events = e.conn.Subscribe(e.queue, "Target.attachedToTarget", "Target.detachedFromTarget")
	e.work.Go(e.loop)
	return true
}

// started reports whether pages get settings.
func (e *emulator) started() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.events != nil
}

// wait waits for the end of all work; the connection must be closing.
func (e *emulator) wait() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.work.Wait()
}

func (e *emulator) loop() {
	for event := range e.events.Events() {
		var a attachedEvent
		if err := json.Unmarshal(event.Params, &a); err != nil {
			e.log.Error("failed to decode target event", "error", err)
			continue
		}
		if event.Method == "Target.detachedFromTarget" {
			e.forget(a.TargetID)
			continue
		}
		var ready chan string
		if a.TargetInfo.Type == "page" {
			ready = e.readySession(a.TargetInfo.TargetID)
		}
		e.work.Go(func() { e.apply(a, ready) })
	}
	if errors.Is(e.events.Err(), cdp.ErrLagged) {
		// Only the lost events name the sessions of targets that wait now. A detach would
		// resume them, without settings.
		e.log.Error("browser ended: pages opened faster than settings could be applied")
		e.end()
	}
}

// apply applies the settings to one target and resumes it. It sends all requests
// before it waits for a reply: a waiting target answers some of them only after
// it resumes.
func (e *emulator) apply(a attachedEvent, ready chan<- string) {
	ctx, cancel := context.WithTimeout(context.Background(), settingTimeout)
	defer cancel()
	settings := e.frame
	if a.TargetInfo.Type == "page" {
		settings = slices.Concat(e.page, e.frame)
		e.grantPermissions(ctx, a.TargetInfo.BrowserContextID)
	}
	if len(e.frame) > 0 {
		settings = append(settings[:len(settings):len(settings)], setting{"Target.setAutoAttach", cdp.AutoAttach(true, "iframe", "worker")})
	}
	settings = append(settings[:len(settings):len(settings)], setting{"Runtime.runIfWaitingForDebugger", nil})
	var replies []*cdp.Reply
	for _, s := range settings {
		r, err := e.conn.Send(ctx, a.SessionID, s.method, s.params)
		if err != nil {
			for _, sent := range replies {
				sent.Discard()
			}
			return
		}
		replies = append(replies, r)
	}
	for _, r := range replies {
		// The page may have closed, or a client may have overridden the setting.
		if err := r.Wait(ctx, nil); err != nil {
			e.log.Debug("failed to apply page setting", "error", err)
		}
	}
	if a.TargetInfo.Type == "page" {
		e.once.Do(func() { e.firstPage <- e.navigate(ctx, a.SessionID, e.startURL) })
		select {
		case ready <- a.SessionID:
		default: // the page was attached before
		}
	}
}

// grantPermissions grants the permissions to a browser context when it is first
// seen; clients may create contexts.
func (e *emulator) grantPermissions(ctx context.Context, browserContext string) {
	if len(e.permissions) == 0 {
		return
	}
	e.mu.Lock()
	granted := e.granted[browserContext]
	e.mu.Unlock()
	if granted {
		return
	}
	params := object{"permissions": e.permissions, "browserContextId": browserContext}
	if err := e.conn.Call(ctx, "", "Browser.grantPermissions", params, nil); err != nil {
		e.log.Warn("failed to grant permissions", "error", err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted[browserContext] = true
}
