package rest

import (
	"context"
	"fmt"
	"slices"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
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
	p := r.Params
	sortBy := valueOr(p.SortBy, workerapi.Filename)
	found := s.Bundles.List(bundleFilter(p), installed, pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	items := []workerapi.Bundle{}
	for _, b := range found.Items {
		items = append(items, bundleToAPI(b))
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
	models := []workerapi.AndroidModel{}
	for _, m := range s.Bundles.AndroidModels(version) {
		models = append(models, workerapi.AndroidModel{
			Model: m.Model, Name: m.Name, OsVersion: nonZero(m.OSVersion), Viewport: nullableSize(m.Viewport), DeviceScaleFactor: nonZero(m.DeviceScaleFactor),
		})
	}
	return workerapi.ListAndroidModels200JSONResponse{Success: true, Data: workerapi.AndroidModels{
		BrowserVersion: r.Params.BrowserVersion, Models: models,
	}}, nil
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

func bundleFilter(p workerapi.ListBundlesParams) bundle.Filter {
	return bundle.Filter{Filename: valueOr(p.Filename, ""), Criteria: bundle.Criteria{
		BrowserVersion: int(valueOr(p.BrowserVersion, 0)),
		OS:             string(valueOr(p.Os, "")),
		OSVersion:      valueOr(p.OsVersion, ""),
		WindowsVersion: string(valueOr(p.WindowsVersion, "")),
		OSArch:         string(valueOr(p.OsArch, "")),
		Renderer:       valueOr(p.Renderer, ""),
		Model:          valueOr(p.Model, ""),
		GPUName:        valueOr(p.GpuName, ""),
	}}
}

func bundleToAPI(b bundle.Bundle) workerapi.Bundle {
	return workerapi.Bundle{
		Filename:          b.Filename,
		Name:              b.Name,
		BrowserVersion:    int32(b.BrowserVersion),
		Os:                (*sharedapi.OperatingSystem)(nonZero(b.OS)),
		OsVersion:         nonZero(b.OSVersion),
		WindowsVersion:    (*sharedapi.WindowsVersion)(nonZero(b.WindowsVersion)),
		OsArch:            (*sharedapi.OsArch)(nonZero(b.OSArch)),
		Renderer:          nonZero(b.Renderer),
		GpuName:           nonZero(b.GPUName),
		Model:             nonZero(b.Model),
		UserAgent:         nonZero(b.UserAgent),
		Viewport:          nullableSize(b.Viewport),
		Screen:            nullableSize(b.Screen),
		DeviceScaleFactor: nonZero(b.DeviceScaleFactor),
		IsMobile:          new(b.IsMobile),
		HasTouch:          new(b.HasTouch),
	}
}

// nonZero returns a pointer to v, or nil if v is zero, which means not set.
func nonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func nullableSize(s *bundle.Size) *sharedapi.SizeOrNull {
	if s == nil {
		return nil
	}
	return &sharedapi.SizeOrNull{Width: int32(s.Width), Height: int32(s.Height)}
}
