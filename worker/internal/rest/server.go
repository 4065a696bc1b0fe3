// Package rest answers the worker's REST operations: convert, one call,
// convert.
package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Launches starts and ends browsers.
type Launches interface {
	Launch(ctx context.Context, request launch.Request) (session.Session, error)
	Kill(ctx context.Context, id uuid.UUID) (session.Session, error)
}

// Sessions are what runs and ran.
type Sessions interface {
	Get(id uuid.UUID) (session.Session, bool)
	List(status session.Status, request page.Request) page.Page[session.Session]
}

// Builds are the installed browsers.
type Builds interface {
	Find(ctx context.Context) ([]browser.Build, error)
}

// Server implements the generated interface.
type Server struct {
	Launches        Launches
	Sessions        Sessions
	Builds          Builds
	URLs            URLs
	Version         string
	ContractVersion string // of the document
}

var _ workerapi.StrictServerInterface = (*Server)(nil)

// GetWorkerHealth answers as long as the worker lives.
func (s *Server) GetWorkerHealth(context.Context, workerapi.GetWorkerHealthRequestObject) (workerapi.GetWorkerHealthResponseObject, error) {
	return workerapi.GetWorkerHealth200JSONResponse{Success: true, Data: workerapi.WorkerHealth{
		Status: workerapi.Ok, Version: s.Version, ContractVersion: s.ContractVersion,
	}}, nil
}

// ListBrowserVersions lists what is installed, the newest first.
func (s *Server) ListBrowserVersions(ctx context.Context, _ workerapi.ListBrowserVersionsRequestObject) (workerapi.ListBrowserVersionsResponseObject, error) {
	builds, err := s.Builds.Find(ctx)
	if err != nil {
		return nil, err
	}
	data := workerapi.BrowserVersions{Versions: []sharedapi.BrowserVersion{}, Builds: []workerapi.BrowserBuild{}}
	for _, build := range builds {
		major := int32(build.Major)
		if n := len(data.Versions); n == 0 || data.Versions[n-1] != major {
			data.Versions = append(data.Versions, major)
		}
		data.Builds = append(data.Builds, workerapi.BrowserBuild{
			BrowserVersion: major, FullVersion: build.Version, Headful: build.Headful, Devtools: build.DevTools,
		})
	}
	return workerapi.ListBrowserVersions200JSONResponse{Success: true, Data: data}, nil
}
