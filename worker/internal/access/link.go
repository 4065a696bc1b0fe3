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
	clean  string        // the address without its tokens
	tokens []linkedToken // those that are valid, spent or not
}

type linkedToken struct {
	use    ticket.Use
	token  string
	claims ticket.Claims
}

// linkOf is nil unless the request is for a page and its address has a token's
// place, whatever is in there.
func (g *Gate) linkOf(r *http.Request, id string, kind Kind) *link {
	query := r.URL.Query()
	if !kind.isPage() || !query.Has(tokenQuery) && (kind != ViewPage || !query.Has(ticketQuery)) {
		return nil
	}
	l := &link{clean: withoutTokens(r.URL, kind)}
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		if use == ticket.View && kind != ViewPage {
			continue
		}
		token := query.Get(queryName(use))
		if claims, ok := g.opens(token, id, use); ok {
			l.tokens = append(l.tokens, linkedToken{use, token, claims})
		}
	}
	return l
}

func (g *Gate) hasFresh(id string, l *link) bool {
	return l != nil && slices.ContainsFunc(l.tokens, func(t linkedToken) bool { return !g.Tickets.IsSpent(id, t.claims) })
}

// follow takes the tokens out of the address, where histories and screenshots
// would keep them, and puts them into cookies that only this launch's routes
// see. A request that opens no page, such as a preview by HEAD or one in advance,
// gets no cookie and spends no token.
func (g *Gate) follow(c echo.Context, id string, l *link, allowed bool) error {
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
			return g.refuse(c, l)
		}
		if isCrossSite(c.Request()) {
			return sendOn(c, l)
		}
	}
	c.Response().Header().Set(echo.HeaderLocation, l.clean)
	return c.NoContent(http.StatusSeeOther)
}

// refuse answers as if there were no such browser. A browser that follows a link
// of another site a second time has the cookie, but doesn't send it with that
// request: it is sent to the clean address, where the cookie decides.
func (g *Gate) refuse(c echo.Context, l *link) error {
	if l != nil && len(l.tokens) > 0 && isNavigation(c.Request()) && isCrossSite(c.Request()) {
		return sendOn(c, l)
	}
	return ErrUnknown
}

// sendOn leads to the clean address by a page: browsers keep, and send, a Strict
// cookie then, unlike for a redirect that another site's link began.
func sendOn(c echo.Context, l *link) error {
	c.Response().Header().Set("Refresh", "0; url="+l.clean)
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
