package access

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// Kind determines the credentials of a route and how it treats ?ct= and ?t=
// (specification 4.4, 5.5). A page accepts each token once and turns it into a
// cookie. Other routes accept tokens until they expire, because programs reconnect
// with the same URL and keep the query when they append to the path.
type Kind int

// The kinds. Only ViewPage, ViewAsset and Stream accept a view ticket.
const (
	Asset     Kind = iota // accepts ?ct=
	Page                  // turns ?ct= into a cookie and redirects to the clean URL
	Socket                // accepts ?ct=
	ViewPage              // a Page that also accepts ?t=
	ViewAsset             // an asset of a ViewPage; also accepts ?t=
	Stream                // a Socket that also accepts ?t=; answers 403 instead of 404
)

func (k Kind) isPage() bool   { return k == Page || k == ViewPage }
func (k Kind) isSocket() bool { return k == Socket || k == Stream }
func (k Kind) isView() bool   { return k == ViewPage || k == ViewAsset || k == Stream }

// page returns the kind of page for which tokens are spent.
func (k Kind) page() ticket.Page {
	if k == ViewPage {
		return ticket.LivePage
	}
	return ticket.BrowserPage
}

const anyMethod = "*"

// Handler answers an authorized request.
type Handler func(c echo.Context, v AuthorizedRequest) error

// Route is one path below /browsers/{launchId}.
type Route struct {
	Path   string // an Echo pattern, such as /view or /json/activate/:targetId
	Kind   Kind
	Method string // empty means GET and HEAD
	// Changes marks a GET that has side effects: cookies count only for requests of
	// this origin, and HEAD is not allowed.
	Changes bool
	Handle  Handler
}

// methods returns the allowed methods.
func (r Route) methods() []string {
	switch {
	case r.Method == "" && r.Changes:
		return []string{http.MethodGet}
	case r.Method == "" || r.Method == http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.Method}
}

// handlerFor returns the handler for a method among the routes of one path. Only
// authorized callers learn that a method is not allowed.
func handlerFor(routes []Route, method string) (Handler, error) {
	var allowed []string
	for _, route := range routes {
		if route.Method == anyMethod || slices.Contains(route.methods(), method) {
			return route.Handle, nil
		}
		allowed = append(allowed, route.methods()...)
	}
	f := fault.New(fault.MethodNotAllowed, "This method is not allowed for this path.")
	f.Allow = strings.Join(allowed, ", ")
	return nil, f
}

// Register adds the routes to e. Call it once with all routes: unknown paths must
// not reveal which browsers exist. Routes of the same path have different methods
// and the kind of the first.
func (a *Authorizer) Register(e *echo.Echo, routes ...Route) {
	const base = "/browsers/:launchId"
	var paths []string
	byPath := map[string][]Route{}
	for _, route := range routes {
		if !slices.Contains(paths, route.Path) {
			paths = append(paths, route.Path)
		}
		byPath[route.Path] = append(byPath[route.Path], route)
	}
	for _, path := range paths {
		e.Any(base+path, a.handler(byPath[path]))
	}
	// Unknown methods also end here.
	notFound := a.handler([]Route{{Method: anyMethod, Handle: func(echo.Context, AuthorizedRequest) error { return NoSuchPath() }}})
	e.RouteNotFound(base, notFound)
	e.RouteNotFound(base+"/*", notFound)
}

// NoSuchPath returns the error for an unknown path below a browser.
func NoSuchPath() error { return fault.New(fault.NotFound, "This path does not exist.") }
