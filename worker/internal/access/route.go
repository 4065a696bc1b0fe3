package access

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// Kind decides what opens a route and what it makes of ?ct= and ?t=
// (specification 4.4, 5.5). A page takes each of them once, and turns it into a
// cookie; the other routes take them each time until they expire, since programs
// reconnect with the same URL, and keep the query when they append to the path.
type Kind int

// The kinds. Only those that begin with View, and Stream, open to a view ticket.
const (
	Asset     Kind = iota // takes ?ct=
	Page                  // turns ?ct= into a cookie, and redirects to the clean URL
	Socket                // takes ?ct=
	ViewPage              // a Page that takes ?t= too
	ViewAsset             // what a ViewPage consists of; takes ?t= too
	Stream                // a Socket that takes ?t= too; says 403 forbidden instead of 404
)

func (k Kind) isPage() bool   { return k == Page || k == ViewPage }
func (k Kind) isSocket() bool { return k == Socket || k == Stream }
func (k Kind) isView() bool   { return k == ViewPage || k == ViewAsset || k == Stream }

const anyMethod = "*"

// Handler answers a request that the gate has let in.
type Handler func(c echo.Context, v AuthorizedRequest) error

// Route is one path below /browsers/{launchId}.
type Route struct {
	Path   string // an Echo pattern, such as /view or /json/activate/:targetId
	Kind   Kind
	Method string // GET, which HEAD comes along with, when empty
	// Changes says that a GET changes something: a cookie opens it only to
	// requests that come from here, and HEAD does not come along.
	Changes bool
	Handle  Handler
}

// methods is what the route answers to.
func (r Route) methods() []string {
	switch {
	case r.Method == "" && r.Changes:
		return []string{http.MethodGet}
	case r.Method == "" || r.Method == http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.Method}
}

// handlerFor finds the route that answers to a method, among those of one path.
// Other methods are refused, to those who may know that the path exists.
func handlerFor(routes []Route, method string) (Handler, error) {
	var allowed []string
	for _, route := range routes {
		if route.Method == anyMethod || slices.Contains(route.methods(), method) {
			return route.Handle, nil
		}
		allowed = append(allowed, route.methods()...)
	}
	f := fault.New(fault.MethodNotAllowed, "This path does not answer to this method.")
	f.Allow = strings.Join(allowed, ", ")
	return nil, f
}

// Register adds the routes to e. It is called once, with all of them: what
// doesn't exist must not tell which browsers do. Routes of the same path differ
// in their methods, and are of the kind of the first.
func (g *Authorizer) Register(e *echo.Echo, routes ...Route) {
	const base = "/browsers/:launchId"
	var paths []string
	of := map[string][]Route{}
	for _, route := range routes {
		if !slices.Contains(paths, route.Path) {
			paths = append(paths, route.Path)
		}
		of[route.Path] = append(of[route.Path], route)
	}
	for _, path := range paths {
		e.Any(base+path, g.handler(of[path]))
	}
	// Methods that nobody has heard of come here, too.
	nothing := g.handler([]Route{{Method: anyMethod, Handle: func(echo.Context, AuthorizedRequest) error { return NoSuchPath() }}})
	e.RouteNotFound(base, nothing)
	e.RouteNotFound(base+"/*", nothing)
}

// NoSuchPath is the fault of a path below a browser that leads nowhere.
func NoSuchPath() error { return fault.New(fault.NotFound, "There is nothing at this path.") }
