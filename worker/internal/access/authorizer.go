// Package access decides who may pass to the routes of one browser, those under
// /browsers/{launchId}/ (specification 4.4, 5.5): whoever holds the launch's
// control token or the worker key, and for the live view its view ticket.
// Everybody else is told that there is no such browser.
package access

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

const (
	tokenHeader = "X-Svc-Token" //nolint:gosec // the name of a header
	keyHeader   = "X-API-Key"
	tokenQuery  = "ct"
	ticketQuery = "t"
)

// ErrUnknownBrowser is the one answer for a browser that doesn't exist, or not for
// the caller (specification 5.5.4). Handlers return it for a browser that has
// ended meanwhile; the gate writes it as plain text.
var ErrUnknownBrowser = errors.New("unknown browser")

// Tickets verifies control tokens and view tickets, and knows which of them have
// opened a page from an address.
type Tickets interface {
	Verify(token, launchID string, use ticket.Use) (ticket.Claims, error)
	IsSpent(launchID string, c ticket.Claims) bool
	Spend(launchID string, c ticket.Claims) bool // false when it was spent already
}

// Options are what a Authorizer needs.
type Options struct {
	Browsers  Finder
	Tickets   Tickets
	WorkerKey func(key string) bool // whether this is the worker key, in constant time
	Address   Address
	Check     func(c echo.Context) error // of a request that was let in, against the document; nil for none
}

// Authorizer stands before the routes of all browsers.
type Authorizer struct{ Options }

// New returns a Authorizer.
func New(options Options) *Authorizer {
	if options.Check == nil {
		options.Check = func(echo.Context) error { return nil }
	}
	return &Authorizer{options}
}

// AuthorizedRequest is a request that was let in.
type AuthorizedRequest struct {
	Browser
	Use    ticket.Use    // View when a view ticket opened it, otherwise Control
	Token  string        // that opened it; empty for the worker key
	Claims ticket.Claims // of Token
}

// handler lets a request through to a browser that runs, when it carries what
// opens the routes of one path.
func (g *Authorizer) handler(routes []Route) echo.HandlerFunc {
	kind := routes[0].Kind
	return func(c echo.Context) error {
		setSecurityHeaders(c.Response().Header())
		err := g.serve(c, routes)
		if !errors.Is(err, ErrUnknownBrowser) {
			return err
		}
		status, text := http.StatusNotFound, ErrUnknownBrowser.Error()
		if kind == Stream { // specification 5.5.4
			status, text = http.StatusForbidden, "forbidden"
		}
		return c.Blob(status, "text/plain; charset=utf-8", []byte(text))
	}
}

func (g *Authorizer) serve(c echo.Context, routes []Route) error {
	r, id, route := c.Request(), c.Param("launchId"), routes[0]
	// All are always looked at: how long a refusal takes doesn't tell which
	// of them failed.
	link := g.parseLink(r, id, route.Kind)
	visit, allowed := g.authorize(r, id, route, link == nil)
	browser, found := g.Browsers.Find(id)
	switch {
	case !found, browser.HasEnded():
		return ErrUnknownBrowser
	case !allowed && !g.hasUnspentToken(id, link):
		return g.reject(c, link)
	}
	handle, err := handlerFor(routes, r.Method)
	if err != nil {
		return err
	}
	if link != nil {
		return g.redeem(c, id, link, allowed)
	}
	if err := g.Check(c); err != nil {
		return err
	}
	visit.Browser = browser
	return handle(c, visit)
}

// authorize tries the request's credentials one after the other: a cookie that
// has expired doesn't stand in the way of a fresh link. Control is tried before
// view: with both, a client may do more. Tokens in the address count if query
// says so.
func (g *Authorizer) authorize(r *http.Request, id string, route Route, query bool) (AuthorizedRequest, bool) {
	cookies := g.trustsCookies(r, route)
	for _, token := range tokensOf(r, id, ticket.Control, cookies, query, r.Header.Get(tokenHeader)) {
		if claims, ok := g.verify(token, id, ticket.Control); ok {
			return AuthorizedRequest{Use: ticket.Control, Token: token, Claims: claims}, true
		}
	}
	if key := r.Header.Get(keyHeader); key != "" && g.WorkerKey(key) {
		return AuthorizedRequest{Use: ticket.Control}, true
	}
	if !route.Kind.isView() {
		return AuthorizedRequest{}, false
	}
	for _, token := range tokensOf(r, id, ticket.View, cookies, query) {
		if claims, ok := g.verify(token, id, ticket.View); ok {
			return AuthorizedRequest{Use: ticket.View, Token: token, Claims: claims}, true
		}
	}
	return AuthorizedRequest{}, false
}

// tokensOf are the tokens for a use that come with a request: more, those of its
// cookies and the one in its address, if they count.
func tokensOf(r *http.Request, id string, use ticket.Use, cookies, query bool, more ...string) []string {
	if cookies {
		for _, cookie := range r.CookiesNamed(ticket.CookieName(id, use)) {
			more = append(more, cookie.Value)
		}
	}
	if query {
		more = append(more, r.URL.Query().Get(queryName(use)))
	}
	return more
}

func (g *Authorizer) verify(token, id string, use ticket.Use) (ticket.Claims, bool) {
	if token == "" {
		return ticket.Claims{}, false
	}
	claims, err := g.Tickets.Verify(token, id, use)
	return claims, err == nil
}

// setSecurityHeaders sets what every answer here has in common, refusals included.
func setSecurityHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
