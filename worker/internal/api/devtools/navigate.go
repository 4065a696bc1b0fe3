package devtools

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	navigateTimeout    = 30 * time.Second // by default
	maxNavigateTimeout = 2 * time.Minute

	// dialogTimeout is how long a client may take to answer a dialog.
	dialogTimeout = 2 * time.Second
)

var errDialog = fault.New(fault.Conflict, "The page shows a dialog and does not continue to load until the dialog is closed.")

// lifecycleEventNames maps the API's names of events to Chromium's. Even "none" waits
// for the new document, because the answer describes it.
var lifecycleEventNames = map[workerapi.WaitUntil]string{"none": "init", "domcontentloaded": "DOMContentLoaded", "load": "load"}

// navigate opens a URL in a tab and answers with the reached page.
func (s *Service) navigate(c echo.Context, v access.AuthorizedRequest) error {
	request := workerapi.NavigateRequest{
		TargetId: new(""), WaitUntil: new(workerapi.WaitUntil("load")), TimeoutMs: new(int32(navigateTimeout.Milliseconds())),
	}
	if err := decode(c, &request); err != nil {
		return err
	}
	reached, err := s.Navigate(c.Request().Context(), v.Browser, request)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, workerapi.NavigateResponse{Success: true, Data: reached})
}

// Navigate opens a URL in a tab, waits as the request says and returns the reached page.
// It takes the request of POST /browsers/{launchId}/navigate with all of its fields.
func (s *Service) Navigate(ctx context.Context, browser access.Browser, request workerapi.NavigateRequest) (reached workerapi.Navigation, err error) {
	if !isAllowedURL(request.Url) {
		return reached, fault.Invalid(fault.Detail{
			Field: "url", Code: fault.InvalidPattern, Message: "must be an http or https address, or about:blank",
			Constraint: map[string]any{"allowed": []string{"http", "https", "about:blank"}},
		})
	}
	event, ok := lifecycleEventNames[*request.WaitUntil]
	if !ok {
		return reached, fault.Field("waitUntil", "must be none, domcontentloaded or load")
	}
	timeout := min(time.Duration(*request.TimeoutMs)*time.Millisecond, maxNavigateTimeout)
	err = s.withTab(ctx, access.AuthorizedRequest{Browser: browser}, *request.TargetId, timeout, func(ctx context.Context, t *tab) error {
		reached, err = t.navigate(ctx, request.Url, event)
		return err
	})
	return reached, err
}

// isAllowedURL reports whether a URL may be opened. It excludes files of this machine
// and scripts in the context of the page.
func isAllowedURL(address string) bool {
	if address == "about:blank" {
		return true
	}
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// navigate opens a URL and waits for the event in the resulting document.
func (t *tab) navigate(ctx context.Context, address, event string) (workerapi.Navigation, error) {
	var none workerapi.Navigation
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	progress := navigationProgress{onDialogTimeout: func() { cancel(errDialog) }}
	t.onEvent = progress.record
	// Pages accept no commands while another navigation waits for its server.
	if err := t.call(ctx, "Page.stopLoading", nil, nil); err != nil {
		return none, err
	}
	if err := t.enableLifecycleEvents(ctx); err != nil {
		return none, err
	}
	var navigation struct{ FrameID, LoaderID, ErrorText string }
	if err := t.call(ctx, "Page.navigate", map[string]any{"url": address}, &navigation); err != nil {
		return none, err
	}
	if navigation.ErrorText != "" {
		return none, fault.New(fault.BadGateway, "The page could not be loaded: "+navigation.ErrorText+".")
	}
	// The new document may be in another renderer process, where the events are not
	// yet enabled.
	if err := t.enableLifecycleEvents(ctx); err != nil {
		return none, err
	}
	arrived := func() bool { return progress.has(navigation.FrameID, navigation.LoaderID, event) }
	if navigation.LoaderID == "" { // the navigation stays within the document
		arrived = func() bool { return progress.within }
	}
	if err := t.waitFor(ctx, arrived); err != nil {
		return none, err
	}
	return t.currentPage(ctx)
}

// enableLifecycleEvents enables the events of past and future documents in the tab's
// renderer process. It does not wait for the answers: a page that shows a dialog
// answers when the dialog is closed, and a crashed page never answers.
func (t *tab) enableLifecycleEvents(ctx context.Context) error {
	if err := t.post(ctx, "Page.enable", nil); err != nil { // otherwise Chromium sends only past events
		return err
	}
	return t.post(ctx, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true})
}

// currentPage returns the page of the tab. It asks the browser, because the page may
// be busy.
func (t *tab) currentPage(ctx context.Context) (workerapi.Navigation, error) {
	var history struct {
		CurrentIndex int
		Entries      []struct{ URL, Title string }
	}
	err := t.call(ctx, "Page.getNavigationHistory", nil, &history)
	if err != nil || history.CurrentIndex < 0 || history.CurrentIndex >= len(history.Entries) {
		return workerapi.Navigation{}, err
	}
	entry := history.Entries[history.CurrentIndex]
	return workerapi.Navigation{TargetId: t.id, Url: entry.URL, Title: entry.Title}, nil
}

// navigationProgress records how far documents have loaded.
type navigationProgress struct {
	events          []lifecycleEvent
	within          bool // a document navigated within itself
	dialog          *time.Timer
	onDialogTimeout func() // called if no client answers a dialog
}

type lifecycleEvent struct{ FrameID, LoaderID, Name string }

func (p *navigationProgress) record(method string, params json.RawMessage) {
	switch method {
	case "Page.navigatedWithinDocument":
		p.within = true
	case "Page.javascriptDialogOpening":
		p.dialog = time.AfterFunc(dialogTimeout, p.onDialogTimeout)
	case "Page.javascriptDialogClosed":
		if p.dialog != nil {
			p.dialog.Stop()
		}
	case "Page.lifecycleEvent":
		var m lifecycleEvent
		if json.Unmarshal(params, &m) != nil {
			return
		}
		if m.Name == "commit" { // Chromium's name for a past init event
			m.Name = "init"
		}
		p.events = append(p.events, m)
	}
}

// has reports whether the frame's document of that loader, or a document that has
// replaced it, has reached the event.
func (p *navigationProgress) has(frame, loader, event string) bool {
	inDocument := false
	for _, m := range p.events {
		if m.FrameID != frame {
			continue
		}
		inDocument = inDocument || m.LoaderID == loader
		if inDocument && m.Name == "init" {
			loader = m.LoaderID
		}
		if m.LoaderID == loader && m.Name == event {
			return true
		}
	}
	return false
}
