// Package rest implements the REST operations of the worker: convert the
// request, make one call, convert the result.
package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/sandbox"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Launches starts and stops browsers.
type Launches interface {
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	Kill(ctx context.Context, id uuid.UUID) (session.Session, error)
	Traffic(id uuid.UUID) (received, sent int64, ok bool)
	Running(launchID uuid.UUID) (launch.Running, bool)
	Counts() (running, launching int)
	Drain()
	Resume()
	Draining() bool
}

// Sessions lists running and ended sessions.
type Sessions interface {
	Get(id uuid.UUID) (session.Session, bool)
	List(status session.Status, request page.Request) page.Page[session.Session]
	Live() (sessions []session.Session, seq int64)
}

// Builds lists the installed browser builds.
type Builds interface {
	Find(ctx context.Context) ([]browser.Build, error)
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
	Host            Host
	Readiness       Readiness
	Links           access.Links
	Identity        Identity
	Isolation       func() sandbox.Report
	WarmPool        func() WarmPoolState // state of the warm pool
	Version         string
	ContractVersion string // of the API document
}

var _ workerapi.StrictServerInterface = (*Server)(nil)

// GetWorkerHealth returns the health of the worker.
func (s *Server) GetWorkerHealth(ctx context.Context, _ workerapi.GetWorkerHealthRequestObject) (workerapi.GetWorkerHealthResponseObject, error) {
	status := workerapi.WorkerHealthStatusOk
	if s.liveStatus(ctx).Draining {
		status = workerapi.WorkerHealthStatusDraining
	}
	return workerapi.GetWorkerHealth200JSONResponse{Success: true, Data: workerapi.WorkerHealth{
		Status: status, Version: s.Version, ContractVersion: s.ContractVersion, Isolation: isolationSummary(s.Isolation()),
		License:       workerapi.LicenseState(s.Identity.License()),
		CloudContract: s.Identity.CloudContract().toAPI(),
	}}, nil
}

// CheckWorkerLiveness answers while the program serves requests.
func (s *Server) CheckWorkerLiveness(context.Context, workerapi.CheckWorkerLivenessRequestObject) (workerapi.CheckWorkerLivenessResponseObject, error) {
	return workerapi.CheckWorkerLiveness200JSONResponse{Success: true, Data: sharedapi.Liveness{Status: sharedapi.Alive}}, nil
}

// CheckWorkerReadiness returns 200 if the worker would accept a launch,
// otherwise 503 with the reasons.
func (s *Server) CheckWorkerReadiness(ctx context.Context, _ workerapi.CheckWorkerReadinessRequestObject) (workerapi.CheckWorkerReadinessResponseObject, error) {
	if err := s.Readiness.Err(ctx); err != nil {
		return nil, err
	}
	return workerapi.CheckWorkerReadiness200JSONResponse{Success: true, Data: sharedapi.Readiness{Status: sharedapi.Ready}}, nil
}

// ListBrowserVersions lists the installed versions, newest first.
func (s *Server) ListBrowserVersions(ctx context.Context, _ workerapi.ListBrowserVersionsRequestObject) (workerapi.ListBrowserVersionsResponseObject, error) {
	builds, err := s.Builds.Find(ctx)
	if err != nil {
		return nil, err
	}
	data := workerapi.BrowserVersions{Versions: []sharedapi.BrowserVersion{}, Builds: buildsToAPI(builds)}
	for _, build := range data.Builds {
		if n := len(data.Versions); n == 0 || data.Versions[n-1] != build.BrowserVersion {
			data.Versions = append(data.Versions, build.BrowserVersion)
		}
	}
	return workerapi.ListBrowserVersions200JSONResponse{Success: true, Data: data}, nil
}

func buildsToAPI(builds []browser.Build) []workerapi.BrowserBuild {
	list := []workerapi.BrowserBuild{}
	for _, build := range builds {
		list = append(list, workerapi.BrowserBuild{
			BrowserVersion: int32(build.Major), FullVersion: build.Version, Headful: build.Headful, Devtools: build.DevTools,
		})
	}
	return list
}
