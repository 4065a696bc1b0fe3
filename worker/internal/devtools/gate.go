package devtools

import (
	"errors"
	"net/http"
	"net/url"
	"path"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

// kind decides what a route makes of ?ct= (specification 4.4, 5.5).
type kind int

const (
	asset  kind = iota // takes none
	page               // turns it into a cookie, and redirects to the clean URL
	socket             // takes it each time, since clients reconnect with the same URL
)

const (
	tokenHeader = "X-Svc-Token" //nolint:gosec // the name of a header
	keyHeader   = "X-API-Key"
	tokenQuery  = "ct"
)

// errUnknown is the one answer for a browser that doesn't exist, or not for
// the caller (specification 5.5.4). The gate writes it as plain text.
var errUnknown = errors.New("unknown browser")

// gate lets a request through to a browser that runs, when it carries the
// launch's control token or the worker key.
func (s *Service) gate(kind kind, next handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		harden(c.Response().Header())
		err := s.pass(c, kind, next)
		if errors.Is(err, errUnknown) {
			return c.Blob(http.StatusNotFound, "text/plain; charset=utf-8", []byte(errUnknown.Error()))
		}
		return err
	}
}

func (s *Service) pass(c echo.Context, kind kind, next handler) error {
	id, r := c.Param("launchId"), c.Request()
	// Both are always looked at: how long a refusal takes doesn't tell which
	// of the two failed.
	allowed := s.allows(r, id, kind)
	target, found := s.browsers.Find(id)
	if !found || !allowed || hasEnded(target) {
		return errUnknown
	}
	if kind == page && r.URL.Query().Has(tokenQuery) {
		return s.convert(c, id)
	}
	return next(c, target)
}

// allows tries the request's credentials one after the other: a cookie that
// has expired doesn't stand in the way of a fresh link.
func (s *Service) allows(r *http.Request, id string, kind kind) bool {
	if s.opens(r.Header.Get(tokenHeader), id) {
		return true
	}
	// Cookies come along with requests that other sites' pages make.
	if kind != socket || r.Header.Get("Origin") == "" || s.public.isOrigin(r.Header.Get("Origin")) {
		for _, cookie := range r.CookiesNamed(ticket.CookieName(id, ticket.Control)) {
			if s.opens(cookie.Value, id) {
				return true
			}
		}
	}
	if kind != asset && s.opens(r.URL.Query().Get(tokenQuery), id) {
		return true
	}
	key := r.Header.Get(keyHeader)
	return key != "" && s.workerKey(key)
}

func (s *Service) opens(token, id string) bool {
	return token != "" && s.tickets.Verify(token, id, ticket.Control) == nil
}

// convert takes the token out of the address, where histories and screenshots
// would keep it, and puts it into a cookie that only this launch's routes see.
func (s *Service) convert(c echo.Context, id string) error {
	r, h := c.Request(), c.Response().Header()
	if token := r.URL.Query().Get(tokenQuery); s.opens(token, id) {
		c.SetCookie(&http.Cookie{ //nolint:gosec // Secure where clients come by https
			Name: ticket.CookieName(id, ticket.Control), Value: token, Path: s.public.browserPath(id),
			HttpOnly: true, Secure: s.public.secure(), SameSite: http.SameSiteStrictMode,
		})
	}
	clean := withoutToken(r.URL)
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// Browsers keep a Strict cookie from a redirect that another site's
		// link began, but not from a page that sends them on.
		h.Set("Refresh", "0; url="+clean)
		return c.HTML(http.StatusOK, "<!doctype html><meta charset=utf-8><title>Opening</title><p>Opening the browser.</p>")
	}
	h.Set(echo.HeaderLocation, clean)
	return c.NoContent(http.StatusSeeOther)
}

// withoutToken is the address without its token, relative, so that it holds
// behind any path prefix.
func withoutToken(u *url.URL) string {
	query := u.Query()
	query.Del(tokenQuery)
	_, name := path.Split(u.Path)
	return (&url.URL{Path: "./" + name, RawQuery: query.Encode()}).String()
}

// harden sets what every answer here has in common, refusals included.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
