package rest

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// AccountPages serves the pages that links in mails open.
type AccountPages struct {
	Public *url.URL // URL of the service for browsers
}

//go:embed account
var accountFiles embed.FS

// accountPolicy allows a page to load only resources of this service and to call only
// this service.
const accountPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// accountPage is a page with a form that posts the token of a mail.
type accountPage struct {
	Title, Button, Done string
	Path                string // of the operation that receives the token
	Assets              string // path of its script and style
	AsksPassword        bool
}

// Register adds the routes.
func (p AccountPages) Register(e *echo.Echo) {
	assets := publicPath(p.Public, "account/assets")
	verify := accountPage{
		Title: "Verify your e-mail address", Button: "Verify", Done: "Your e-mail address is verified.",
		Path: publicPath(p.Public, "v1/auth/verify-email"), Assets: assets,
	}
	reset := accountPage{
		Title: "Set a new password", Button: "Set password", Done: "Your password is set. Sign in with it.",
		Path: publicPath(p.Public, "v1/auth/password/reset"), Assets: assets, AsksPassword: true,
	}
	accept := accountPage{
		Title: "Join the organization", Button: "Join", Done: "You are now a member of the organization.",
		Path: publicPath(p.Public, "v1/invitations/accept"), Assets: assets,
	}
	e.GET("/account/accept-invitation", accept.serve)
	e.GET("/account/verify-email", verify.serve)
	e.GET("/account/reset-password", reset.serve)
	for _, name := range []string{"page.js", "page.css"} {
		e.GET("/account/assets/"+name, func(c echo.Context) error {
			http.ServeFileFS(c.Response(), c.Request(), accountFiles, "account/"+name)
			return nil
		})
	}
}

// publicPath returns the path of a URL of the service for browsers.
func publicPath(public *url.URL, path string) string {
	return "/" + strings.TrimPrefix(public.JoinPath(path).Path, "/") // JoinPath omits the slash if the URL has no path
}

// serve implements the operations openVerifyEmail, openResetPassword and
// openAcceptInvitation.
func (p accountPage) serve(c echo.Context) error {
	page, err := template.ParseFS(accountFiles, "account/page.html")
	if err != nil {
		return fmt.Errorf("read the account page: %w", err)
	}
	var html bytes.Buffer
	if err := page.Execute(&html, p); err != nil {
		return fmt.Errorf("render the account page: %w", err)
	}
	c.Response().Header().Set("Content-Security-Policy", accountPolicy)
	return c.HTMLBlob(http.StatusOK, html.Bytes())
}
