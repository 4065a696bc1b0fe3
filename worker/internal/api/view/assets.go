package view

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/web"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// pageFiles contains the pages with their styles and scripts.
//
//go:embed page
var pageFiles embed.FS

// novncFiles contains the unmodified core of noVNC with its dependencies; see
// scripts/vendor-novnc.
//
//go:embed novnc
var novncFiles embed.FS

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// assets contains the files of the pages under one version. The files of a version
// never change.
type assets struct {
	version string
	files   map[string]func() ([]byte, error) // gzipped, by name below the version
	modules []string                          // names of noVNC's scripts
}

// loadAssets reads the embedded files.
func loadAssets() assets {
	a := assets{files: map[string]func() ([]byte, error){}}
	sum := sha256.New()
	for _, source := range []struct {
		files  fs.FS
		prefix string
	}{{pageFiles, "page/"}, {web.Styles, "styles/"}, {novncFiles, ""}} {
		err := fs.WalkDir(source.files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || contentTypes[path.Ext(name)] == "" {
				return err
			}
			raw, err := fs.ReadFile(source.files, name)
			if err != nil {
				return err
			}
			file := name
			name = strings.TrimPrefix(name, source.prefix)
			sum.Write(fmt.Appendf(nil, "%s %d\n%s", name, len(raw), raw))
			if strings.HasPrefix(name, "novnc/") && path.Ext(name) == ".js" {
				a.modules = append(a.modules, name)
			}
			a.files[name] = sync.OnceValues(func() ([]byte, error) { return compress(source.files, file) })
			return nil
		})
		if err != nil {
			panic(err) // embedded files are always readable
		}
	}
	a.version = hex.EncodeToString(sum.Sum(nil))[:16]
	return a
}

// compress returns a file compressed with gzip.
func compress(files fs.FS, name string) ([]byte, error) {
	raw, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// asset serves a file. Clients may cache it permanently under its version.
func (s *Service) asset(c echo.Context, _ access.AuthorizedRequest) error {
	version, name, _ := strings.Cut(c.Param("*"), "/")
	assets := s.assets()
	zipped, ok := assets.files[name]
	if !ok || version != assets.version {
		return access.NoSuchPath()
	}
	file, err := zipped()
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	contentType := contentTypes[path.Ext(name)]
	if strings.Contains(c.Request().Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		return c.Blob(http.StatusOK, contentType, file)
	}
	plain, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return err
	}
	return c.Stream(http.StatusOK, contentType, plain)
}
