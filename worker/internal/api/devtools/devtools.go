// Package devtools serves the routes that drive a running browser, below
// /browsers/{launchId}/ (specification 4.4): CDP sockets, Chromium's /json
// endpoints, the DevTools front end, and helpers such as screenshots and
// navigation.
//
// CDP connections are relayed: after both handshakes, frames pass unchanged, except
// for the calls of package intercept and on resumable connections (package resume).
// Package access checks credentials.
package devtools

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

// Tickets mints tokens that last no longer than requested: lifetime, and until
// unless that is zero.
type Tickets interface {
	MintFor(launchID string, use ticket.Use, lifetime time.Duration, until time.Time) (token string, expires time.Time, err error)
}

// Options configures a Service.
type Options struct {
	Links   access.Links // builds the URLs in answers, with the tokens in them
	Tickets Tickets
	End     func(ctx context.Context, launchID string) error // ends a launch, as killing its session does
	Logs    Logs                                             // the console messages of browsers
	Secrets Secrets                                          // nil: there are none
	Resume  resume.Options                                   // for connections that outlive their sockets
}

// Service serves the routes and owns the relayed connections.
type Service struct {
	links     access.Links
	tickets   Tickets
	endLaunch func(context.Context, string) error
	chromium  chromium
	tasks     *taskGroup
	resumable *resume.Connections
	logs      Logs
	secrets   Secrets
	sockets   atomic.Int64 // CDP sockets of clients
}

// New returns a Service. The caller must call Close.
func New(o Options) *Service {
	return &Service{
		links: o.Links, tickets: o.Tickets, endLaunch: o.End, logs: o.Logs, secrets: o.Secrets,
		chromium: newChromium(), tasks: newTaskGroup(), resumable: resume.New(o.Resume),
	}
}

// Close ends all relayed connections, refuses new ones, and waits until they
// have ended. It may be called again.
func (s *Service) Close() error {
	s.tasks.close()
	s.chromium.close()
	return nil
}

// Sockets returns the number of CDP sockets of clients that are open.
func (s *Service) Sockets() int64 { return s.sockets.Load() }

// Resumes returns the numbers of resumes so far, by result.
func (s *Service) Resumes() map[string]int64 { return s.resumable.Results() }

// Routes returns the routes for package access.
func (s *Service) Routes() []access.Route {
	routes := []access.Route{
		{Path: access.BrowserSocket, Kind: access.Socket, Handle: s.connectBrowser},
		{Path: access.BrowserSocket + "/:browserGuid", Kind: access.Socket, Handle: s.connect("browser", targetOf("browserGuid"))},
		{Path: "/devtools/page/:targetId", Kind: access.Socket, Handle: s.connect("page", targetOf("targetId"))},
		{Path: "/devtools", Kind: access.Page, Handle: s.openDevtools},
		{Path: "/devtools/", Kind: access.Page, Handle: s.openDevtools},
		{Path: "/devtools/*", Kind: access.Asset, Handle: s.frontEnd},
		{Path: "/screenshot", Handle: s.screenshot},
		{Path: "/pdf", Handle: s.pdf},
		{Path: "/navigate", Method: "POST", Handle: s.navigate},
		{Path: "/fill", Method: "POST", Handle: s.fill},
		{Path: "/state", Handle: s.storageState},
		{Path: "/logs", Handle: s.pageLogs},
		{Path: "/close", Method: "POST", Handle: s.close},
		{Path: "/view-ticket", Method: "POST", Handle: s.viewTicket},
	}
	for _, name := range frontEndPages {
		routes = append(routes, access.Route{Path: "/devtools/" + name, Kind: access.Page, Handle: s.frontEndPage(name)})
	}
	routes = append(routes, s.handoverRoutes()...)
	return append(routes, s.discovery()...)
}

// beginTask starts a task of a launch, which is client activity. Its context ends
// with the request, the Service or the timeout. The caller must call done.
func (s *Service) beginTask(ctx context.Context, v access.AuthorizedRequest, timeout time.Duration) (_ context.Context, done func(), err error) {
	return s.beginTaskAs(ctx, v, timeout, func() func() { return v.Activity.Watch(nil) })
}

// beginTaskAs is beginTask with the function that counts the client until the task
// ends.
func (s *Service) beginTaskAs(ctx context.Context, v access.AuthorizedRequest, timeout time.Duration, count func() (leave func())) (_ context.Context, done func(), err error) {
	if err := s.tasks.begin(v.LaunchID); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	forget := context.AfterFunc(s.tasks.ctx, cancel)
	leave, release := count(), v.KeepAwake()
	return ctx, func() {
		release()
		leave()
		forget()
		cancel()
		s.tasks.end(v.LaunchID)
	}, nil
}

// toFault converts an error of a call to the browser. Faults are returned
// unchanged.
func (s *Service) toFault(v access.AuthorizedRequest, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	switch {
	case v.HasEnded():
		return access.ErrUnknownBrowser
	case s.tasks.ctx.Err() != nil:
		return errClosing
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not answer in time.")
	}
	return fault.Wrap(err, fault.BadGateway, "The browser returned an invalid answer.")
}
