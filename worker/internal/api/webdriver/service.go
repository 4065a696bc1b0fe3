// Package webdriver serves W3C WebDriver: a new session launches a browser with
// chromedriver in front of it, and every other command of the session goes to that
// chromedriver. Ending either ends the other.
//
// The id of a session is the credential of its commands. chromedriver's own id never
// leaves the worker.
package webdriver

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// killTimeout bounds how long the end of a session waits for the end of its browser.
const killTimeout = 30 * time.Second

// Launches starts and ends browsers.
type Launches interface {
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	KillLaunch(ctx context.Context, launchID uuid.UUID, reason session.EndReason) (session.Session, error)
	Running(launchID uuid.UUID) (launch.Running, bool)
}

// Options configures a Service.
type Options struct {
	Launches Launches
	Links    access.Links
	// Parse reads and validates a launch, the body of POST /sessions/profile. Its
	// errors are *fault.Error.
	Parse func(body []byte) (launch.Request, error)
	// IsWorkerKey reports whether a secret is the worker key. Any other is an
	// organization key, which the launch is charged to.
	IsWorkerKey func(secret string) bool
	// FindDriver returns the path of chromedriver for a build, or why WebDriver cannot
	// be used with it.
	FindDriver func(ctx context.Context, build builds.Build) (path string, err error)
	// Reasons returns why the worker would refuse a launch.
	Reasons func(ctx context.Context) []httpd.Reason
	// Fleet returns the state of the worker.
	Fleet func(ctx context.Context) (workerapi.FleetStatus, error)
	// Recording returns the recording of a session; nil without one.
	Recording   func(session.Session) *workerapi.Recording
	IdleTimeout time.Duration // of launches that have none; 0 is that of all launches
	Logger      *slog.Logger
}

// Service answers WebDriver commands and owns its sessions and sockets.
type Service struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	work sync.WaitGroup // session watchers and sockets

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]*driverSession // by the hash of the id, so that a look-up takes the same time for every id
}

// New returns a Service. Call Close to end it.
func New(o Options) *Service {
	s := &Service{Options: o, sessions: map[[sha256.Size]byte]*driverSession{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

const sessionParam = "webDriverSessionId"

// hub is the path below which Selenium servers have their commands.
const hub = "/wd/hub"

// Register adds the routes to e, at the root and below /wd/hub.
func (s *Service) Register(e *echo.Echo) {
	for _, base := range []string{"", hub} {
		e.GET(base+"/status", s.answer(s.status))
		e.POST(base+"/session", s.answer(s.newSession))
		route, command := base+"/session/:"+sessionParam, s.answer(s.command)
		e.Match([]string{http.MethodGet, http.MethodDelete}, route, command)
		e.Match([]string{http.MethodGet, http.MethodPost, http.MethodDelete}, route+"/*", command)
	}
}

// Close refuses new sessions, ends all sockets and waits for them. The sessions
// themselves end with their browsers.
func (s *Service) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// begin counts work that Close waits for, unless the service is closed.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

var errForeignPage = fault.New(fault.Forbidden, "Pages of this origin are not allowed to use WebDriver.")

// answer calls a handler, unless a page of another origin sent the request, and
// answers errors as WebDriver says.
func (s *Service) answer(handle echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		origin := c.Request().Header.Get(echo.HeaderOrigin)
		err := error(errForeignPage)
		if origin == "" || s.Links.Address.IsOrigin(origin) {
			err = handle(c)
		}
		if err != nil {
			writeError(c, err)
		}
		return err // for the access log
	}
}
