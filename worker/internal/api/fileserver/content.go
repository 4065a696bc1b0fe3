package fileserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// latest selects the newest file instead of an id.
const latest = "latest"

// content answers with the content of a file.
func (s *Service) content(c echo.Context, launch *files.Launch) error {
	f, err := find(c, launch)
	if err != nil {
		return toFault(err)
	}
	if f.State == files.InProgress {
		return s.follow(c, launch, f)
	}
	content, f, err := launch.Open(f.ID)
	switch {
	case errors.Is(err, files.ErrNoContent):
		return noContent(f)
	case err != nil:
		return toFault(err)
	}
	defer content.Close()
	return serve(c, content, func(header http.Header) { setHeaders(header, f.Name) })
}

// serve answers with content that can be requested in parts.
func serve(c echo.Context, content *os.File, setHeaders func(http.Header)) error {
	info, err := content.Stat()
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	return serveUntil(ctx, cancel, c, content, info.Size(), setHeaders)
}

// serveUntil is serve for content of this size. It calls cancel if the client stops reading.
func serveUntil(ctx context.Context, cancel func(), c echo.Context, content io.ReadSeeker, size int64, setHeaders func(http.Header)) error {
	w := httpd.NewContentWriter(c.Response(), cancel)
	defer w.Stop()
	setHeaders(c.Response().Header())
	return w.Serve(c.Request().WithContext(ctx), time.Time{}, content, "file", size)
}

// find returns the file that a request names.
func find(c echo.Context, launch *files.Launch) (files.File, error) {
	id := c.Param("file")
	if id != latest {
		f, err := launch.Get(id)
		if name := c.QueryParam("name"); err == nil && name != "" && name != f.Name {
			err = files.ErrNotFound
		}
		return f, err
	}
	if found := launch.List(c.QueryParam("name")); len(found) > 0 {
		return found[0], nil
	}
	return files.File{}, files.ErrNotFound
}

// setHeaders sets the headers of content, which must never be rendered.
func setHeaders(header http.Header, name string) {
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", disposition(name))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Cache-Control", "private, no-store")
}

// disposition returns the header value for a name in any script.
func disposition(name string) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": files.SafeName(name)})
}

// follow answers with a file that the browser still downloads.
func (s *Service) follow(c echo.Context, launch *files.Launch, f files.File) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	w := newFollowWriter(c.Response(), cancel)
	defer w.Stop()
	setHeaders(c.Response().Header(), f.Name)
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	err := launch.Follow(ctx, f.ID, w)
	switch {
	case err == nil:
		return nil
	case c.Response().Committed:
		panic(http.ErrAbortHandler) // only this shows the client that the file is incomplete
	}
	w.RestoreHeaders()
	switch {
	case errors.Is(err, files.ErrNotFound):
		return fault.Missing("file")
	case errors.Is(err, files.ErrNoContent):
		now, _ := launch.Get(f.ID)
		return noContent(now)
	case s.ctx.Err() != nil:
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	return err
}

// followWriter sends what is written at once. A pause between two writes is one of the
// download, not of the client.
type followWriter struct {
	*httpd.ContentWriter
	control *http.ResponseController
}

func newFollowWriter(w http.ResponseWriter, cancel func()) *followWriter {
	f := &followWriter{httpd.NewContentWriter(w, cancel), http.NewResponseController(w)}
	f.Pause()
	return f
}

// Write implements io.Writer.
func (f *followWriter) Write(p []byte) (int, error) {
	defer f.Pause()
	n, err := f.ContentWriter.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}
