package devtools

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"
)

// frontEndPolicy lets DevTools load only what comes from here and reach only
// what is here; the page it inspects may show it pictures of anywhere as data.
const frontEndPolicy = "default-src 'self' data: blob:; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
	"connect-src 'self' data:; object-src 'none'; frame-src 'self' data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

// frontEndFile is what names in Chromium's front end look like.
var frontEndFile = regexp.MustCompile(`^[A-Za-z0-9_@+.-]+(/[A-Za-z0-9_@+.-]+)*$`)

// openDevtools sends a person to Chromium's own DevTools front end, on the
// first page.
func (s *Service) openDevtools(c echo.Context, t Target) error {
	id, err := s.chromium.firstPage(c.Request().Context(), t.DebugPort)
	if err != nil {
		return explain(t, err)
	}
	scheme := "ws"
	if s.public.secure() {
		scheme = "wss"
	}
	socket := s.public.url.Host + s.public.browserPath(t.LaunchID) + "devtools/page/" + id
	frontEnd := "./inspector.html?"
	if !strings.HasSuffix(c.Request().URL.Path, "/") {
		frontEnd = "./devtools/inspector.html?"
	}
	c.Response().Header().Set(echo.HeaderLocation, frontEnd+url.Values{scheme: {socket}}.Encode())
	return c.NoContent(http.StatusSeeOther)
}

// frontEnd passes on a file of the front end that Chromium brings along.
func (s *Service) frontEnd(c echo.Context, t Target) error {
	name := c.Param("*")
	if !frontEndFile.MatchString(name) || path.Clean("/"+name) != "/"+name {
		return nothing(c, t)
	}
	file, contentType, err := s.chromium.get(c.Request().Context(), t.DebugPort, "/devtools/"+name)
	refused, ok := errors.AsType[*refusedError](err)
	switch {
	// What it doesn't have, Chromium answers with an empty success.
	case err == nil && len(file) == 0, ok && refused.status == http.StatusNotFound:
		return nothing(c, t)
	case err != nil:
		return explain(t, err)
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", frontEndPolicy)
	h.Set("X-Frame-Options", "SAMEORIGIN") // it frames parts of itself
	if !strings.HasSuffix(name, ".html") {
		h.Set("Cache-Control", "private, max-age=3600") // hundreds of files that don't change while the browser runs
	}
	return c.Blob(http.StatusOK, contentType, file)
}
