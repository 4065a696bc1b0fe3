package rest

import (
	"context"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// ListBrowserVersions lists the installed versions, newest first.
func (s *Server) ListBrowserVersions(ctx context.Context, _ workerapi.ListBrowserVersionsRequestObject) (workerapi.ListBrowserVersionsResponseObject, error) {
	installed, err := s.Builds.Find(ctx)
	if err != nil {
		return nil, err
	}
	data := workerapi.BrowserVersions{Versions: []sharedapi.BrowserVersion{}, Builds: buildsToAPI(installed)}
	for _, build := range data.Builds {
		if n := len(data.Versions); n == 0 || data.Versions[n-1] != build.BrowserVersion {
			data.Versions = append(data.Versions, build.BrowserVersion)
		}
	}
	return workerapi.ListBrowserVersions200JSONResponse{Success: true, Data: data}, nil
}

func buildsToAPI(installed []builds.Build) []workerapi.BrowserBuild {
	list := []workerapi.BrowserBuild{}
	for _, build := range installed {
		list = append(list, workerapi.BrowserBuild{
			BrowserVersion: int32(build.Major), FullVersion: build.Version, Engine: workerapi.BrowserEngine(build.Engine),
			Headful: build.Headful, Devtools: build.DevTools, Extensions: build.Extensions, Screencast: true,
		})
	}
	return list
}
