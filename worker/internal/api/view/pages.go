package view

import (
	"bytes"
	"html/template"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// contentSecurityPolicy allows a page to load and reach only the worker. Thumbnails
// are blob: URLs, parts of the stream's picture and pointers are data: URLs.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors "

// parsePage returns a function that parses an embedded template on first use.
func parsePage(name string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(pageFiles, "page/"+name)) })
}

// page is the data of the templates.
type page struct {
	access.Browser
	Control bool     // whether the visitor may drive the browser
	Assets  string   // path of the page's assets, relative to the launch's routes
	Modules []string // modules of noVNC, for preloading
}

// viewPageHandler serves the live view page.
func (s *Service) viewPageHandler(c echo.Context, v access.AuthorizedRequest) error {
	return s.render(c, s.viewPage(), v, s.assets().modules)
}

// infoPage serves the page with the details of the browser.
func (s *Service) infoPage(c echo.Context, v access.AuthorizedRequest) error {
	return s.render(c, s.homePage(), v, nil)
}

func (s *Service) render(c echo.Context, t *template.Template, v access.AuthorizedRequest, modules []string) error {
	var html bytes.Buffer
	err := t.Execute(&html, page{v.Browser, v.Use == ticket.Control, "view/" + s.assets().version + "/", modules})
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", contentSecurityPolicy+v.FrameAncestors)
	return c.HTMLBlob(http.StatusOK, html.Bytes())
}

// AddSlash redirects /browsers/{launchId} to the path with a trailing slash, whether
// or not the browser exists. It needs no credentials: the launch's cookies are
// restricted to /browsers/{launchId}/ and are not sent with this request.
func AddSlash(c echo.Context) error {
	target := "./" + c.Param("launchId") + "/" // relative, so that it is correct behind any path prefix
	if query := c.Request().URL.RawQuery; query != "" {
		target += "?" + query
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(echo.HeaderLocation, target)
	return c.NoContent(http.StatusTemporaryRedirect)
}
