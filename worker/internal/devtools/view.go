package devtools

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"

	"github.com/labstack/echo/v4"
)

// viewFiles is the live view: a page, its style and its script.
//
//go:embed page
var viewFiles embed.FS

// parseViewPage parses what is fixed at build time.
func parseViewPage() *template.Template {
	return template.Must(template.ParseFS(viewFiles, "page/view.html"))
}

const viewPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// view serves the page on which a person watches the browser.
func (s *Service) view(c echo.Context, t Target) error {
	var html bytes.Buffer
	if err := s.viewPage.Execute(&html, t); err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", viewPolicy)
	return c.HTMLBlob(http.StatusOK, html.Bytes())
}

// viewFile serves what the page consists of.
func viewFile(c echo.Context, t Target) error {
	types := map[string]string{
		"view.css": "text/css; charset=utf-8",
		"view.js":  "text/javascript; charset=utf-8",
	}
	name := c.Param("file")
	contentType, ok := types[name]
	if !ok {
		return nothing(c, t)
	}
	content, err := viewFiles.ReadFile("page/" + name)
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, contentType, content)
}

// screenshot answers with what the first page shows now. Everybody who asks
// while a picture is being taken gets that one.
func (s *Service) screenshot(c echo.Context, t Target) error {
	r := c.Request()
	taken := s.captures.DoChan(t.LaunchID, func() (any, error) {
		if !s.work.begin() {
			return nil, errClosing
		}
		defer s.work.end()
		ctx, cancel := context.WithTimeout(s.work.ctx, captureTimeout) // it may be for several requests
		defer cancel()
		return s.picture(ctx, t)
	})
	select {
	case result := <-taken:
		if result.Err != nil {
			return explain(t, result.Err)
		}
		return c.Blob(http.StatusOK, "image/jpeg", result.Val.([]byte))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (s *Service) picture(ctx context.Context, t Target) ([]byte, error) {
	page, err := s.chromium.firstPage(ctx, t.DebugPort)
	if err != nil {
		return nil, err
	}
	return s.chromium.capture(ctx, t.DebugPort, page)
}
