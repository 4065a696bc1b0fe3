package fileserver

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/files"
)

// archive answers with a zip archive of all complete files. Nothing of it is stored.
func (s *Service) archive(c echo.Context, of *files.Launch) error {
	_, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	w := httpd.NewContentWriter(c.Response(), cancel)
	defer w.Stop()
	header := c.Response().Header()
	setHeaders(header, "files.zip")
	header.Set("Content-Type", "application/zip")
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	c.Response().WriteHeader(http.StatusOK)
	to := zip.NewWriter(w)
	names := map[string]bool{}
	for _, f := range of.List("") {
		if f.State != files.Complete {
			continue
		}
		if err := addToArchive(to, of, f, names); err != nil {
			panic(http.ErrAbortHandler) // only this shows the client that the archive is incomplete
		}
	}
	if err := to.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func addToArchive(to *zip.Writer, of *files.Launch, f files.File, names map[string]bool) error {
	content, f, err := of.Open(f.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	entry, err := to.CreateHeader(&zip.FileHeader{Name: uniqueName(f.Name, names), Method: zip.Store, Modified: f.CreatedAt})
	if err != nil {
		return err
	}
	if n, err := io.Copy(entry, io.LimitReader(content, f.Size)); err != nil || n != f.Size {
		return fmt.Errorf("read %d of %d bytes: %w", n, f.Size, err)
	}
	return nil
}

// uniqueName returns a name that is not used yet, also where letter case does not count.
func uniqueName(name string, used map[string]bool) string {
	suffix := path.Ext(name)
	base := strings.TrimSuffix(name, suffix)
	for n := 1; used[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s (%d)%s", base, n, suffix)
	}
	used[strings.ToLower(name)] = true
	return name
}
