package access

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// link is the URL of a page with tokens. Each token opens each kind of page once
// (specification 4.4).
type link struct {
	cleanURL string // the URL without tokens
	page     ticket.Page
	tokens   []linkedToken // the valid tokens, including spent ones
}

type linkedToken struct {
	use    ticket.Use
	token  string
	claims ticket.Claims
}

// parseLink returns nil unless the request is for a page and its URL has a token
// parameter, valid or not.
func (a *Authorizer) parseLink(r *http.Request, id string, kind Kind) *link {
	query := r.URL.Query()
	if !kind.isPage() || !query.Has(tokenQuery) && (kind != ViewPage || !query.Has(ticketQuery)) {
		return nil
	}
	l := &link{cleanURL: withoutTokens(r.URL, kind), page: kind.page()}
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		if use == ticket.View && kind != ViewPage {
			continue
		}
		token := query.Get(queryName(use))
		if claims, ok := a.verify(token, id, use); ok {
			l.tokens = append(l.tokens, linkedToken{use, token, claims})
		}
	}
	return l
}

func (a *Authorizer) hasUnspentToken(id string, l *link) bool {
	return l != nil && slices.ContainsFunc(l.tokens, func(t linkedToken) bool { return !a.Tickets.IsSpent(id, t.claims, l.page) })
}

// redeem moves the tokens from the URL, where browser histories and screenshots
// would keep them, into cookies that only this launch's routes receive. A request
// that opens no page, such as a HEAD or prefetch request, gets no cookie and spends
// no token.
func (a *Authorizer) redeem(c echo.Context, id string, l *link, allowed bool, kind Kind) error {
	if a.isNavigation(c.Request(), kind) {
		for _, t := range l.tokens {
			if !a.Tickets.Spend(id, t.claims, l.page) {
				continue
			}
			allowed = true
			cookie := &http.Cookie{
				Name: ticket.CookieName(id, t.use), Value: t.token, Path: a.Address.BrowserPath(id),
				HttpOnly: true, Secure: a.Address.Secure(), SameSite: http.SameSiteStrictMode,
			}
			if isFrame(c.Request()) && !isSameOrigin(c.Request()) { // a frame of another site gets only such cookies; they count only below that site
				cookie.Secure, cookie.SameSite, cookie.Partitioned = true, http.SameSiteNoneMode, true
			}
			c.SetCookie(cookie)
		}
		if !allowed { // a concurrent request spent it
			return a.reject(c, l, kind)
		}
		if isCrossSite(c.Request()) {
			return refreshToCleanURL(c, l.cleanURL)
		}
	}
	c.Response().Header().Set(echo.HeaderLocation, l.cleanURL)
	return c.NoContent(http.StatusSeeOther)
}

// reject answers as if the browser did not exist. A browser that follows a
// cross-site link a second time has the cookie but does not send it with that
// request: it is sent to the clean URL, where the cookie decides.
func (a *Authorizer) reject(c echo.Context, l *link, kind Kind) error {
	if l != nil && len(l.tokens) > 0 && a.isNavigation(c.Request(), kind) && isCrossSite(c.Request()) {
		return refreshToCleanURL(c, l.cleanURL)
	}
	return ErrUnknownBrowser
}

// refreshToCleanURL redirects by a page: unlike for a redirect of a cross-site link,
// browsers then store and send SameSite=Strict cookies.
func refreshToCleanURL(c echo.Context, cleanURL string) error {
	c.Response().Header().Set("Refresh", "0; url="+cleanURL)
	return c.HTML(http.StatusOK, "<!doctype html><meta charset=utf-8><title>Opening</title><p>Opening the page.</p>")
}

func (a *Authorizer) isNavigation(r *http.Request, kind Kind) bool {
	return opensPage(r, a.isEmbeddable(r, kind))
}

// opensPage reports whether a request opens a page for a user, with frames also in a
// frame, as far as its headers show. Programs and old browsers send none of these headers.
func opensPage(r *http.Request, frames bool) bool {
	isOneOf := func(name string, values ...string) bool { return slices.Contains(values, r.Header.Get(name)) }
	isAhead := func(name string) bool { return strings.Contains(r.Header.Get(name), "prefetch") }
	return r.Method == http.MethodGet && isOneOf("Sec-Fetch-Mode", "", "navigate") &&
		(isOneOf("Sec-Fetch-Dest", "", "document") || frames && isFrame(r)) &&
		!isAhead("Sec-Purpose") && !isAhead("Purpose") && !isAhead("X-Moz")
}

// isFrame reports whether a page embeds the response.
func isFrame(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Dest") == "iframe" }

func isSameOrigin(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") == "same-origin" }

func isCrossSite(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") == "cross-site" }

// withoutTokens returns the URL without its tokens, relative, so that it is correct
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

// trustsCookies reports whether cookies count. Browsers also send cookies with
// requests of pages of other origins, including upgrades. Requests that change
// nothing are safe, because those pages cannot read the answer. Other requests must
// prove that they come from this origin: a cookie is sent to all ports of a host,
// regardless of its SameSite attribute. Browsers send the Origin header with them,
// and Sec-Fetch-Site with a GET. Programs send their credential in a header.
func (a Address) trustsCookies(r *http.Request, route Route) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if safe && !route.Kind.isSocket() && !route.Changes {
		return true
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return a.IsOrigin(origin)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "none": // the user typed the address
		return safe && !route.Kind.isSocket()
	}
	return false
}
