package rest

import (
	"context"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/shared/httpd"
)

// Register adds the route of the download, which does not answer JSON. The guard
// checks it like every operation.
func (h Releases) Register(e *echo.Echo) {
	const path = "/v1/chromium/releases/:version/download"
	e.GET(path, h.download)
	e.HEAD(path, h.download)
}

// download implements the operations downloadChromiumRelease and
// getChromiumReleaseHeaders. The archive is streamed, so only a buffer of it is in
// memory.
func (h Releases) download(c echo.Context) error {
	r := c.Request()
	found, err := h.Catalog.Find(r.Context(), catalog.Build{
		Version: c.Param("version"), OS: c.QueryParam("os"), Arch: c.QueryParam("arch"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w := httpd.NewContentWriter(c.Response(), cancel)
	defer w.Stop()
	archive, err := h.Catalog.Open(ctx, found)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	header := c.Response().Header()
	header.Set("ETag", `"`+found.SHA256+`"`)
	header.Set("X-Checksum-Sha256", found.SHA256)
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="chromium-%s-%s-%s.zip"`, found.Version, found.OS, found.Arch))
	header.Set("Cache-Control", "private, no-cache")
	return w.Serve(r, found.PublishedAt, archive, "archive", found.SizeBytes)
}
