package access

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

const (
	unknownPageStyle = "body{max-width:34rem;margin:15vh auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color-scheme:light dark}"
	unknownPage      = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Unknown browser</title>
<style>` + unknownPageStyle + `</style>
<h1>Unknown browser</h1>
<p>The browser has ended, or this link has expired or was already used. If the browser is still running, request a new link.</p>
<p><a href="{{.}}">Open the console of this worker</a></p>
</html>
`
)

// acceptsHTML reports whether a request names HTML. Programs accept anything.
func acceptsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// writeUnknownPage writes ErrUnknownBrowser for people. Like the text, the page does not
// tell which check failed.
func (a *Authorizer) writeUnknownPage(c echo.Context, kind Kind) error {
	var page strings.Builder
	if err := template.Must(template.New("").Parse(unknownPage)).Execute(&page, a.Address.Path("/")); err != nil {
		return err
	}
	style := sha256.Sum256([]byte(unknownPageStyle))
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(style[:])+
		"'; frame-ancestors "+a.frameAncestors(kind)+"; base-uri 'none'; form-action 'none'")
	return c.HTML(http.StatusNotFound, page.String())
}
