// Package launchsock serves GET /launch: a WebSocket that launches a browser,
// charged to the organization key of the caller, and then speaks CDP with it
// (specification 4.4, 5.3, 5.5). A refused launch is answered before the upgrade.
// GET /playwright is the same with Playwright's protocol, for its server beside the browser.
//
// Frames are forwarded unchanged. Their headers are read to find message boundaries,
// and the beginning of client messages to find those for the worker itself: their
// method begins with "Svc.".
package launchsock

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Launches starts and ends browsers.
type Launches interface {
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	Running(launchID uuid.UUID) (launch.Running, bool)
	// BindClient makes a session count as ending when isLeaving returns true.
	BindClient(launchID uuid.UUID, isLeaving func() bool)
	// RequestEnd makes a session end with this reason, unless it ends already. It does not wait.
	RequestEnd(launchID uuid.UUID, reason session.EndReason)
	// AwaitEnd waits, for a bounded time, until the end of a session is recorded. It returns
	// false if the browser continues to run or ctx ends first.
	AwaitEnd(ctx context.Context, launchID uuid.UUID) (ended session.Session, ok bool)
}

// Options configures a Service.
type Options struct {
	Launches Launches
	Links    access.Links
	// Parse reads and validates a launch, the body of POST /sessions/profile. Its
	// errors are *fault.Error.
	Parse func(body []byte) (launch.Request, error)
	// Recording returns the recording of a session; nil without one.
	Recording func(session.Session) *workerapi.Recording
	// Playwright sets the programs of Playwright's server for the version of a client, or
	// returns why there are none.
	Playwright func(userAgent string, programs *browser.PlaywrightPrograms) error
	Logger     *slog.Logger
}

// Service answers /launch and /playwright, and owns its connections.
type Service struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex // serializes beginConn and Close
	running sync.WaitGroup
	sockets atomic.Int64 // that drive a browser
}

// New returns a Service. Call Close to end it.
func New(o Options) *Service {
	s := &Service{Options: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Register adds the routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.GET("/launch", func(c echo.Context) error {
		return s.serve(c, route{read: func(*http.Request, *launchRequest) error { return nil }, connect: s.connectBrowser})
	})
	e.GET("/playwright", s.playwright)
}

// route is what differs between the routes.
type route struct {
	// read reads the rest of a request with a key.
	read func(r *http.Request, parsed *launchRequest) error
	// connect connects with a launched browser, on behalf of a client with these headers.
	connect func(ctx context.Context, running launch.Running, header http.Header) (*upstream, error)
}

// Close refuses new connections, ends open connections and their browsers, and waits
// for them.
func (s *Service) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// Sockets returns the number of open sockets that drive a browser.
func (s *Service) Sockets() int64 { return s.sockets.Load() }

func (s *Service) beginConn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Add(1)
	return true
}

func (s *Service) serve(c echo.Context, way route) error {
	r := c.Request()
	if origin := r.Header.Get("Origin"); origin != "" && !s.Links.Address.IsOrigin(origin) {
		return fault.New(fault.Forbidden, "Pages of this origin are not allowed to connect.")
	}
	parsed, request, err := s.request(r, way)
	if err != nil {
		return err
	}
	request.Client = c.RealIP()
	if !s.beginConn() {
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancel(r.Context()) // ends when the client disconnects
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	launched, err := s.Launches.Launch(ctx, request)
	if err != nil {
		return parsed.rename(err)
	}
	relay, release, err := s.upgrade(ctx, c, launched, request.KeepAlive, way)
	if err != nil {
		s.endSession(launched, session.ClientClose)
		return err
	}
	defer release()
	s.sockets.Add(1)
	defer s.sockets.Add(-1)
	relay.Run(s.ctx)
	return nil
}

// request parses a request. The key is checked first: a caller without a key learns
// nothing about other errors.
func (s *Service) request(r *http.Request, way route) (parsed launchRequest, request launch.Request, err error) {
	if parsed, err = parseRequest(r); err != nil {
		return parsed, request, err
	}
	if err := ws.CheckHandshake(r); err != nil {
		return parsed, request, err
	}
	if err := way.read(r, &parsed); err != nil {
		return parsed, request, err
	}
	if request, err = s.Parse(parsed.body); err != nil {
		return parsed, request, parsed.rename(err)
	}
	request.OrganizationKey = parsed.key
	if parsed.startTimeout > 0 {
		request.Timeout = parsed.startTimeout
	}
	return parsed, request, nil
}
