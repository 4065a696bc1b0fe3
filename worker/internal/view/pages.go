package view

import (
	"bytes"
	"html/template"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// contentSecurityPolicy lets a page load and reach only what is here. Thumbnails are blob:,
// pieces of the stream's picture and pointers data:.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// parsePage parses what is fixed at build time, when it is first asked for.
func parsePage(name string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(pageFiles, "page/"+name)) })
}

// page is what the templates see.
type page struct {
	access.Browser
	Control bool     // whether the visitor may drive the browser
	Assets  string   // where the page's parts are, relative to the launch's routes
	Modules []string // of noVNC, to be fetched all at once
}

// viewPageHandler serves the page on which a person watches and drives the browser.
func (s *Service) viewPageHandler(c echo.Context, v access.AuthorizedRequest) error {
	return s.render(c, s.viewPage(), v, s.assets().modules)
}

// infoPage serves the page that tells everything about the browser.
func (s *Service) infoPage(c echo.Context, v access.AuthorizedRequest) error {
	return s.render(c, s.homePage(), v, nil)
}

func (s *Service) render(c echo.Context, t *template.Template, v access.AuthorizedRequest, modules []string) error {
	var html bytes.Buffer
	err := t.Execute(&html, page{v.Browser, v.Use == ticket.Control, "view/" + s.assets().version + "/", modules})
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", contentSecurityPolicy)
	return c.HTMLBlob(http.StatusOK, html.Bytes())
}

// AddSlash sends /browsers/{launchId} on to the page below it, whether or not
// there is such a browser: it is registered outside the gate, since the
// launch's cookies, which belong to /browsers/{launchId}/, don't come here.
func AddSlash(c echo.Context) error {
	target := "./" + c.Param("launchId") + "/" // relative, so that it holds behind any path prefix
	if query := c.Request().URL.RawQuery; query != "" {
		target += "?" + query
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(echo.HeaderLocation, target)
	return c.NoContent(http.StatusTemporaryRedirect)
}
