package rest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/shared/fault"
)

// SingleSignOn serves sign-in through an OpenID provider, which uses redirects.
type SingleSignOn struct {
	Provider provider // nil if not configured
	Accounts identified
	Public   *url.URL // URL of the service for browsers
}

type provider interface {
	Start(ctx context.Context) (oidc.Attempt, string, error)
	Finish(ctx context.Context, a oidc.Attempt, answer url.Values) (oidc.Identity, error)
}

type identified interface {
	SignInAs(ctx context.Context, client auth.Client, identity auth.Identity) (auth.Session, error)
}

const (
	oidcPath       = "/v1/auth/oidc"
	oidcCookie     = "svc_oidc"
	oidcCookieLife = 10 * time.Minute
)

// Register adds the routes.
func (s SingleSignOn) Register(e *echo.Echo) {
	e.GET(oidcPath+"/start", s.start)
	e.GET(oidcPath+"/callback", s.callback)
}

// pendingSignIn is the state of a sign-in in progress, kept in a cookie.
type pendingSignIn struct {
	oidc.Attempt
	ReturnTo string
}

// start implements the operation startOidcSignIn.
func (s SingleSignOn) start(c echo.Context) error {
	if s.Provider == nil {
		return errNoSingleSignOn()
	}
	attempt, address, err := s.Provider.Start(c.Request().Context())
	if err != nil {
		return err
	}
	content, err := json.Marshal(pendingSignIn{attempt, c.QueryParam("returnTo")})
	if err != nil {
		return err
	}
	c.SetCookie(s.cookie(base64.RawURLEncoding.EncodeToString(content), int(oidcCookieLife.Seconds())))
	return c.Redirect(http.StatusFound, address)
}

// callback implements the operation completeOidcSignIn. It validates the request
// itself, because a provider may send parameters that are not in the document.
func (s SingleSignOn) callback(c echo.Context) error {
	if s.Provider == nil {
		return errNoSingleSignOn()
	}
	ctx := c.Request().Context()
	pending, err := s.readPending(c)
	if err != nil {
		return err
	}
	c.SetCookie(s.cookie("", -1)) // a sign-in can be completed only once
	identity, err := s.Provider.Finish(ctx, pending.Attempt, c.QueryParams())
	if err != nil {
		return err
	}
	session, err := s.Accounts.SignInAs(ctx, client(ctx), auth.Identity(identity))
	if err != nil {
		return err
	}
	c.Response().Header().Add("Set-Cookie", sessionCookie(session.Token, session.ExpiresAt, s.Public.Scheme == "https"))
	return c.Redirect(http.StatusFound, localPath(pending.ReturnTo))
}

// readPending returns the pending sign-in from the request's cookie.
func (s SingleSignOn) readPending(c echo.Context) (pendingSignIn, error) {
	var u pendingSignIn
	cookie, err := c.Cookie(oidcCookie)
	if err == nil {
		var content []byte
		if content, err = base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			err = json.Unmarshal(content, &u)
		}
	}
	if err != nil {
		return pendingSignIn{}, fault.Wrap(errors.New("no usable cookie "+oidcCookie), fault.Validation,
			"This browser has no sign-in in progress, or the sign-in took too long. Start again.",
			fault.Detail{Field: oidcCookie, Code: fault.Required, Message: "the sign-in cookie is missing or invalid"})
	}
	return u, nil
}

func (s SingleSignOn) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where browsers come by https
		Name: oidcCookie, Value: value, Path: publicPath(s.Public, oidcPath), MaxAge: maxAge,
		HttpOnly: true, Secure: s.Public.Scheme == "https", SameSite: http.SameSiteLaxMode,
	}
}

func errNoSingleSignOn() error { return fault.New(fault.NotFound, "Single sign-on is not configured.") }

// localPath returns the path to continue at if it is a path of this service, else
// "/". The schema checks the path at the start, but the cookie is under the
// browser's control.
func localPath(path string) string {
	foreign := !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f })
	if foreign {
		return "/"
	}
	return path
}

// publicPath returns the path of a URL of the service for browsers.
func publicPath(public *url.URL, path string) string {
	return "/" + strings.TrimPrefix(public.JoinPath(path).Path, "/") // JoinPath omits the slash if the URL has no path
}
