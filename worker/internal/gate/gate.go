// Package gate decides who may pass to the routes of one browser, those under
// /browsers/{launchId}/ (specification 4.4, 5.5): whoever holds the launch's
// control token or the worker key, and for the live view its view ticket.
// Everybody else is told that there is no such browser.
package gate

import (
	"errors"
	"net/http"
	"net/url"
	"path"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

const (
	tokenHeader = "X-Svc-Token" //nolint:gosec // the name of a header
	keyHeader   = "X-API-Key"
	tokenQuery  = "ct"
	ticketQuery = "t"
)

// ErrUnknown is the one answer for a browser that doesn't exist, or not for
// the caller (specification 5.5.4). Handlers return it for a browser that has
// ended meanwhile; the gate writes it as plain text.
var ErrUnknown = errors.New("unknown browser")

// Tickets verifies control tokens and view tickets.
type Tickets interface {
	Verify(token, launchID string, use ticket.Use) error
}

// Options are what a Gate needs.
type Options struct {
	Browsers  Finder
	Tickets   Tickets
	WorkerKey func(key string) bool // whether this is the worker key, in constant time
	Address   Address
	Check     func(c echo.Context) error // of a request that was let in, against the document; nil for none
}

// Gate stands before the routes of all browsers.
type Gate struct{ Options }

// New returns a Gate.
func New(options Options) *Gate {
	if options.Check == nil {
		options.Check = func(echo.Context) error { return nil }
	}
	return &Gate{options}
}

// Visit is a request that was let in.
type Visit struct {
	Browser
	Use   ticket.Use // View when a view ticket opened it, otherwise Control
	Token string     // that opened it; empty for the worker key
}

// guarded lets a request through to a browser that runs, when it carries what
// opens the routes of one path.
func (g *Gate) guarded(routes []Route) echo.HandlerFunc {
	kind := routes[0].Kind
	return func(c echo.Context) error {
		harden(c.Response().Header())
		err := g.pass(c, kind, routes)
		if !errors.Is(err, ErrUnknown) {
			return err
		}
		status, text := http.StatusNotFound, ErrUnknown.Error()
		if kind == Stream { // specification 5.5.4
			status, text = http.StatusForbidden, "forbidden"
		}
		return c.Blob(status, "text/plain; charset=utf-8", []byte(text))
	}
}

func (g *Gate) pass(c echo.Context, kind Kind, routes []Route) error {
	id := c.Param("launchId")
	// Both are always looked at: how long a refusal takes doesn't tell which
	// of the two failed.
	visit, allowed := g.admit(c.Request(), id, kind)
	browser, found := g.Browsers.Find(id)
	if !found || !allowed || browser.HasEnded() {
		return ErrUnknown
	}
	handle, err := handlerOf(routes, c.Request().Method)
	if err != nil {
		return err
	}
	if query := c.Request().URL.Query(); kind.isPage() && (query.Has(tokenQuery) || kind == ViewPage && query.Has(ticketQuery)) {
		return g.convert(c, id, kind)
	}
	if err := g.Check(c); err != nil {
		return err
	}
	visit.Browser = browser
	return handle(c, visit)
}

// admit tries the request's credentials one after the other: a cookie that
// has expired doesn't stand in the way of a fresh link. Control is tried before
// view: whoever holds both may do more.
func (g *Gate) admit(r *http.Request, id string, kind Kind) (Visit, bool) {
	for _, token := range tokensOf(r, id, ticket.Control, g.trustsCookies(r, kind), r.Header.Get(tokenHeader)) {
		if g.opens(token, id, ticket.Control) {
			return Visit{Use: ticket.Control, Token: token}, true
		}
	}
	if key := r.Header.Get(keyHeader); key != "" && g.WorkerKey(key) {
		return Visit{Use: ticket.Control}, true
	}
	if !kind.isView() {
		return Visit{}, false
	}
	for _, token := range tokensOf(r, id, ticket.View, g.trustsCookies(r, kind)) {
		if g.opens(token, id, ticket.View) {
			return Visit{Use: ticket.View, Token: token}, true
		}
	}
	return Visit{}, false
}

// trustsCookies reports whether cookies count: they come along with requests
// that other sites' pages make, upgrades included.
func (g *Gate) trustsCookies(r *http.Request, kind Kind) bool {
	origin := r.Header.Get("Origin")
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return origin == "" || safe && !kind.isSocket() || g.Address.IsOrigin(origin)
}

// tokensOf are the tokens for a use that come with a request: more, those of its
// cookies if they count, and the one in its address.
func tokensOf(r *http.Request, id string, use ticket.Use, cookies bool, more ...string) []string {
	if cookies {
		for _, cookie := range r.CookiesNamed(ticket.CookieName(id, use)) {
			more = append(more, cookie.Value)
		}
	}
	return append(more, r.URL.Query().Get(queryName(use)))
}

func (g *Gate) opens(token, id string, use ticket.Use) bool {
	return token != "" && g.Tickets.Verify(token, id, use) == nil
}

// convert takes the tokens out of the address, where histories and screenshots
// would keep them, and puts them into cookies that only this launch's routes
// see.
func (g *Gate) convert(c echo.Context, id string, kind Kind) error {
	r, h := c.Request(), c.Response().Header()
	query := r.URL.Query()
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		token := query.Get(queryName(use))
		if use == ticket.View && kind != ViewPage || !g.opens(token, id, use) {
			continue
		}
		c.SetCookie(&http.Cookie{ //nolint:gosec // Secure where clients come by https
			Name: ticket.CookieName(id, use), Value: token, Path: g.Address.BrowserPath(id),
			HttpOnly: true, Secure: g.Address.Secure(), SameSite: http.SameSiteStrictMode,
		})
	}
	clean := withoutTokens(r.URL, kind)
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// Browsers keep a Strict cookie from a redirect that another site's
		// link began, but not from a page that sends them on.
		h.Set("Refresh", "0; url="+clean)
		return c.HTML(http.StatusOK, "<!doctype html><meta charset=utf-8><title>Opening</title><p>Opening the browser.</p>")
	}
	h.Set(echo.HeaderLocation, clean)
	return c.NoContent(http.StatusSeeOther)
}

// withoutTokens is the address without its tokens, relative, so that it holds
// behind any path prefix.
func withoutTokens(u *url.URL, kind Kind) string {
	query := u.Query()
	query.Del(tokenQuery)
	if kind == ViewPage {
		query.Del(ticketQuery)
	}
	_, name := path.Split(u.Path)
	return (&url.URL{Path: "./" + name, RawQuery: query.Encode()}).String()
}

// harden sets what every answer here has in common, refusals included.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
