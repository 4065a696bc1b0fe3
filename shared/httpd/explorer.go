package httpd

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/web"
	"github.com/browser-svc/svc/shared/webapp"
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

// addExplorer serves /docs (specification 1.6) and the OpenAPI documents. All
// URLs in them are relative, so they work behind a path prefix.
func addExplorer(e *echo.Echo, document Document) {
	read := []string{http.MethodGet, http.MethodHead}
	serve := func(route string, a webapp.Asset) { e.Match(read, route, a.Handler()) }

	serve("/openapi.json", newAsset(echo.MIMEApplicationJSON, document.JSON))
	serve("/openapi.yaml", newAsset("application/yaml", document.YAML))
	serve("/openapi-3.1.json", newAsset(echo.MIMEApplicationJSON, document.JSON31))
	serve("/openapi-3.1.yaml", newAsset("application/yaml", document.YAML31))

	serve("/docs", explorerAsset(explorerFiles, "docs/index.html"))
	serve("/docs/tokens.css", explorerAsset(web.Styles, "styles/tokens.css"))
	e.Match(read, "/docs/", func(c echo.Context) error {
		return c.Redirect(http.StatusPermanentRedirect, "../docs")
	})
	for _, pattern := range []string{"docs/*", "docs/swagger-ui/*"} {
		names, err := fs.Glob(explorerFiles, pattern)
		if err != nil {
			panic(fmt.Errorf("explorer: %w", err)) // only for an invalid pattern
		}
		for _, name := range names {
			// Files of other types, such as licenses, are not served.
			if webapp.ContentType(path.Ext(name)) != "" {
				serve("/docs/"+path.Base(name), explorerAsset(explorerFiles, name))
			}
		}
	}
}

func explorerAsset(files fs.FS, name string) webapp.Asset {
	contentType := webapp.ContentType(path.Ext(name))
	if contentType == "" {
		contentType = "text/html; charset=utf-8"
	}
	a := newAsset(contentType, func() []byte {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			panic(fmt.Errorf("explorer: %w", err)) // the embedded files are fixed at build time
		}
		return content
	})
	a.Policy = explorerPolicy
	return a
}

// newAsset returns an asset without brotli, which takes seconds for files of this size.
func newAsset(contentType string, content func() []byte) webapp.Asset {
	return webapp.Asset{ContentType: contentType, Encodings: []string{webapp.Gzip}, Content: content}
}
