package httpd

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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// explorerFiles has the page of the API explorer and Swagger UI, which
// scripts/vendor-swagger-ui downloads.
//
//go:embed docs
var explorerFiles embed.FS

// explorerPolicy allows resources and requests of this server only. The style
// sheet of Swagger UI has its images as data: URLs.
const explorerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// contentTypes has the content types of the served files. Other files in the
// directory, such as licenses, are not served.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// addExplorer serves /docs (specification 1.6) and the OpenAPI documents. All
// URLs in them are relative, so they work behind a path prefix.
func addExplorer(e *echo.Echo, document Document) {
	read := []string{http.MethodGet, http.MethodHead}
	serve := func(at string, a *asset) { e.Match(read, at, a.serve) }

	serve("/openapi.json", newAsset(echo.MIMEApplicationJSON, document.JSON))
	serve("/openapi.yaml", newAsset("application/yaml", document.YAML))
	serve("/openapi-3.1.json", newAsset(echo.MIMEApplicationJSON, document.JSON31))
	serve("/openapi-3.1.yaml", newAsset("application/yaml", document.YAML31))

	serve("/docs", explorerAsset("docs/index.html", "text/html; charset=utf-8"))
	e.Match(read, "/docs/", func(c echo.Context) error {
		return c.Redirect(http.StatusPermanentRedirect, "../docs")
	})
	for _, pattern := range []string{"docs/*", "docs/swagger-ui/*"} {
		names, err := fs.Glob(explorerFiles, pattern)
		if err != nil {
			panic(fmt.Errorf("explorer: %w", err)) // only for an invalid pattern
		}
		for _, name := range names {
			if contentType, ok := contentTypes[path.Ext(name)]; ok {
				serve("/docs/"+path.Base(name), explorerAsset(name, contentType))
			}
		}
	}
}

func explorerAsset(name, contentType string) *asset {
	a := newAsset(contentType, func() []byte {
		content, err := fs.ReadFile(explorerFiles, name)
		if err != nil {
			panic(fmt.Errorf("explorer: %w", err)) // the embedded files are fixed at build time
		}
		return content
	})
	a.policy = explorerPolicy
	return a
}

// asset is content that does not change while the process runs. Clients cache it
// and revalidate it, so an upgrade is visible at once. It is created at the first
// request, because most processes never serve it.
type asset struct {
	contentType string
	policy      string // Content-Security-Policy, if any
	content     func() []byte
	etag        func() string
	gzipped     func() []byte
}

func newAsset(contentType string, content func() []byte) *asset {
	content = sync.OnceValue(content)
	return &asset{
		contentType: contentType,
		content:     content,
		etag: sync.OnceValue(func() string {
			sum := sha256.Sum256(content())
			return hex.EncodeToString(sum[:16])
		}),
		gzipped: sync.OnceValue(func() []byte { return gzipped(content()) }),
	}
}

func (a *asset) serve(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	if a.policy != "" {
		h.Set("Content-Security-Policy", a.policy)
	}
	content, tag := a.content, a.etag()
	if acceptsGzip(c.Request()) {
		content, tag = a.gzipped, tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", strconv.Quote(tag))
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(content()))
	return nil
}

// acceptsGzip reports whether to send gzip. A Range request always gets the
// uncompressed content.
func acceptsGzip(r *http.Request) bool {
	if r.Header.Get("Range") != "" {
		return false
	}
	for offer := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(offer), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
		return !weighted || (err == nil && value > 0)
	}
	return false
}

func gzipped(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // a bytes.Buffer does not fail
	_ = w.Close()
	return out.Bytes()
}
