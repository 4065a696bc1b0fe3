package oapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// Authenticator checks one security scheme. It returns the context to go on
// with. ErrNoCredential means that the request does not carry this credential
// at all; a *fault.Error is the answer to a wrong one; any other error is a
// failure of ours.
type Authenticator func(r *http.Request) (context.Context, error)

// ErrNoCredential is what an Authenticator returns for a request that does not
// carry its credential.
var ErrNoCredential = errors.New("no credential")

// Operation is what an authorizer may need to know.
type Operation struct {
	ID     string            // operationId
	Method string            // such as GET
	Path   string            // as the document has it, such as /v1/profiles/{profileId}
	Roles  []string          // x-roles; empty asks for none
	Params map[string]string // the path parameters, decoded and not yet checked
	Public bool              // it asks for no credential
	// AnyOrganization tells that it may name another organization than the active
	// one (x-active-organization: any).
	AnyOrganization bool
}

// Options configure a Guard.
type Options struct {
	// Authenticators by the name of their security scheme. Every scheme that a
	// guarded operation asks for must have one.
	Authenticators map[string]Authenticator
	// Authorize, if set, is called after authentication and before anything of
	// the request is checked. Its error is the answer.
	Authorize func(ctx context.Context, op Operation) (context.Context, error)
	// MaxBody is the largest body read, in bytes. 0 is 1 MiB.
	MaxBody int64
}

// Guard stands before the handlers of a document's operations. It is safe for
// concurrent use.
type Guard struct {
	authorize func(context.Context, Operation) (context.Context, error)
	maxBody   int64
	routes    map[string]map[string]*operation // method, then pattern
	checks    sync.Pool
}

// NewGuard makes the document's operations ready. It refuses a document that
// it could not enforce: a security scheme without an authenticator, an
// operation that says nothing about security, a string format that it does not
// check, a kind of parameter that it does not read.
//
// An operation with the extension `x-guard: none` is left alone: its handler
// does all of this itself. With `x-guard: request` the handler admits the caller
// and then has the request checked by Inspect.
func NewGuard(doc *Document, opts Options) (*Guard, error) {
	g := &Guard{authorize: opts.Authorize, maxBody: opts.MaxBody, routes: map[string]map[string]*operation{}}
	if g.maxBody == 0 {
		g.maxBody = 1 << 20
	}
	s, err := readSpec(doc.json)
	if err != nil {
		return nil, err
	}
	secrets := s.secretNames()
	g.checks.New = func() any { return &checker{secrets: secrets} }
	compile := compiler{spec: s, compiled: map[*schema]*rule{}}
	for path, item := range s.Paths {
		for method, op := range item.endpoints() {
			if op.Guard == "none" {
				continue
			}
			o, err := compile.operation(path, method, item, op)
			switch {
			case err != nil:
			case op.Guard == "request":
				o.selfAuthorizing = true
			default:
				err = o.setSecurity(s, op, opts.Authenticators)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			if err := g.addRoute(o); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

func (g *Guard) addRoute(o *operation) error {
	shape := string(pattern(nil, o.info.Path))
	routes := g.routes[o.info.Method]
	if routes == nil {
		routes = map[string]*operation{}
		g.routes[o.info.Method] = routes
	}
	if other := routes[shape]; other != nil {
		return fmt.Errorf("%s %s and %s are the same route", o.info.Method, o.info.Path, other.info.Path)
	}
	routes[shape] = o
	return nil
}

// lookup returns the operation of a route, or nil. A HEAD request is guarded as
// the GET that it asks about.
func (g *Guard) lookup(method, route string) *operation {
	var buf [128]byte
	shape := pattern(buf[:0], route)
	if o := g.routes[method][string(shape)]; o != nil {
		return o
	}
	if method == http.MethodHead {
		return g.routes[http.MethodGet][string(shape)]
	}
	return nil
}

// OperationsWithHeader is an operation that takes a header as a parameter.
type HeaderOperation struct {
	Method, Path string // as the document has them
	ShownOnce    bool   // x-shown-once of the parameter
}

// OperationsWithHeader are the guarded operations that have a parameter in this header.
func (g *Guard) OperationsWithHeader(header string) (all []HeaderOperation) {
	for method, routes := range g.routes {
		for _, o := range routes {
			if i := slices.IndexFunc(o.header, func(p *param) bool { return p.name == header }); i >= 0 {
				all = append(all, HeaderOperation{method, o.info.Path, o.header[i].shownOnce})
			}
		}
	}
	return all
}

// Middleware authenticates, authorizes and checks the requests of every route
// that the document knows, by its method and its Echo pattern, however the
// placeholders are named; requests of other routes pass untouched. It must be
// added with Use, since the route has to be known.
//
// A request that is refused never reaches the handler: the error is a
// *fault.Error, with all that is wrong with the request, up to 100 entries, in
// its details. The body is read only after the caller proved to be allowed to
// send it. Behind the Guard, a JSON body decodes into the generated types; it
// can be read again, and has a method Text() []byte for who wants it whole.
func (g *Guard) Middleware() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			op := g.lookup(c.Request().Method, c.Path())
			if op == nil || op.selfAuthorizing {
				return next(c)
			}
			if err := g.admit(c, op); err != nil {
				return err
			}
			if err := g.inspect(c, op); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// Inspect checks a request of an operation with `x-guard: request`, as the
// Middleware does after it has admitted one. Requests of other routes pass.
func (g *Guard) Inspect(c echo.Context) error {
	op := g.lookup(c.Request().Method, c.Path())
	if op == nil || !op.selfAuthorizing {
		return nil
	}
	return g.inspect(c, op)
}

// CheckBody checks a JSON text as if it were the body of that operation, for
// what comes by another way, and returns it as the generated types take it. Its
// error is a *fault.Error. The operation must have a JSON body.
func (g *Guard) CheckBody(operationID string, text []byte) ([]byte, error) {
	for _, routes := range g.routes {
		for _, o := range routes {
			if o.info.ID == operationID && o.body != nil && o.body.schemas["application/json"] != nil {
				return g.checkText(o.body.schemas["application/json"], text)
			}
		}
	}
	return nil, fmt.Errorf("%s has no JSON body", operationID)
}

func (g *Guard) checkText(schema *rule, text []byte) ([]byte, error) {
	run := g.checks.Get().(*checker)
	defer func() {
		run.reset()
		g.checks.Put(run)
	}()
	if broken := run.tape.parse(text); broken != nil {
		run.report(syntaxFinding(text, broken))
	} else {
		run.body(schema)
	}
	if len(run.details) > 0 {
		return nil, fault.Invalid(run.details...)
	}
	return bytes.Clone(run.applyEdits(text)), nil
}
