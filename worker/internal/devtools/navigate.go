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
	"github.com/browser-svc/svc/worker/internal/access"
)

const (
	navigateTimeout    = 30 * time.Second // unless the request says otherwise
	maxNavigateTimeout = 2 * time.Minute

	// dialogTimeout is for a client that answers dialogs by itself.
	dialogTimeout = 2 * time.Second
)

var errDialog = fault.New(fault.Conflict, "The page shows a dialog, and loads no further until it is answered.")

// lifecycleEventNames is Chromium's name of what a navigation waits for; at least for the
// new document to be there, or there would be nothing to tell of it.
var lifecycleEventNames = map[workerapi.WaitUntil]string{"none": "init", "domcontentloaded": "DOMContentLoaded", "load": "load"}

// navigate opens an address in a tab and tells where that has led.
func (s *Service) navigate(c echo.Context, v access.AuthorizedRequest) error {
	request := workerapi.NavigateRequest{
		TargetId: new(""), WaitUntil: new(workerapi.WaitUntil("load")), TimeoutMs: new(int32(navigateTimeout.Milliseconds())),
	}
	if err := decode(c, &request); err != nil {
		return err
	}
	if !isAllowedURL(request.Url) {
		return fault.Invalid(fault.Detail{
			Field: "url", Code: fault.InvalidPattern, Message: "must be an http or https address, or about:blank",
			Constraint: map[string]any{"allowed": []string{"http", "https", "about:blank"}},
		})
	}
	event, ok := lifecycleEventNames[*request.WaitUntil]
	if !ok {
		return fault.Field("waitUntil", "is nothing to wait for")
	}
	timeout := min(time.Duration(*request.TimeoutMs)*time.Millisecond, maxNavigateTimeout)
	return s.withTab(c, v, *request.TargetId, timeout, func(ctx context.Context, t *tab) error {
		reached, err := t.navigate(ctx, request.Url, event)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, workerapi.NavigateResponse{Success: true, Data: reached})
	})
}

// isAllowedURL keeps a caller from this machine's files, and from running scripts in
// what the tab shows.
func isAllowedURL(address string) bool {
	if address == "about:blank" {
		return true
	}
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// navigate opens an address and waits for that event of the document that it
// leads to.
func (t *tab) navigate(ctx context.Context, address, event string) (workerapi.Navigation, error) {
	var none workerapi.Navigation
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	on := navigationProgress{onDialogTimeout: func() { cancel(errDialog) }}
	t.onEvent = on.record
	// While another navigation waits for its server, pages take no commands.
	if err := t.call(ctx, "Page.stopLoading", nil, nil); err != nil {
		return none, err
	}
	if err := t.enableLifecycleEvents(ctx); err != nil {
		return none, err
	}
	var begun struct{ FrameID, LoaderID, ErrorText string }
	if err := t.call(ctx, "Page.navigate", map[string]any{"url": address}, &begun); err != nil {
		return none, err
	}
	if begun.ErrorText != "" {
		return none, fault.New(fault.BadGateway, "The page could not be loaded: "+begun.ErrorText+".")
	}
	// The document may be in another renderer process than the one before, which
	// may have crashed and kept nothing of what it was told.
	if err := t.enableLifecycleEvents(ctx); err != nil {
		return none, err
	}
	arrived := func() bool { return on.has(begun.FrameID, begun.LoaderID, event) }
	if begun.LoaderID == "" { // the address was one within the same document
		arrived = func() bool { return on.within }
	}
	if err := t.waitFor(ctx, arrived); err != nil {
		return none, err
	}
	return t.currentPage(ctx)
}

// enableLifecycleEvents asks the tab's renderer process for the events of its documents, past and
// to come. A page that shows a dialog answers when the dialog is closed, and one
// that has crashed never does: no answer is waited for.
func (t *tab) enableLifecycleEvents(ctx context.Context) error {
	if err := t.post(ctx, "Page.enable", nil); err != nil { // else only past events are told
		return err
	}
	return t.post(ctx, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true})
}

// currentPage tells what a tab shows, from the browser rather than the page, which
// may be busy.
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

// navigationProgress is how far documents have got.
type navigationProgress struct {
	seen            []lifecycleEvent
	within          bool // a document went to another part of itself
	dialog          *time.Timer
	onDialogTimeout func() // is called when nobody answers a dialog
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
		if m.Name == "commit" { // what is past is told so
			m.Name = "init"
		}
		p.seen = append(p.seen, m)
	}
}

// has reports whether the frame's document of that loader, or one that has
// taken its place since, has reached the event.
func (p *navigationProgress) has(frame, loader, event string) bool {
	begun := false
	for _, m := range p.seen {
		if m.FrameID != frame {
			continue
		}
		begun = begun || m.LoaderID == loader
		if begun && m.Name == "init" {
			loader = m.LoaderID
		}
		if m.LoaderID == loader && m.Name == event {
			return true
		}
	}
	return false
}
