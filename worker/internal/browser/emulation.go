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

// settingTimeout bounds the application of the settings to one page.
const settingTimeout = 10 * time.Second

type setting struct {
	method string
	params any
}

// defaultLocale is what a browser without locale settings has.
const defaultLocale = "en-US"

type object = map[string]any

// needsEmulation reports whether pages need settings that no switch can make.
// Otherwise the worker attaches to no page and stays out of clients' way.
func needsEmulation(s *Spec) bool {
	return len(pageSettings(s)) > 0 || len(frameSettings(s)) > 0 || len(s.Permissions) > 0
}

// pageSettings hold for a page with all its frames.
func pageSettings(s *Spec) []setting {
	var out []setting
	if s.emulatesMetrics() {
		out = append(out, setting{"Emulation.setDeviceMetricsOverride", deviceMetrics(s)})
	}
	if s.HasTouch {
		out = append(out, setting{"Emulation.setTouchEmulationEnabled", object{"enabled": true, "maxTouchPoints": 5}})
	}
	if g := s.Geolocation; g != nil {
		out = append(out, setting{"Emulation.setGeolocationOverride",
			object{"latitude": g.Latitude, "longitude": g.Longitude, "accuracy": g.Accuracy}})
	}
	return out
}

func deviceMetrics(s *Spec) object {
	m := object{"width": 0, "height": 0, "deviceScaleFactor": s.DeviceScaleFactor, "mobile": s.IsMobile}
	if s.Viewport != nil {
		m["width"], m["height"] = s.Viewport.Width, s.Viewport.Height
	}
	screen := s.Screen
	if screen == nil && s.IsMobile {
		screen = s.Viewport
	}
	if screen != nil {
		m["screenWidth"], m["screenHeight"] = screen.Width, screen.Height
	}
	return m
}

// frameSettings must be made again in each frame of another process.
func frameSettings(s *Spec) []setting {
	var out []setting
	if s.Locale != "" && s.Locale != defaultLocale {
		out = append(out, setting{"Emulation.setLocaleOverride", object{"locale": s.Locale}})
	}
	if len(s.ExtraHTTPHeaders) > 0 {
		out = append(out,
			setting{"Network.enable", object{"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}},
			setting{"Network.setExtraHTTPHeaders", object{"headers": s.ExtraHTTPHeaders}})
	}
	return out
}

// emulator applies settings to every page from its first script on, whoever
// opens it: targets wait on creation until their settings are made. It does
// nothing until begin.
type emulator struct {
	conn *cdp.Conn
	log  *slog.Logger
	work sync.WaitGroup

	// What to apply, from begin on.
	page, frame []setting
	permissions []string
	startURL    string

	events    *cdp.Subscription
	once      sync.Once
	firstPage chan error // the first page has its settings and is on its way

	mu      sync.Mutex
	closed  bool
	granted map[string]bool // browser contexts
}

type attachedEvent struct {
	SessionID          string `json:"sessionId"`
	WaitingForDebugger bool   `json:"waitingForDebugger"`
	TargetInfo         struct {
		TargetID         string `json:"targetId"`
		Type             string `json:"type"`
		BrowserContextID string `json:"browserContextId"`
	} `json:"targetInfo"`
}

func newEmulator(conn *cdp.Conn, log *slog.Logger) *emulator {
	return &emulator{conn: conn, log: log, firstPage: make(chan error, 1), granted: make(map[string]bool)}
}

// start attaches to the browser's pages, those to come included, and returns
// when the first, if there is to be one, has its settings and is on its way to
// the start URL. It is called once, for a spec that needs it, and ends with the
// connection.
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
	if err := e.conn.Call(ctx, "", "Target.setAutoAttach", autoAttach("page"), nil); err != nil || s.noTabs() {
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

func autoAttach(kinds ...string) object {
	var filter []object
	for _, kind := range kinds {
		filter = append(filter, object{"type": kind})
	}
	return object{
		"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
		"filter": append(filter, object{"exclude": true}),
	}
}

// navigate sends the first tab to its start URL. What the site answers
// concerns nobody.
func (e *emulator) navigate(ctx context.Context, session string) error {
	if e.startURL == "about:blank" {
		return nil
	}
	reply, err := e.conn.Send(ctx, session, "Page.navigate", object{"url": e.startURL})
	if err != nil {
		return err
	}
	reply.Discard()
	return nil
}

// subscribe takes up the work; false when it is over.
func (e *emulator) subscribe() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.events = e.conn.Subscribe(4096, "Target.attachedToTarget")
	e.work.Go(e.loop)
	return true
}

// wait returns when all is over, which the connection's end brings about.
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
			e.log.Error("page settings", "error", err)
			continue
		}
		e.work.Go(func() { e.apply(a) })
	}
	if err := e.events.Err(); errors.Is(err, cdp.ErrLagged) {
		// Detaching lets go of every page that still waits for us.
		e.log.Error("pages opened faster than settings could be made; later pages go without")
		ctx, cancel := context.WithTimeout(context.Background(), settingTimeout)
		defer cancel()
		off := object{"autoAttach": false, "waitForDebuggerOnStart": false, "flatten": true}
		_ = e.conn.Call(ctx, "", "Target.setAutoAttach", off, nil)
	}
}

// apply makes the settings in one target and lets it run. All requests go out
// before the first answer is awaited: a waiting target answers some of them
// only once it runs.
func (e *emulator) apply(a attachedEvent) {
	ctx, cancel := context.WithTimeout(context.Background(), settingTimeout)
	defer cancel()
	settings := e.frame
	if a.TargetInfo.Type == "page" {
		settings = slices.Concat(e.page, e.frame)
		e.grantPermissions(ctx, a.TargetInfo.BrowserContextID)
	}
	if len(e.frame) > 0 {
		settings = append(settings[:len(settings):len(settings)], setting{"Target.setAutoAttach", autoAttach("iframe", "worker")})
	}
	settings = append(settings[:len(settings):len(settings)], setting{"Runtime.runIfWaitingForDebugger", nil})
	var replies []*cdp.Reply
	for _, s := range settings {
		r, err := e.conn.Send(ctx, a.SessionID, s.method, s.params)
		if err != nil {
			return
		}
		replies = append(replies, r)
	}
	for _, r := range replies {
		// A page that closed meanwhile is no news; neither is a client that
		// has overridden the same setting already.
		if err := r.Wait(ctx, nil); err != nil {
			e.log.Debug("page setting", "error", err)
		}
	}
	if a.TargetInfo.Type == "page" {
		e.once.Do(func() { e.firstPage <- e.navigate(ctx, a.SessionID) })
	}
}

// grantPermissions gives the permissions to a browser context when it is first seen;
// clients make contexts of their own.
func (e *emulator) grantPermissions(ctx context.Context, browserContext string) {
	if len(e.permissions) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.granted[browserContext] {
		return
	}
	params := object{"permissions": e.permissions, "browserContextId": browserContext}
	err := e.conn.Call(ctx, "", "Browser.grantPermissions", params, nil)
	if err != nil {
		e.log.Warn("permissions not granted", "error", err)
		return
	}
	e.granted[browserContext] = true
}
