package rest

import (
	"context"
	"fmt"
	"slices"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

// Bundles are the identity presets of this worker.
type Bundles interface {
	List(filter bundle.Filter, installed []int, request page.Request) page.Page[bundle.Bundle]
	AndroidModels(version int) []bundle.Model
}

// ListBundles lists the bundles that can be launched here (specification 4.3).
func (s *Server) ListBundles(ctx context.Context, r workerapi.ListBundlesRequestObject) (workerapi.ListBundlesResponseObject, error) {
	installed, err := s.installedVersions(ctx)
	if err != nil {
		return nil, err
	}
	filter, err := settings.Convert[bundle.Filter](r.Params)
	if err != nil {
		return nil, err
	}
	filter.BrowserVersion = int(valueOr(r.Params.BrowserVersion, 0))
	sortBy := valueOr(r.Params.SortBy, workerapi.Filename)
	found := s.Bundles.List(filter, installed, pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	items, err := settings.Convert[[]workerapi.Bundle](found.Items)
	if err != nil {
		return nil, err
	}
	for i, b := range found.Items {
		items[i].IsMobile, items[i].HasTouch = new(settings.Enabled(b.IsMobile)), new(settings.Enabled(b.HasTouch))
	}
	return workerapi.ListBundles200JSONResponse{Success: true, Data: workerapi.BundleList{
		Items: items, Pagination: pageapi.Pagination(found),
	}}, nil
}

// ListAndroidModels lists the device models of an installed browser version.
func (s *Server) ListAndroidModels(ctx context.Context, r workerapi.ListAndroidModelsRequestObject) (workerapi.ListAndroidModelsResponseObject, error) {
	installed, err := s.installedVersions(ctx)
	if err != nil {
		return nil, err
	}
	version := int(r.Params.BrowserVersion)
	if !slices.Contains(installed, version) {
		return nil, fault.New(fault.NotInstalled, fmt.Sprintf("Browser version %d is not installed on this worker.", version), fault.Detail{
			Field: "browserVersion", Code: fault.ResourceNotFound, Message: "is not installed", Received: version,
			Constraint: map[string]any{"availableVersions": installed},
		})
	}
	models, err := settings.Convert[[]workerapi.AndroidModel](s.Bundles.AndroidModels(version))
	return workerapi.ListAndroidModels200JSONResponse{Success: true, Data: workerapi.AndroidModels{
		BrowserVersion: r.Params.BrowserVersion, Models: models,
	}}, err
}

// installedVersions returns the major versions on this machine, newest first.
func (s *Server) installedVersions(ctx context.Context) ([]int, error) {
	builds, err := s.Builds.Find(ctx)
	if err != nil {
		return nil, err
	}
	majors := []int{}
	for _, build := range builds {
		majors = append(majors, build.Major)
	}
	return slices.Compact(majors), nil
}

// nonZero returns a pointer to v, or nil if v is zero, which means not set.
func nonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
