package oapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// Authenticator checks the credential of one security scheme. It returns the
// context for the rest of the request. It returns ErrNoCredential if the request
// has no such credential, and a *fault.Error if the credential is invalid. Any
// other error is a server error.
type Authenticator func(r *http.Request) (context.Context, error)

// ErrNoCredential is returned by an Authenticator if the request does not have its
// credential.
var ErrNoCredential = errors.New("no credential")

// Operation describes an operation for the authorizer.
type Operation struct {
	ID     string            // operationId
	Method string            // such as GET
	Path   string            // as in the document, such as /v1/profiles/{profileId}
	Roles  []string          // x-roles; empty requires no role
	Params map[string]string // the path parameters, decoded but not yet validated
	Public bool              // requires no credential
	Scope  string            // x-scope, which an access token needs; empty refuses access tokens
	Again  bool              // a check by CheckAgain
	// AnyOrganization allows another organization than the active one
	// (x-active-organization: any).
	AnyOrganization bool
}

// Options configure a Guard.
type Options struct {
	// Authenticators by the name of the security scheme. Every scheme of a guarded
	// operation needs one.
	Authenticators map[string]Authenticator
	// Authorize, if set, is called after authentication and before validation. An
	// error refuses the request.
	Authorize func(ctx context.Context, op Operation) (context.Context, error)
	// MaxBody is the maximum size of a body in bytes, for operations without x-max-body;
	// 0 means 1 MiB.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// Guard authenticates, authorizes and validates requests. It is safe for
// concurrent use.
type Guard struct {
	authorize func(context.Context, Operation) (context.Context, error)
	routes    map[string]map[string]*operation // method, then pattern
	checks    sync.Pool
}

// NewGuard compiles the operations of the document. It returns an error if it
// cannot enforce the document: a security scheme has no authenticator, an
// operation has no security, or the document uses an unsupported string format or
// parameter serialization.
//
// The Guard ignores operations with the extension `x-guard: none`. The handler of
// an operation with `x-guard: request` authorizes the caller itself and then calls
// Inspect to validate the request.
func NewGuard(doc *Document, opts Options) (*Guard, error) {
	g := &Guard{authorize: opts.Authorize, routes: map[string]map[string]*operation{}}
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
			o.concrete = s.concretePaths(o)
			o.maxBody = cmp.Or(o.maxBody, opts.MaxBody, defaultMaxBody)
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
		return fmt.Errorf("duplicate route: %s %s and %s", o.info.Method, o.info.Path, other.info.Path)
	}
	routes[shape] = o
	return nil
}

// lookup returns the operation of a route, or nil. HEAD uses the operation of GET.
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

// HeaderOperation is an operation that takes a header as a parameter.
type HeaderOperation struct {
	Method, Path string // as in the document
	ShownOnce    bool   // x-shown-once of the parameter
}

// OperationsWithHeader returns the guarded operations with this header parameter.
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

// Middleware returns an Echo middleware that authenticates, authorizes and
// validates the requests of all routes in the document. Routes are matched by
// method and Echo pattern; the names of placeholders do not matter. Other requests
// pass unchanged. Add it with Use, because it needs the matched route.
//
// A refused request does not reach the handler. The error is a *fault.Error whose
// details list up to 100 problems. The body is read only after authorization. The
// handler can read the body again; its method Text() []byte returns the complete
// body. A valid JSON body decodes to the generated types.
func (g *Guard) Middleware() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			op := g.lookup(c.Request().Method, c.Path())
			if op == nil || op.selfAuthorizing {
				return next(c)
			}
			if err := op.checkMethod(c); err != nil {
				return err
			}
			if err := g.admit(c, op, false); err != nil {
				return err
			}
			if err := g.inspect(c, op); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// CheckAgain authenticates and authorizes a request again, for the handler of a long
// response. The errors are those of the first check.
func (g *Guard) CheckAgain(c echo.Context) error {
	op := g.lookup(c.Request().Method, c.Path())
	if op == nil || op.selfAuthorizing {
		return nil
	}
	return g.admit(c, op, true)
}

// Inspect validates a request of an operation with `x-guard: request`. Requests of
// other routes pass.
func (g *Guard) Inspect(c echo.Context) error {
	op := g.lookup(c.Request().Method, c.Path())
	if op == nil || !op.selfAuthorizing {
		return nil
	}
	return g.inspect(c, op)
}

// CheckBody validates a JSON text as the body of an operation, for input that does
// not arrive as a request body. It returns a text that decodes to the generated
// types, or a *fault.Error. The operation must have a JSON body.
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
