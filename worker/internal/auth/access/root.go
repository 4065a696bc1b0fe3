package access

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/ws"
)

// BrowserSocket is the path of the browser's WebSocket without its GUID, relative to
// /browsers/{launchId} or to the root.
const BrowserSocket = "/devtools/browser"

// pageOfBrowser matches the path of a browser's page.
var pageOfBrowser = lazy.Regexp(`^/browsers/[^/]+/?$`)

// appendedPath matches a query to which a client appended a path: a token contains no
// slash.
var appendedPath = lazy.Regexp(`^((?:.*&)?ct=[^&/]+(?:&[^/]*)?)/((?:json|devtools)(?:[/?].*)?)?$`)

// RegisterRoot makes the DevTools routes of each launch reachable at the root of the
// worker, for clients that know only a host: the control token of the request names
// the launch. The request is then one for the routes below /browsers/{launchId}, which
// authorize it. Cookies and the worker key name no launch and do not count. An upgrade
// of the root or of a browser's page connects to the browser. Call it after the Pre
// middleware that removes a prefix.
func (a *Authorizer) RegisterRoot(e *echo.Echo) {
	e.Pre(a.rewriteRoot)
	for _, path := range []string{"/json", "/json/*", BrowserSocket, BrowserSocket + "/*", "/devtools/page/*"} {
		e.Any(path, refuseRoot) // only requests without a valid token keep this path
	}
}

func isRootPath(path string) bool {
	return path == "/json" || strings.HasPrefix(path, "/json/") || path == BrowserSocket ||
		strings.HasPrefix(path, BrowserSocket+"/") || strings.HasPrefix(path, "/devtools/page/")
}

func (a *Authorizer) rewriteRoot(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		isPage := r.URL.Path == "/" || pageOfBrowser().MatchString(r.URL.Path)
		if isPage {
			isPage = !movePath(r.URL)
		}
		if isPage && ws.IsUpgrade(r) {
			appendPath(r.URL, BrowserSocket)
		}
		if !isRootPath(r.URL.Path) {
			return next(c)
		}
		if strings.EqualFold(r.Method, http.MethodGet) { // nodriver sends it in lower case, and Chromium accepts it
			r.Method = http.MethodGet
		}
		for _, token := range a.rootTokens(r) {
			launchID, err := a.Tickets.LaunchOf(token)
			if err != nil {
				continue
			}
			prefix := "/browsers/" + launchID
			r.URL.Path = prefix + r.URL.Path
			if r.URL.RawPath != "" {
				r.URL.RawPath = prefix + r.URL.RawPath
			}
			r.URL.RawQuery = withoutParameter(r.URL.RawQuery, tokenQuery)
			for _, name := range []string{"Cookie", "Authorization", keyHeader} {
				r.Header.Del(name)
			}
			r.Header.Set(TokenHeader, token)
			break
		}
		return next(c)
	}
}

// rootTokens returns the tokens of a request, valid or not. Web browsers send a
// password that they know with requests of all pages, as they do with cookies.
func (a *Authorizer) rootTokens(r *http.Request) []string {
	tokens := []string{r.Header.Get(TokenHeader), oapi.BearerToken(r.Header)}
	if user, password, ok := r.BasicAuth(); ok && !a.Address.isForeign(r) {
		tokens = append(tokens, password, user)
	}
	tokens = append(tokens, r.URL.Query().Get(tokenQuery))
	return slices.DeleteFunc(tokens, func(token string) bool { return token == "" })
}

// isForeign reports whether a page of another origin sent the request.
func (a Address) isForeign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		return !a.IsOrigin(origin)
	}
	return slices.Contains([]string{"cross-site", "same-site"}, r.Header.Get("Sec-Fetch-Site"))
}

// refuseRoot refuses a request without a valid token. It says nothing about browsers,
// so unlike below /browsers it can say what is missing.
func refuseRoot(c echo.Context) error {
	h := c.Response().Header()
	setSecurityHeaders(h, noAncestors)
	h.Add(echo.HeaderWWWAuthenticate, `Basic realm="control token", charset="UTF-8"`)
	h.Add(echo.HeaderWWWAuthenticate, "Bearer")
	problem := "This path requires the control token of a launch."
	if r := c.Request(); r.Header.Get(TokenHeader)+r.Header.Get("Authorization") != "" || r.URL.Query().Has(tokenQuery) {
		problem = "The control token is invalid or has expired."
	}
	return fault.New(fault.Unauthenticated, problem+
		" Send the ct of webSocketDebuggerUrl as Authorization: Bearer TOKEN, X-Svc-Token: TOKEN, ?ct=TOKEN or http://user:TOKEN@host.")
}

// movePath moves a path that a client appended to the query to the path, and reports
// whether there was one. http://host/?ct=TOKEN/json/version becomes
// http://host/json/version?ct=TOKEN.
func movePath(u *url.URL) bool {
	parts := appendedPath().FindStringSubmatch(u.RawQuery)
	if parts == nil {
		return false
	}
	u.RawQuery = parts[1]
	path, query, _ := strings.Cut(parts[2], "?")
	if query != "" {
		u.RawQuery = query + "&" + parts[1]
	}
	if path != "" {
		appendPath(u, "/"+path)
	}
	return path != ""
}

func appendPath(u *url.URL, path string) {
	if u.RawPath != "" {
		u.RawPath = strings.TrimSuffix(u.RawPath, "/") + path
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
}

// withoutParameter removes a parameter from a query, which otherwise stays as it is.
func withoutParameter(query, name string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		values, err := url.ParseQuery(pair)
		return err == nil && values.Has(name)
	}), "&")
}
