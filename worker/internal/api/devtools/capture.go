package devtools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	captureTimeout = 15 * time.Second
	printTimeout   = 30 * time.Second
	defaultQuality = 80 // of a JPEG, in percent

	// drawDelay is how long a preview waits for the first frame before it makes Chromium
	// draw the page.
	drawDelay = 500 * time.Millisecond

	// maxSide is the largest width and height that Chromium draws, in CSS pixels at
	// scale 1. Larger screenshots repeat their content.
	maxSide = 16384
)

// withTab calls do with the named tab, or with the most recently active tab.
func (s *Service) withTab(ctx context.Context, v access.AuthorizedRequest, name string, timeout time.Duration, do func(context.Context, *tab) error) error {
	ctx, done, err := s.beginTask(ctx, v, timeout)
	if err != nil {
		return err
	}
	defer done()
	return s.useTab(ctx, v, name, do)
}

// useTab is withTab for a task that is already running.
func (s *Service) useTab(ctx context.Context, v access.AuthorizedRequest, name string, do func(context.Context, *tab) error) error {
	t, err := s.openTab(ctx, v, name)
	if err != nil {
		return s.toFault(v, err)
	}
	defer t.close()
	if err = do(ctx, t); errors.Is(err, context.DeadlineExceeded) && !v.HasEnded() {
		err = fault.Wrap(err, fault.Timeout, "The page was not ready in time: it is loading, busy, or shows a dialog.")
	}
	return s.toFault(v, err)
}

func (s *Service) openTab(ctx context.Context, v access.AuthorizedRequest, name string) (*tab, error) {
	id, err := s.chromium.page(ctx, v.Browser, name)
	if err != nil {
		return nil, err
	}
	t, err := openTab(ctx, v.Browser, id)
	if _, ok := errors.AsType[*ws.RefusedError](err); ok { // the tab was closed in the meantime
		return nil, errNoTarget
	}
	return t, err
}

// picture describes a screenshot.
type picture struct {
	format  string
	quality int // of a JPEG, in percent
	full    bool
	width   int // the maximum; 0 for no limit
	height  int // the maximum of a preview; 0 for no limit
}

// screenshot answers with a picture of the visible part of a page or of the complete
// page.
func (s *Service) screenshot(c echo.Context, v access.AuthorizedRequest) error {
	q := queryOf(c)
	target := q.text("targetId", "")
	p := picture{format: q.text("format", "png"), quality: q.integer("quality", defaultQuality), full: q.flag("fullPage", false), width: q.integer("width", 0)}
	if err := q.err(); err != nil {
		return err
	}
	image, err := s.capture(c.Request().Context(), v, target, p)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "image/"+p.format, image)
}

// Screenshot returns a picture of a tab as GET /browsers/{launchId}/screenshot does. All
// options but the width are set.
func (s *Service) Screenshot(ctx context.Context, browser access.Browser, targetID string, options workerapi.ScreenshotOptions) ([]byte, error) {
	p := picture{format: string(*options.Format), quality: int(*options.Quality), full: *options.FullPage}
	if options.Width != nil {
		p.width = int(*options.Width)
	}
	return s.capture(ctx, access.AuthorizedRequest{Browser: browser}, targetID, p)
}

func (s *Service) capture(ctx context.Context, v access.AuthorizedRequest, target string, p picture) (image []byte, err error) {
	count := func() func() { return v.Activity.Watch(nil) }
	if p.width > 0 { // a preview is not activity
		count = v.Activity.Count
	}
	ctx, done, err := s.beginTaskAs(ctx, v, captureTimeout, count)
	if err != nil {
		return nil, err
	}
	defer done()
	err = s.useTab(ctx, v, target, func(ctx context.Context, t *tab) error {
		if p.width > 0 && !p.full {
			image, err = t.preview(ctx, p)
		} else {
			image, err = t.screenshot(ctx, p)
		}
		return err
	})
	return image, err
}

func (t *tab) screenshot(ctx context.Context, p picture) ([]byte, error) {
	params := map[string]any{"format": p.format, "optimizeForSpeed": true}
	if p.format == "jpeg" {
		params["quality"] = p.quality
	}
	if err := t.startRendering(ctx); err != nil {
		return nil, err
	}
	if p.full {
		clip, err := t.wholePage(ctx, p.width)
		if err != nil {
			return nil, err
		}
		params["clip"], params["captureBeyondViewport"] = clip, true
	}
	return t.file(ctx, "Page.captureScreenshot", params)
}

// Preview returns a picture of the visible part of a tab as a JPEG, at most this many
// pixels wide and high.
func (s *Service) Preview(ctx context.Context, browser access.Browser, targetID string, side int) (image []byte, err error) {
	err = s.withTab(ctx, access.AuthorizedRequest{Browser: browser}, targetID, captureTimeout, func(ctx context.Context, t *tab) error {
		image, err = t.preview(ctx, picture{format: "jpeg", quality: defaultQuality, width: side, height: side})
		return err
	})
	return image, err
}

