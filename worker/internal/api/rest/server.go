// Package rest implements the REST operations of the worker: convert the
// request, make one call, convert the result.
package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Launches starts and stops browsers.
type Launches interface {
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	Kill(ctx context.Context, id uuid.UUID) (session.Session, error)
	Update(id uuid.UUID, update launch.Update) (session.Session, error)
	Traffic(id uuid.UUID) (received, sent int64, ok bool)
	Network(id uuid.UUID) (session.Network, error)
	Running(launchID uuid.UUID) (launch.Running, bool)
	Counts() (running, launching int)
	Drain()
	Resume()
	Draining() bool
}

// Sessions lists running and ended sessions.
type Sessions interface {
	Get(id uuid.UUID) (session.Session, bool)
	List(filter session.Filter, request page.Request) page.Page[session.Session]
	Live() (sessions []session.Session, seq int64)
}

// Builds lists the installed browser builds.
type Builds interface {
	Find(ctx context.Context) ([]builds.Build, error)
}

// Readiness reports whether the worker would accept a launch. Draining is the
// first reason.
type Readiness interface {
	Reasons(ctx context.Context) []httpd.Reason // why it would not; empty if it would
	Err(ctx context.Context) error              // the reasons as a fault; nil without reasons
}

// Server implements the generated interface.
type Server struct {
	Launches        Launches
	Sessions        Sessions
	Builds          Builds
	Bundles         Bundles
	Extensions      Extensions
	Host            Host
	Readiness       Readiness
	Links           access.Links
	Console         access.Console
	Recordings      access.Recordings
	Identity        Identity
	Isolation       func() sandbox.Report
	MissingScripts  func() *[]string     // scripts without a font; nil: unknown
	WarmPool        func() WarmPoolState // state of the warm pool
	Recording       Recording            // nil: no recordings
	Version         string
	ContractVersion string // of the API document
}

// Recording finds the recordings of sessions.
type Recording interface {
	Info(session uuid.UUID) (recording.Info, bool)
	Find(ctx context.Context, session uuid.UUID) (recording.Info, error)
}

var _ workerapi.StrictServerInterface = (*Server)(nil)
