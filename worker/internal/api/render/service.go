// Package render serves POST /screenshot, /pdf and /content: one request launches a browser,
// captures one page and ends the browser. The launch is charged to the organization key of
// the caller, or with the worker key to the worker's organization.
package render

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Launches starts and ends browsers.
type Launches interface {
	VerifyKey(ctx context.Context, request launch.Request) error
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	// BindClient makes a session count as ending when isLeaving returns true.
	BindClient(launchID uuid.UUID, isLeaving func() bool)
	// RequestEnd makes a session end with this reason, unless it ends already. It does not wait.
	RequestEnd(launchID uuid.UUID, reason session.EndReason)
	// AwaitEnd waits, for a bounded time, until the end of a session is recorded.
	AwaitEnd(ctx context.Context, launchID uuid.UUID) (ended session.Session, ok bool)
}

// Pages opens and captures pages as the routes of a running browser do. Requests and options
// have all fields that have a default.
type Pages interface {
	NewTab(ctx context.Context, b access.Browser) (targetID string, err error)
	Navigate(ctx context.Context, b access.Browser, request workerapi.NavigateRequest) (workerapi.Navigation, error)
	SetHTML(ctx context.Context, b access.Browser, targetID, html string, until workerapi.WaitUntil, timeout time.Duration) error
	Screenshot(ctx context.Context, b access.Browser, targetID string, options workerapi.ScreenshotOptions) ([]byte, error)
	PDF(ctx context.Context, b access.Browser, targetID string, options workerapi.PdfOptions) ([]byte, error)
	HTML(ctx context.Context, b access.Browser, targetID string) ([]byte, error)
}

// Options configures a Service.
type Options struct {
	Launches Launches
	Browsers access.Finder
	Pages    Pages
	Address  access.Address
	// IsWorkerKey reports whether a secret is the worker key. Any other is an organization
	// key, which the launch is charged to.
	IsWorkerKey func(secret string) bool
	// Inspect validates a request against the API document.
	Inspect func(c echo.Context) error
	// Convert converts a valid launch.
	Convert func(body workerapi.LaunchProfileRequest) (launch.Request, error)
	Logger  *slog.Logger
}

// Service answers the requests and owns their browsers.
type Service struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu   sync.Mutex // serializes begin and Close
	work sync.WaitGroup
}

// New returns a Service. Call Close to end it.
func New(o Options) *Service {
	s := &Service{Options: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Register adds the routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.POST("/screenshot", s.screenshot)
	e.POST("/pdf", s.pdf)
	e.POST("/content", s.content)
}

// Close refuses new requests, ends those in progress with their browsers and waits for
// them. It may be called again.
func (s *Service) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

func (s *Service) screenshot(c echo.Context) error {
	options := workerapi.ScreenshotOptions{Format: new(workerapi.PictureFormat("png")), Quality: new(int32(80)), FullPage: new(false)}
	image, err := s.render(c, &options, func(ctx context.Context, b access.Browser, targetID string) ([]byte, error) {
		return s.Pages.Screenshot(ctx, b, targetID, options)
	})
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "image/"+string(*options.Format), image)
}

func (s *Service) pdf(c echo.Context) error {
	options := workerapi.PdfOptions{Landscape: new(false), PrintBackground: new(false), Scale: new(1.0), PaperFormat: new(workerapi.PaperFormat("a4"))}
	document, err := s.render(c, &options, func(ctx context.Context, b access.Browser, targetID string) ([]byte, error) {
		return s.Pages.PDF(ctx, b, targetID, options)
	})
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/pdf", document)
}

func (s *Service) content(c echo.Context) error {
	html, err := s.render(c, nil, s.Pages.HTML)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; sandbox") // the page is not the worker's
	return c.Blob(http.StatusOK, echo.MIMETextHTMLCharsetUTF8, html)
}

// captureFunc returns the file that a request asks for.
type captureFunc func(ctx context.Context, b access.Browser, targetID string) ([]byte, error)

var errClosing = fault.New(fault.Unavailable, "This worker is shutting down.")

// render launches a browser for a request, captures its page and ends the browser. The
// options of the request are decoded into options. When it returns, nothing is left.
func (s *Service) render(c echo.Context, options any, capture captureFunc) ([]byte, error) {
	p, request, err := s.read(c, options)
	if err != nil {
		return nil, err
	}
	if !s.begin() {
		return nil, errClosing
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancel(c.Request().Context()) // ends when the client disconnects
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	launched, err := s.Launches.Launch(ctx, request)
	if err != nil {
		return nil, err
	}
	s.Launches.BindClient(launched.LaunchID, func() bool { return ctx.Err() != nil })
	file, err := s.capture(ctx, launched, p, capture)
	ended := s.end(launched)
	switch {
	case err == nil:
		return file, nil
	case s.ctx.Err() != nil, ended.EndReason == session.Drain:
		return nil, errClosing
	case errors.Is(err, access.ErrUnknownBrowser), ended.EndReason != session.ClientClose && ended.EndReason != "":
		return nil, fault.Wrap(err, fault.BadGateway, "The browser ended before the page was captured: "+string(ended.EndReason)+".")
	}
	return nil, err
}

// capture opens the page in a new tab and captures it.
func (s *Service) capture(ctx context.Context, launched session.Session, p page, capture captureFunc) ([]byte, error) {
	browser, ok := s.Browsers.Find(launched.LaunchID.String())
	if !ok {
		return nil, access.ErrUnknownBrowser
	}
	targetID, err := s.Pages.NewTab(ctx, browser)
	if err != nil {
		return nil, err
	}
	if p.HTML != "" {
		err = s.Pages.SetHTML(ctx, browser, targetID, p.HTML, p.WaitUntil, time.Duration(p.TimeoutMs)*time.Millisecond)
	} else {
		_, err = s.Pages.Navigate(ctx, browser, workerapi.NavigateRequest{Url: p.URL, TargetId: &targetID, WaitUntil: &p.WaitUntil, TimeoutMs: &p.TimeoutMs})
	}
	if err != nil {
		return nil, err
	}
	return capture(ctx, browser, targetID)
}

// end ends a session and waits until that is recorded. It returns the ended session; an
// empty one if that took too long.
func (s *Service) end(launched session.Session) session.Session {
	reason := session.ClientClose
	if s.ctx.Err() != nil {
		reason = session.Drain
	}
	s.Launches.RequestEnd(launched.LaunchID, reason)
	ended, ok := s.Launches.AwaitEnd(context.Background(), launched.LaunchID)
	if !ok {
		s.Logger.Error("the end of a session was not recorded in time", "launchId", launched.LaunchID)
	}
	return ended
}
