package rest

import (
	"context"
	"io"
	"net/url"

	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Releases serves the catalog of browser builds.
type Releases struct {
	Catalog releases
	Public  *url.URL // the base of download URLs
}

type releases interface {
	List(ctx context.Context, f catalog.Filter, r page.Request) (page.Page[catalog.Release], error)
	Find(ctx context.Context, b catalog.Build) (catalog.Release, error)
	Open(ctx context.Context, r catalog.Release) (io.ReadSeekCloser, error)
}

// ListChromiumReleases implements the operation listChromiumReleases.
func (h Releases) ListChromiumReleases(ctx context.Context, r cloudapi.ListChromiumReleasesRequestObject) (cloudapi.ListChromiumReleasesResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.PublishedAt)
	found, err := h.Catalog.List(ctx, catalog.Filter{OS: (*string)(p.Os), Arch: (*string)(p.Arch), Major: p.Major},
		pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.ChromiumReleaseList{Items: []cloudapi.ChromiumRelease{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, h.releaseToAPI(item))
	}
	return cloudapi.ListChromiumReleases200JSONResponse{Success: true, Data: list}, nil
}

func (h Releases) releaseToAPI(r catalog.Release) cloudapi.ChromiumRelease {
	address := h.Public.JoinPath("v1/chromium/releases", r.Version, "download")
	address.RawQuery = url.Values{"os": {r.OS}, "arch": {r.Arch}}.Encode()
	return cloudapi.ChromiumRelease{
		Version:     r.Version,
		Major:       r.Major,
		Channel:     cloudapi.BuildChannel(r.Channel),
		Os:          cloudapi.BuildOs(r.OS),
		Arch:        cloudapi.BuildArch(r.Arch),
		SizeBytes:   r.SizeBytes,
		Sha256:      r.SHA256,
		PublishedAt: r.PublishedAt,
		DownloadUrl: address.String(),
	}
}
