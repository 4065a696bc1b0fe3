package devtools

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// discovery returns the routes of Chromium's DevTools server under /json. Each path
// exists with and without a trailing slash, because clients use both.
func (s *Service) discovery() []access.Route {
	var routes []access.Route
	for _, route := range []access.Route{
		{Path: "/json", Handle: s.listTargets},
		{Path: "/json/list", Handle: s.listTargets},
		{Path: "/json/version", Handle: s.version},
		{Path: "/json/protocol", Handle: s.protocol},
		{Path: "/json/new", Method: http.MethodPut, Handle: s.newTarget},
		{Path: "/json/new", Method: http.MethodPost, Handle: s.newTarget},
		{Path: "/json/activate/:targetId", Changes: true, Handle: s.targetCommand("/json/activate/")},
		{Path: "/json/close/:targetId", Changes: true, Handle: s.targetCommand("/json/close/")},
	} {
		slashed := route
		slashed.Path += "/"
		routes = append(routes, route, slashed)
	}
	return routes
}

// targetInfo is a JSON object of Chromium. Members that are not named here are passed
// on unchanged.
type targetInfo map[string]json.RawMessage

// The members that contain URLs.
const (
	socketMember   = "webSocketDebuggerUrl"
	frontEndMember = "devtoolsFrontendUrl"
)

func (d targetInfo) text(member string) string {
	var text string
	_ = json.Unmarshal(d[member], &text) // other types count as empty
	return text
}

func (d targetInfo) set(member, text string) {
	value, _ := json.Marshal(text) // encoding a string never fails
	d[member] = value
}

func (s *Service) version(c echo.Context, v access.AuthorizedRequest) error {
	var version targetInfo
	if err := s.fetch(c, v, http.MethodGet, "/json/version", &version); err != nil {
		return err
	}
	token, err := s.links.TokenFor(v)
	if err != nil {
		return err
	}
	version.set(socketMember, s.links.Address.BrowserSocket(v.LaunchID, v.DebugPath, access.TokenQuery(ticket.Control, token)))
	return sendJSON(c, version)
}

func (s *Service) listTargets(c echo.Context, v access.AuthorizedRequest) error {
	targets := []targetInfo{}
	if err := s.fetch(c, v, http.MethodGet, "/json/list", &targets); err != nil {
		return err
	}
	if err := s.rewriteURLs(v, targets...); err != nil {
		return err
	}
	return sendJSON(c, targets)
}

// newTarget opens a tab. The query string is the URL of the tab, without the token of
// this request, which the site must not see.
func (s *Service) newTarget(c echo.Context, v access.AuthorizedRequest) error {
	v.Activity.Touch()
	address := slices.DeleteFunc(strings.Split(c.Request().URL.RawQuery, "&"), func(part string) bool {
		value, err := url.ParseQuery(part)
		return err == nil && v.Token != "" && maps.EqualFunc(value, access.TokenQuery(v.Use, v.Token), slices.Equal)
	})
	query := strings.Join(address, "&")
	if text := v.Calls.RefusePage(query); text != "" {
		return fault.New(fault.Forbidden, text)
	}
	page, blank := v.Calls.NewPage(query)
	if blank {
		query = "about:blank"
	}
	var target targetInfo
	if err := s.fetch(c, v, http.MethodPut, "/json/new?"+query, &target); err != nil {
		return err
	}
	if blank {
		v.Calls.Navigate(target.text("id"), page)
		target.set("url", page)
	}
	if err := s.rewriteURLs(v, target); err != nil {
		return err
	}
	return sendJSON(c, target)
}

// targetCommand returns a handler that forwards a command for a target to Chromium
// and returns its answer.
func (s *Service) targetCommand(path string) access.Handler {
	return func(c echo.Context, v access.AuthorizedRequest) error {
		v.Activity.Touch()
		id := c.Param("targetId")
		if !devtoolsID().MatchString(id) {
			return errNoTarget
		}
		text, _, err := s.chromium.get(c.Request().Context(), v.Browser, path+id)
		if err != nil {
			return s.toFault(v, noTarget(err))
		}
		return c.Blob(http.StatusOK, echo.MIMETextPlainCharsetUTF8, text)
	}
}

func (s *Service) protocol(c echo.Context, v access.AuthorizedRequest) error {
	text, _, err := s.chromium.get(c.Request().Context(), v.Browser, "/json/protocol")
	if err != nil {
		return s.toFault(v, err)
	}
	return c.JSONBlob(http.StatusOK, text)
}

func (s *Service) fetch(c echo.Context, v access.AuthorizedRequest, method, path string, into any) error {
	text, _, err := s.chromium.do(c.Request().Context(), method, v.Browser, path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return s.toFault(v, err)
}

// rewriteURLs replaces the URLs in target descriptions by public URLs of the worker.
// They contain the client's token, except that URLs of pages contain a new token if
// that token has opened a page.
func (s *Service) rewriteURLs(v access.AuthorizedRequest, targets ...targetInfo) error {
	token, err := s.links.TokenFor(v)
	if err != nil {
		return err
	}
	forPage, err := s.links.PageTokenFor(v)
	if err != nil {
		return err
	}
	carry := access.TokenQuery(ticket.Control, token)
	for _, target := range targets {
		path := "devtools/page/" + target.text("id")
		page := frontEndPageOf(target.text(frontEndMember))
		for member := range target { // older versions list a second front end for compatibility
			if strings.HasPrefix(member, frontEndMember) {
				delete(target, member)
			}
		}
		if target.text(socketMember) == "" {
			continue
		}
		target.set(socketMember, s.links.Address.BrowserSocket(v.LaunchID, path, carry))
		if v.DevTools {
			query := s.inspectorQuery(v.LaunchID, target.text("id"))
			maps.Copy(query, access.TokenQuery(ticket.Control, forPage))
			target.set(frontEndMember, s.links.Address.Browser(v.LaunchID, "devtools/"+page, query))
		}
	}
	return nil
}

// inspectorQuery returns the query that names a target's socket for the DevTools front end.
func (s *Service) inspectorQuery(launchID, targetID string) url.Values {
	scheme := "ws"
	if s.links.Address.Secure() {
		scheme = "wss"
	}
	return url.Values{scheme: {s.links.Address.Host() + s.links.Address.BrowserPath(launchID) + "devtools/page/" + targetID}}
}

func noTarget(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.status == http.StatusNotFound {
		return errNoTarget
	}
	return err
}

// sendJSON answers with indented JSON without an envelope, as Chromium does.
func sendJSON(c echo.Context, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, text.Bytes())
}
