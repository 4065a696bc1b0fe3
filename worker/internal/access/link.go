package access

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

// link is the address of a page with tokens in it, each of which opens a page
// once (specification 4.4).
type link struct {
	cleanURL string        // the address without its tokens
	tokens   []linkedToken // those that are valid, spent or not
}

type linkedToken struct {
	use    ticket.Use
	token  string
	claims ticket.Claims
}

// parseLink is nil unless the request is for a page and its address has a token's
// place, whatever is in there.
func (g *Authorizer) parseLink(r *http.Request, id string, kind Kind) *link {
	query := r.URL.Query()
	if !kind.isPage() || !query.Has(tokenQuery) && (kind != ViewPage || !query.Has(ticketQuery)) {
		return nil
	}
	l := &link{cleanURL: withoutTokens(r.URL, kind)}
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		if use == ticket.View && kind != ViewPage {
			continue
		}
		token := query.Get(queryName(use))
		if claims, ok := g.verify(token, id, use); ok {
			l.tokens = append(l.tokens, linkedToken{use, token, claims})
		}
	}
	return l
}

func (g *Authorizer) hasUnspentToken(id string, l *link) bool {
	return l != nil && slices.ContainsFunc(l.tokens, func(t linkedToken) bool { return !g.Tickets.IsSpent(id, t.claims) })
}

// redeem takes the tokens out of the address, where histories and screenshots
// would keep them, and puts them into cookies that only this launch's routes
// see. A request that opens no page, such as a preview by HEAD or one in advance,
// gets no cookie and spends no token.
func (g *Authorizer) redeem(c echo.Context, id string, l *link, allowed bool) error {
	if isNavigation(c.Request()) {
		for _, t := range l.tokens {
			if !g.Tickets.Spend(id, t.claims) {
				continue
			}
			allowed = true
			c.SetCookie(&http.Cookie{ //nolint:gosec // Secure where clients come by https
				Name: ticket.CookieName(id, t.use), Value: t.token, Path: g.Address.BrowserPath(id),
				HttpOnly: true, Secure: g.Address.Secure(), SameSite: http.SameSiteStrictMode,
			})
		}
		if !allowed { // another request was faster
			return g.reject(c, l)
		}
		if isCrossSite(c.Request()) {
			return refreshToCleanURL(c, l)
		}
	}
	c.Response().Header().Set(echo.HeaderLocation, l.cleanURL)
	return c.NoContent(http.StatusSeeOther)
}

// reject answers as if there were no such browser. A browser that follows a link
// of another site a second time has the cookie, but doesn't send it with that
// request: it is sent to the clean address, where the cookie decides.
func (g *Authorizer) reject(c echo.Context, l *link) error {
	if l != nil && len(l.tokens) > 0 && isNavigation(c.Request()) && isCrossSite(c.Request()) {
		return refreshToCleanURL(c, l)
	}
	return ErrUnknownBrowser
}

// refreshToCleanURL leads to the clean address by a page: browsers keep, and send, a Strict
// cookie then, unlike for a redirect that another site's link began.
func refreshToCleanURL(c echo.Context, l *link) error {
	c.Response().Header().Set("Refresh", "0; url="+l.cleanURL)
	return c.HTML(http.StatusOK, "<!doctype html><meta charset=utf-8><title>Opening</title><p>Opening the browser.</p>")
}

// isNavigation reports whether a request opens a page for a user, as far as it
// tells: programs and old browsers send none of these headers.
func isNavigation(r *http.Request) bool {
	isOneOf := func(name string, values ...string) bool { return slices.Contains(values, r.Header.Get(name)) }
	isAhead := func(name string) bool { return strings.Contains(r.Header.Get(name), "prefetch") }
	return r.Method == http.MethodGet && isOneOf("Sec-Fetch-Mode", "", "navigate") && isOneOf("Sec-Fetch-Dest", "", "document") &&
		!isAhead("Sec-Purpose") && !isAhead("Purpose") && !isAhead("X-Moz")
}

func isCrossSite(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") == "cross-site" }

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

// trustsCookies reports whether cookies count: they come along with requests
// that other origins' pages make, upgrades included. What changes nothing may be
// asked for by any page, since none can read the answer. For the rest browsers
// name the origin, but for a GET, which therefore has to show that it comes from
// here: a cookie goes to all ports of a host, whatever its SameSite.
func (g *Authorizer) trustsCookies(r *http.Request, route Route) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if safe && !route.Kind.isSocket() && !route.Changes {
		return true
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return g.Address.IsOrigin(origin)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the user typed the address
		return true
	case "":
		return !safe || route.Kind.isSocket()
	}
	return false
}
