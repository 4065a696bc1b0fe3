// Package devtools serves what drives and shows one running browser: the
// routes under /browsers/{launchId}/ (specification 4.4, 5.5).
//
// Every route stands behind the gate, which lets in whoever holds the launch's
// control token or the worker key, and tells everybody else that there is no
// such browser. CDP connections are relayed: once both sides have shaken hands,
// bytes pass unread.
package devtools

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"os"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// Target is a browser that runs.
type Target struct {
	LaunchID  string
	Name      string          // for people, such as the profile's
	DebugPort int             // on 127.0.0.1
	Done      <-chan struct{} // closed when the browser has ended
}

// Finder knows the browsers that run on this machine.
type Finder interface {
	Find(launchID string) (Target, bool)
}

// Tickets verifies control tokens.
type Tickets interface {
	Verify(token, launchID string, use ticket.Use) error
}

// Options are what a Service needs, all of it.
type Options struct {
	Browsers  Finder
	Tickets   Tickets
	WorkerKey func(key string) bool // whether this is the worker key, in constant time
	Public    *url.URL              // the worker's configured address: scheme, host and, if any, a path such as /w/<id>
}

// Service answers the routes and owns the connections that it relays.
type Service struct {
	browsers  Finder
	tickets   Tickets
	workerKey func(string) bool
	public    publicAddress
	chromium  chromium
	viewPage  *template.Template
	work      *work
	relayed   counters
	captures  singleflight.Group // by launch id
}

// New returns a Service, which Close ends.
func New(o Options) *Service {
	return &Service{
		browsers: o.Browsers, tickets: o.Tickets, workerKey: o.WorkerKey,
		public: publicAddress{*o.Public}, chromium: newChromium(), viewPage: parseViewPage(), work: newWork(),
	}
}

// Close ends all relayed connections, refuses new ones, and returns when
// nothing of them is left. It may be called again.
func (s *Service) Close() error {
	s.work.close()
	s.chromium.close()
	return nil
}

// Stats returns what has been relayed so far.
func (s *Service) Stats() Stats { return s.relayed.stats() }

// handler answers a request that the gate has let in.
type handler func(c echo.Context, t Target) error

// Register adds the routes to e, below prefix (usually none).
func (s *Service) Register(e *echo.Echo, prefix string) {
	base := prefix + "/browsers/:launchId"
	for _, route := range []struct {
		path string
		kind kind
		handler
	}{
		{"/devtools/browser/:browserGuid", socket, s.connect("browser", "browserGuid")},
		{"/devtools/page/:targetId", socket, s.connect("page", "targetId")},
		{"/devtools", page, s.openDevtools},
		{"/devtools/", page, s.openDevtools},
		{"/devtools/*", asset, s.frontEnd},
		{"/view", page, s.view},
		{"/view/:file", asset, viewFile},
		{"/screenshot", asset, s.screenshot},
	} {
		h := s.gate(route.kind, readOnly(route.handler))
		e.Any(base+route.path, h)
		e.RouteNotFound(base+route.path, h) // methods that nobody has heard of
	}
	// What doesn't exist must not tell which browsers do.
	e.RouteNotFound(base, s.gate(asset, nothing))
	e.RouteNotFound(base+"/*", s.gate(asset, nothing))
}

func readOnly(next handler) handler {
	return func(c echo.Context, t Target) error {
		if m := c.Request().Method; m != http.MethodGet && m != http.MethodHead {
			f := fault.New(fault.MethodNotAllowed, "This path does not answer to this method.")
			f.Allow = "GET, HEAD"
			return f
		}
		return next(c, t)
	}
}

func nothing(echo.Context, Target) error {
	return fault.New(fault.NotFound, "There is nothing at this path.")
}

// explain says what to make of a failure to get something from the browser.
// Faults stay as they are.
func explain(t Target, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	switch {
	case hasEnded(t):
		return errUnknown
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not answer in time.")
	}
	return fault.Wrap(err, fault.BadGateway, "The browser gave no usable answer.")
}

func hasEnded(t Target) bool {
	select {
	case <-t.Done:
		return true
	default:
		return false
	}
}
