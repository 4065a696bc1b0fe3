package devtools

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

// frontEndPolicy allows the front end to load and reach only the worker. Images of
// the inspected page are data: URLs.
const frontEndPolicy = "default-src 'self' data: blob:; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
	"connect-src 'self' data:; object-src 'none'; frame-src 'self' data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

// fileName matches the file names of Chromium's front end.
var fileName = lazy.Regexp(`^[A-Za-z0-9_@+.-]+(/[A-Za-z0-9_@+.-]+)*$`)

// frontEndPages are the pages of the front end for the kinds of targets. They accept
// a token, so that a listed URL can be opened directly.
var frontEndPages = []string{"inspector.html", "devtools_app.html", "js_app.html", "node_app.html", "worker_app.html"}

var errNoFrontEnd = fault.New(fault.NotFound, "This browser build does not include the DevTools front end.")

// frontEndPageOf returns the front end page of a URL from Chromium.
func frontEndPageOf(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if name := path.Base(address); slices.Contains(frontEndPages, name) {
		return name
	}
	return frontEndPages[0]
}

// openDevtools redirects to the DevTools front end for the most recently active page.
func (s *Service) openDevtools(c echo.Context, v access.AuthorizedRequest) error {
	if !v.DevTools {
		return errNoFrontEnd
	}
	id, err := s.chromium.page(c.Request().Context(), v.Browser, "")
	if err != nil {
		return s.toFault(v, err)
	}
	frontEnd := "./inspector.html?"
	if !strings.HasSuffix(c.Request().URL.Path, "/") {
		frontEnd = "./devtools/inspector.html?"
	}
	c.Response().Header().Set(echo.HeaderLocation, frontEnd+s.inspectorQuery(v.LaunchID, id).Encode())
	return c.NoContent(http.StatusSeeOther)
}

// frontEnd serves a file of the front end that Chromium includes.
func (s *Service) frontEnd(c echo.Context, v access.AuthorizedRequest) error {
	return s.frontEndFile(c, v, c.Param("*"))
}

func (s *Service) frontEndPage(name string) access.Handler {
	return func(c echo.Context, v access.AuthorizedRequest) error { return s.frontEndFile(c, v, name) }
}

func (s *Service) frontEndFile(c echo.Context, v access.AuthorizedRequest, name string) error {
	if !v.DevTools {
		return errNoFrontEnd
	}
	if !fileName().MatchString(name) || path.Clean("/"+name) != "/"+name {
		return access.NoSuchPath()
	}
	file, contentType, err := s.chromium.get(c.Request().Context(), v.Browser, "/devtools/"+name)
	refused, ok := errors.AsType[*refusedError](err)
	switch {
	// Chromium answers requests for unknown files with an empty success.
	case err == nil && len(file) == 0, ok && refused.status == http.StatusNotFound:
		return access.NoSuchPath()
	case err != nil:
		return s.toFault(v, err)
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", frontEndPolicy)
	h.Set("X-Frame-Options", "SAMEORIGIN") // the front end frames parts of itself
	if !strings.HasSuffix(name, ".html") {
		h.Set("Cache-Control", "private, max-age=3600") // hundreds of files that don't change while the browser runs
	}
	return c.Blob(http.StatusOK, contentType, file)
}
