// Package access controls access to the routes of one browser, those under
// /browsers/{launchId}/ (specification 4.4, 5.5). They require the launch's control
// token, the worker key or the console cookie; the live view also accepts a view
// ticket. All other requests are answered as if the browser did not exist.
//
// It also checks the worker key and the console cookie of the REST API and builds the
// public URLs of launches.
package access

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// TokenHeader is the header with the control token of a launch.
const TokenHeader = "X-Svc-Token" //nolint:gosec // the name of a header

const (
	keyHeader   = "X-API-Key"
	tokenQuery  = "ct"
	ticketQuery = "t"
)

// ErrUnknownBrowser is the only error for a browser that does not exist or that the
// caller must not access (specification 5.5.4). Handlers return it for a browser
// that has ended. The Authorizer writes it as plain text, or as a page for people.
var ErrUnknownBrowser = errors.New("unknown browser")

var errPageUpgrade = fault.New(fault.Validation,
	"This path is a page for people. Connect the WebSocket to webSocketDebuggerUrl, or to /browsers/{launchId}/.",
	fault.Detail{Field: "Upgrade", Code: fault.Custom, Message: "is not supported by a page"})

// Tickets verifies tokens, and records which tokens of launches have opened a page.
type Tickets interface {
	ConsoleTokens
	Verify(token, launchID string, use ticket.Use) (ticket.Claims, error)
	IsSpent(launchID string, c ticket.Claims, page ticket.Page) bool
	Spend(launchID string, c ticket.Claims, page ticket.Page) bool // false if it was already spent
	LaunchOf(controlToken string) (launchID string, err error)
}

// Options configures an Authorizer.
type Options struct {
	Browsers  Finder
	Tickets   Tickets
	WorkerKey func(key string) bool // compares in constant time
	Address   Address
	Check     func(c echo.Context) error // validates an authorized request; optional
	// FrameAncestors are the origins whose pages may embed the live view, as in a
	// Content-Security-Policy.
	FrameAncestors []string
}

// Authorizer authorizes requests for the routes of all browsers.
type Authorizer struct{ Options }

// New returns an Authorizer.
func New(options Options) *Authorizer {
	if options.Check == nil {
		options.Check = func(echo.Context) error { return nil }
	}
	return &Authorizer{options}
}

// AuthorizedRequest describes how a request was authorized.
type AuthorizedRequest struct {
	Browser
	Use    ticket.Use    // View for a view ticket, otherwise Control
	Token  string        // the token of the launch; empty for the worker key and the console cookie
	Claims ticket.Claims // of Token or of the console cookie; zero for the worker key
	// FrameAncestors is the value of frame-ancestors for the response.
	FrameAncestors string
}

// handler returns the handler for the routes of one path.
func (a *Authorizer) handler(routes []Route) echo.HandlerFunc {
	kind := routes[0].Kind
	return func(c echo.Context) error {
		setSecurityHeaders(c.Response().Header(), a.frameAncestors(kind))
		err := a.serve(c, routes)
		if !errors.Is(err, ErrUnknownBrowser) {
			return err
		}
		status, text := http.StatusNotFound, ErrUnknownBrowser.Error()
		switch {
		case kind == Stream: // specification 5.5.4
			status, text = http.StatusForbidden, "forbidden"
		case kind.isPage() && a.isNavigation(c.Request(), kind) && acceptsHTML(c.Request()):
			return a.writeUnknownPage(c, kind)
		}
		return c.Blob(status, "text/plain; charset=utf-8", []byte(text))
	}
}

func (a *Authorizer) serve(c echo.Context, routes []Route) error {
	r, id, route := c.Request(), c.Param("launchId"), routes[0]
	// All checks always run, so that the duration of a refusal does not reveal which
	// one failed.
	link := a.parseLink(r, id, route.Kind)
	notPage := route.Kind.isPage() && ws.IsUpgrade(r)
	if notPage { // a program cannot use a page
		link = nil
	}
	visit, allowed := a.authorize(r, id, route, link == nil)
	browser, found := a.Browsers.Find(id)
	switch {
	case !found, browser.HasEnded():
		return ErrUnknownBrowser
	case !allowed && !a.hasUnspentToken(id, link):
		return a.reject(c, link, route.Kind)
	}
	handle, err := handlerFor(routes, r.Method)
	if err != nil {
		return err
	}
	if notPage {
		return errPageUpgrade
	}
	if link != nil {
		return a.redeem(c, id, link, allowed, route.Kind)
	}
	if err := a.Check(c); err != nil {
		return err
	}
	visit.Browser, visit.FrameAncestors = browser, a.frameAncestors(route.Kind)
	return handle(c, visit)
}

// authorize tries the request's credentials in order, so that an expired cookie does
// not block a new link. Control is tried before view, because it permits more.
// Tokens in the URL count only if query is true.
func (a *Authorizer) authorize(r *http.Request, id string, route Route, query bool) (AuthorizedRequest, bool) {
	cookies := a.Address.trustsCookies(r, route)
	for _, token := range tokensOf(r, id, ticket.Control, cookies, query, r.Header.Get(TokenHeader)) {
		if claims, ok := a.verify(token, id, ticket.Control); ok {
			return AuthorizedRequest{Use: ticket.Control, Token: token, Claims: claims}, true
		}
	}
	if key := r.Header.Get(keyHeader); key != "" && a.WorkerKey(key) {
		return AuthorizedRequest{Use: ticket.Control}, true
	}
	if claims, ok := verifyConsole(a.Tickets, r); ok && cookies {
		return AuthorizedRequest{Use: ticket.Control, Claims: claims}, true
	}
	if !route.Kind.isView() {
		return AuthorizedRequest{}, false
	}
	for _, token := range tokensOf(r, id, ticket.View, cookies, query) {
		if claims, ok := a.verify(token, id, ticket.View); ok {
			return AuthorizedRequest{Use: ticket.View, Token: token, Claims: claims}, true
		}
	}
	return AuthorizedRequest{}, false
}

// tokensOf returns the tokens of a request for a use: more, those of its cookies,
// and the one in its URL.
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

func (a *Authorizer) verify(token, id string, use ticket.Use) (ticket.Claims, bool) {
	if token == "" {
		return ticket.Claims{}, false
	}
	claims, err := a.Tickets.Verify(token, id, use)
	return claims, err == nil
}

const noAncestors = "'none'"

// setSecurityHeaders sets the headers of every answer, including refusals.
func setSecurityHeaders(h http.Header, frameAncestors string) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors "+frameAncestors+"; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	switch frameAncestors {
	case noAncestors:
		h.Set("X-Frame-Options", "DENY")
	case "'self'":
		h.Set("X-Frame-Options", "SAMEORIGIN")
	default:
		h.Del("X-Frame-Options") // it cannot name origins
	}
}

// isEmbeddable reports whether a request for a frame opens the page: of the live view, for the console and the
// configured origins.
func (a *Authorizer) isEmbeddable(r *http.Request, kind Kind) bool {
	return kind == ViewPage && (isSameOrigin(r) || len(a.FrameAncestors) > 0)
}

func (a *Authorizer) frameAncestors(kind Kind) string {
	if kind != ViewPage {
		return noAncestors
	}
	return strings.Join(append([]string{"'self'"}, a.FrameAncestors...), " ")
}