// preview returns a frame of a screencast, which Chromium scales down itself.
// A screenshot with a scaled clip would remove the device scale factor that another
// client has set.
func (t *tab) preview(ctx context.Context, p picture) ([]byte, error) {
	var frame struct{ Data []byte }
	var broken error
	t.onEvent = func(method string, params json.RawMessage) {
		if method == "Page.screencastFrame" && frame.Data == nil {
			broken = json.Unmarshal(params, &frame)
		}
	}
	params := map[string]any{"format": p.format, "quality": p.quality, "maxWidth": p.width, "maxHeight": cmp.Or(p.height, maxSide)}
	if err := t.call(ctx, "Page.startScreencast", params, nil); err != nil {
		return nil, err
	}
	defer time.AfterFunc(drawDelay, func() { t.draw(ctx) }).Stop()
	if err := t.waitFor(ctx, func() bool { return broken != nil || len(frame.Data) > 0 }); err != nil {
		return nil, err
	}
	if broken != nil {
		return nil, fmt.Errorf("Page.screencastFrame: %w", broken)
	}
	return frame.Data, nil
}

// draw makes Chromium draw a page that was never in the foreground, for example because
// it has navigated in the background: a screencast alone has no frame of it. Other
// pages don't need it, and would get a visibilitychange event.
func (t *tab) draw(ctx context.Context) {
	_ = t.post(ctx, "Page.captureScreenshot", map[string]any{"format": "jpeg", "quality": 1}) // without it, the deadline ends the preview
}

// startRendering makes Chromium draw the page even if it is in the background, until
// t is closed. Without it a screenshot would wait indefinitely. A screencast has this
// effect; this one is as small as possible.
func (t *tab) startRendering(ctx context.Context) error {
	tiny := map[string]any{"format": "jpeg", "quality": 1, "maxWidth": 16, "maxHeight": 16}
	return t.call(ctx, "Page.startScreencast", tiny, nil)
}

// wholePage returns the area of the complete page, limited to maxSide, and the scale
// for a picture of at most this width; 0 for no limit.
func (t *tab) wholePage(ctx context.Context, width int) (map[string]any, error) {
	var metrics struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	if err := t.call(ctx, "Page.getLayoutMetrics", nil, &metrics); err != nil {
		return nil, err
	}
	side := func(length float64) float64 { return min(max(math.Ceil(length), 1), maxSide) }
	size, scale := metrics.CSSContentSize, 1.0
	if width > 0 {
		scale = min(scale, float64(width)/side(size.Width))
	}
	return map[string]any{"x": 0, "y": 0, "width": side(size.Width), "height": side(size.Height), "scale": scale}, nil
}

// paper contains the paper sizes, in inches.
var paper = map[string]struct{ width, height float64 }{
	"letter": {8.5, 11}, "legal": {8.5, 14}, "tabloid": {11, 17},
	"a3": {11.7, 16.54}, "a4": {8.27, 11.7}, "a5": {5.83, 8.27},
}

// pdf answers with a page as a PDF document.
func (s *Service) pdf(c echo.Context, v access.AuthorizedRequest) error {
	q := queryOf(c)
	options := workerapi.PdfOptions{
		Landscape: new(q.flag("landscape", false)), PrintBackground: new(q.flag("printBackground", false)), Scale: new(q.number("scale", 1)),
		PaperFormat: new(workerapi.PaperFormat(q.text("paperFormat", "a4"))),
	}
	if err := q.err(); err != nil {
		return err
	}
	document, err := s.PDF(c.Request().Context(), v.Browser, q.text("targetId", ""), options)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/pdf", document)
}

// PDF returns a tab as a PDF document, as GET /browsers/{launchId}/pdf does. All options
// are set.
func (s *Service) PDF(ctx context.Context, browser access.Browser, targetID string, options workerapi.PdfOptions) (document []byte, err error) {
	size, ok := paper[string(*options.PaperFormat)]
	if !ok {
		return nil, fault.Field("paperFormat", "is an unknown paper size")
	}
	params := map[string]any{
		"landscape": options.Landscape, "printBackground": options.PrintBackground, "scale": options.Scale,
		"paperWidth": size.width, "paperHeight": size.height,
	}
	err = s.withTab(ctx, access.AuthorizedRequest{Browser: browser}, targetID, printTimeout, func(ctx context.Context, t *tab) error {
		document, err = t.file(ctx, "Page.printToPDF", params)
		return err
	})
	return document, err
}

// file returns the file that is the result of a CDP command.
func (t *tab) file(ctx context.Context, method string, params any) ([]byte, error) {
	var file struct{ Data []byte }
	if err := t.call(ctx, method, params, &file); err != nil {
		return nil, err
	}
	if len(file.Data) == 0 {
		return nil, errors.New(method + ": got an empty file")
	}
	return file.Data, nil
}
