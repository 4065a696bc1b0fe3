// Package mcp serves /mcp: the Model Context Protocol over streamable HTTP. Its tools
// launch browsers and drive them by the accessibility tree of their pages.
//
// A session belongs to the key that began it. Its browsers end with it. The model gets
// short handles; it never sees keys, tokens or URLs with tokens.
package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
	"github.com/browser-svc/svc/worker/internal/data/storagestate"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const (
	defaultIdleTimeout = 15 * time.Minute
	maxSessions        = 1000
	maxSessionsPerKey  = 100
	maxBody            = 1 << 20 // bytes of a request
)

// Launches starts and ends browsers.
type Launches interface {
	VerifyKey(ctx context.Context, request launch.Request) error
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	KillLaunch(ctx context.Context, launchID uuid.UUID, reason session.EndReason) (session.Session, error)
}

// Pages opens and captures pages as the REST API does.
type Pages interface {
	Navigate(ctx context.Context, b access.Browser, request workerapi.NavigateRequest) (workerapi.Navigation, error)
	Preview(ctx context.Context, b access.Browser, targetID string, side int) (jpeg []byte, err error)
	State(ctx context.Context, b access.Browser, databases bool) (storagestate.State, error)
	FillSecret(ctx context.Context, b access.Browser, targetID string, r secretfill.Request) (secretfill.Filled, error)
}

// Logs has the console messages of pages.
type Logs interface {
	Open(ctx context.Context, b access.Browser) (*pagelog.Log, error)
}

// Options configures a Service.
type Options struct {
	Launches  Launches
	Browsers  access.Finder
	Pages     Pages
	Logs      Logs
	Address   access.Address
	WorkerKey func(key string) bool // compares in constant time
	// Parse reads and validates a launch, the body of POST /sessions/profile. Its
	// errors are *fault.Error.
	Parse   func(body []byte) (launch.Request, error)
	Network *netrules.Rules // of all launches; nil: none
	Version string          // of the program
	Logger  *slog.Logger

	IdleTimeout time.Duration // of a session; 15 minutes when 0
	MaxSessions int           // in total; 1000 when 0
}

// Service answers /mcp and owns its sessions.
type Service struct {
	Options
	handler http.Handler

	mu       sync.Mutex
	closed   bool
	sessions map[*clientSession]struct{} // including those that begin
	running  sync.WaitGroup              // the ends of sessions
}

// New returns a Service. Call Close to end it.
func New(o Options) *Service {
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = maxSessions
	}
	s := &Service{Options: o, sessions: map[*clientSession]struct{}{}}
	server := s.newServer()
	s.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		JSONResponse: true, SessionTimeout: o.IdleTimeout, MaxRequestBodyBytes: maxBody,
		// Every request carries a key, and its origin is checked. Behind a load balancer
		// on this host, the names in Host are public.
		DisableLocalhostProtection: true,
	})
	return s
}

// Register adds the routes to e.
func (s *Service) Register(e *echo.Echo) {
	e.Match([]string{http.MethodGet, http.MethodPost, http.MethodDelete}, "/mcp", s.serve)
}

// Close refuses new sessions, ends the open ones with their browsers and waits for them.
// It may be called again.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	var open []*clientSession
	for client := range s.sessions {
		open = append(open, client)
	}
	s.mu.Unlock()
	for _, client := range open {
		client.close()
	}
	s.running.Wait()
}

func (s *Service) serve(c echo.Context) error {
	r := c.Request()
	if origin := r.Header.Get("Origin"); origin != "" && !s.Address.IsOrigin(origin) {
		return fault.New(fault.Forbidden, "Pages of this origin are not allowed to connect.")
	}
	who, err := s.callerOf(r.Header)
	if err != nil {
		return err
	}
	who.client = c.RealIP()
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "*/*") // a missing header has this meaning, but the SDK requires one
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	id := r.Header.Get("Mcp-Session-Id")
	client := s.find(id)
	switch {
	case client != nil && client.caller.equal(who):
		if r.Method == http.MethodDelete {
			client.cancel() // otherwise the end would wait for the calls in progress
		}
		return s.forward(c, r)
	case id == "" && r.Method == http.MethodPost:
		return s.begin(c, who)
	}
	if err := s.verify(r.Context(), who); err != nil {
		return err
	}
	if client != nil {
		return fault.New(fault.Forbidden, "This MCP session belongs to another key.")
	}
	return s.forward(c, r)
}

// verify has the cloud verify the caller's key unless it is the worker's.
func (s *Service) verify(ctx context.Context, who caller) error {
	if who.key.IsZero() {
		return nil
	}
	return s.Launches.VerifyKey(ctx, launch.Request{OrganizationKey: who.key, Client: who.client})
}

// begin answers a request that begins a session. It verifies the key first, so that requests
// with made-up keys take no session.
func (s *Service) begin(c echo.Context, who caller) error {
	r := c.Request()
	if err := s.verify(r.Context(), who); err != nil {
		return err
	}
	client, err := s.reserve(who)
	if err != nil {
		return err
	}
	defer s.dropUnlessOpen(client)
	return s.forward(c, r.WithContext(context.WithValue(r.Context(), sessionKey{}, client)))
}

// forward lets the SDK answer. Its refusals, which are plain text, become errors.
func (s *Service) forward(c echo.Context, r *http.Request) error {
	w := &refusalWriter{ResponseWriter: c.Response()}
	s.handler.ServeHTTP(w, r)
	return w.fault()
}
