package devtools

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// NewTab opens a blank tab and returns its target id.
func (s *Service) NewTab(ctx context.Context, browser access.Browser) (targetID string, err error) {
	v := access.AuthorizedRequest{Browser: browser}
	ctx, done, err := s.beginTask(ctx, v, answerTimeout)
	if err != nil {
		return "", err
	}
	defer done()
	text, _, err := s.chromium.do(ctx, http.MethodPut, browser, "/json/new?about:blank")
	var target targetInfo
	if err == nil {
		err = json.Unmarshal(text, &target)
	}
	return target.text("id"), s.toFault(v, err)
}

// SetHTML replaces the document of a tab by HTML and waits for the event in it. The URL of
// the page is about:blank.
func (s *Service) SetHTML(ctx context.Context, browser access.Browser, targetID, html string, until workerapi.WaitUntil, timeout time.Duration) error {
	event, ok := lifecycleEventNames[until]
	if !ok {
		return fault.Field("waitUntil", "must be none, domcontentloaded or load")
	}
	return s.withTab(ctx, access.AuthorizedRequest{Browser: browser}, targetID, timeout, func(ctx context.Context, t *tab) error {
		return t.setHTML(ctx, html, event)
	})
}

func (t *tab) setHTML(ctx context.Context, html, event string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := t.navigate(ctx, "about:blank", "load"); err != nil {
		return err
	}
	var tree struct {
		FrameTree struct{ Frame struct{ ID, LoaderID string } }
	}
	if err := t.call(ctx, "Page.getFrameTree", nil, &tree); err != nil { // its answer follows the events of the blank document
		return err
	}
	frame, progress := tree.FrameTree.Frame, navigationProgress{onDialogTimeout: func() { cancel(errDialog) }}
	t.onEvent = progress.record
	if err := t.call(ctx, "Page.setDocumentContent", map[string]any{"frameId": frame.ID, "html": html}, nil); err != nil {
		return err
	}
	return t.waitFor(ctx, func() bool { return progress.has(frame.ID, frame.LoaderID, event) })
}

// HTML returns the HTML of the document of a tab, with its doctype.
func (s *Service) HTML(ctx context.Context, browser access.Browser, targetID string) (html []byte, err error) {
	err = s.withTab(ctx, access.AuthorizedRequest{Browser: browser}, targetID, captureTimeout, func(ctx context.Context, t *tab) error {
		var document struct{ Root struct{ NodeID int } }
		if err := t.call(ctx, "DOM.getDocument", map[string]any{"depth": 0}, &document); err != nil {
			return err
		}
		var answer struct{ OuterHTML string }
		if err := t.call(ctx, "DOM.getOuterHTML", map[string]any{"nodeId": document.Root.NodeID}, &answer); err != nil {
			return err
		}
		html = []byte(answer.OuterHTML)
		return nil
	})
	return html, err
}
