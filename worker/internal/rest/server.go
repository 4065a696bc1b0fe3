// Package rest answers the worker's REST operations: convert, one call,
// convert.
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

// Launches starts and ends browsers.
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

// Sessions are what runs and ran.
type Sessions interface {
	Get(id uuid.UUID) (session.Session, bool)
	List(status session.Status, request page.Request) page.Page[session.Session]
	Live() (sessions []session.Session, seq int64)
}

// Builds are the installed browsers.
type Builds interface {
	Find(ctx context.Context) ([]browser.Build, error)
}

// Readiness is whether a launch would be taken. A worker that drains, or shuts
// down, says so first.
type Readiness interface {
	Reasons(ctx context.Context) []httpd.Reason // why not; none when one would
	Err(ctx context.Context) error              // the same as a fault
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
	WarmPool        func() WarmPoolState // applies the browsers that are kept ready
	Version         string
	ContractVersion string // applies the document
}

var _ workerapi.StrictServerInterface = (*Server)(nil)

// GetWorkerHealth answers as long as the worker lives.
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

// CheckWorkerLiveness answers as long as the program serves requests.
func (s *Server) CheckWorkerLiveness(context.Context, workerapi.CheckWorkerLivenessRequestObject) (workerapi.CheckWorkerLivenessResponseObject, error) {
	return workerapi.CheckWorkerLiveness200JSONResponse{Success: true, Data: sharedapi.Liveness{Status: sharedapi.Alive}}, nil
}

// CheckWorkerReadiness answers 200 when a launch would be taken, 503 with the
// reasons otherwise.
func (s *Server) CheckWorkerReadiness(ctx context.Context, _ workerapi.CheckWorkerReadinessRequestObject) (workerapi.CheckWorkerReadinessResponseObject, error) {
	if err := s.Readiness.Err(ctx); err != nil {
		return nil, err
	}
	return workerapi.CheckWorkerReadiness200JSONResponse{Success: true, Data: sharedapi.Readiness{Status: sharedapi.Ready}}, nil
}

// ListBrowserVersions lists what is installed, the newest first.
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
