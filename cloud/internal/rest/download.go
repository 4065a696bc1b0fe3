package rest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/catalog"
	"github.com/browser-svc/svc/shared/fault"
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
	w := newSlowClientWriter(c.Response(), cancel)
	defer w.stop()
	archive, err := h.Catalog.Open(ctx, found)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	header := c.Response().Header()
	before := header.Clone()
	header.Set("ETag", `"`+found.SHA256+`"`)
	header.Set("X-Checksum-Sha256", found.SHA256)
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="chromium-%s-%s-%s.zip"`, found.Version, found.OS, found.Arch))
	header.Set("Cache-Control", "private, no-cache")
	http.ServeContent(w, r, "", found.PublishedAt, archive)
	if w.refused == 0 {
		return nil
	}
	clear(header) // the headers describe the archive, not a failure
	maps.Copy(header, before)
	if w.refused == http.StatusPreconditionFailed {
		return fault.New(fault.PreconditionFailed, "The archive does not match the precondition of the request.")
	}
	header.Set("Content-Range", fmt.Sprintf("bytes */%d", found.SizeBytes))
	return fault.New(fault.RangeNotSatisfiable, "The range is outside the archive.", fault.Detail{
		Field: "Range", Code: fault.Custom, Message: "must lie within the archive",
		Constraint: map[string]any{"max": found.SizeBytes},
	})
}

// stallTimeout is how long a download may make no progress before it is aborted.
const stallTimeout = time.Minute

// slowClientWriter extends the write deadline as long as a download makes
// progress. It suppresses the 412 and 416 of http.ServeContent, whose bodies do
// not have the service's error format.
type slowClientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timer   *time.Timer
	refused int // the suppressed status
}

func newSlowClientWriter(w http.ResponseWriter, cancel func()) *slowClientWriter {
	return &slowClientWriter{ResponseWriter: w, control: http.NewResponseController(w), timer: time.AfterFunc(stallTimeout, cancel)}
}

// WriteHeader implements http.ResponseWriter.
func (p *slowClientWriter) WriteHeader(status int) {
	if status == http.StatusPreconditionFailed || status == http.StatusRequestedRangeNotSatisfiable {
		p.refused = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *slowClientWriter) Write(b []byte) (int, error) {
	if p.refused != 0 {
		return len(b), nil
	}
	p.timer.Reset(stallTimeout)
	_ = p.control.SetWriteDeadline(time.Now().Add(stallTimeout)) // fails for the recorder of a test
	return p.ResponseWriter.Write(b)
}

func (p *slowClientWriter) stop() {
	p.timer.Stop()
	_ = p.control.SetWriteDeadline(time.Time{})
}
