package fileserver

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// skippedFile is a file that is not in an archive, for its manifest.
type skippedFile struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // deleted or unreadable
}

// manifestName is the name of the last entry of an archive without some of its files.
const manifestName = "skipped.json"

// archive answers with a zip archive of all complete files. Nothing of it is stored.
func (s *Service) archive(c echo.Context, launch *files.Launch) error {
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
	if err := writeArchive(w, launch); err != nil {
		panic(http.ErrAbortHandler) // only this shows the client that the archive is incomplete
	}
	return nil
}

// writeArchive writes the complete files. A file that is gone before its entry begins is
// skipped and named in a manifest. An entry that fails after its begin
// makes the archive invalid, so that no client takes it for a complete one.
func writeArchive(w io.Writer, launch *files.Launch) error {
	archive, names := zip.NewWriter(w), map[string]bool{}
	var skipped []skippedFile
	for _, f := range launch.List("") {
		if f.State != files.Complete {
			continue
		}
		content, reason := openForArchive(launch, f)
		if reason != "" {
			skipped = append(skipped, skippedFile{f.ID, f.Name, reason})
			continue
		}
		err := addToArchive(archive, files.UniqueName(f.Name, names), f, content)
		_ = content.Close()
		if err != nil {
			return err
		}
	}
	if len(skipped) > 0 {
		manifest, err := archive.Create(files.UniqueName(manifestName, names))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(manifest).Encode(map[string]any{"skipped": skipped}); err != nil {
			return err
		}
	}
	return archive.Close()
}

// openForArchive opens a file, or returns why it has to be skipped.
func openForArchive(launch *files.Launch, f files.File) (content *os.File, reason string) {
	content, _, err := launch.Open(f.ID)
	switch {
	case errors.Is(err, files.ErrNotFound):
		return nil, "deleted"
	case err != nil:
		return nil, "unreadable"
	}
	if info, err := content.Stat(); err != nil || info.Size() != f.Size { // the browser has changed it
		_ = content.Close()
		return nil, "unreadable"
	}
	return content, ""
}

func addToArchive(archive *zip.Writer, name string, f files.File, content io.Reader) error {
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: f.CreatedAt})
	if err != nil {
		return err
	}
	if n, err := io.Copy(entry, io.LimitReader(content, f.Size)); err != nil || n != f.Size {
		return fmt.Errorf("read %d of %d bytes: %w", n, f.Size, err)
	}
	return nil
}
