// Package httpd is the HTTP server of both programs: the Echo setup, the error
// handler, the access log, the API explorer, readiness and graceful shutdown.
//
// Handlers return errors. Only this package turns an error into a status and a
// failure envelope (specification 2.1, 7). The internal cause of an error is
// logged and never sent to a client.
//
//	options := httpd.Options{Logger: logger, Document: document, Name: "cloud"}
//	e := httpd.New(options)
//	e.GET("/v1/plans", listPlans)
//	err := httpd.Serve(ctx, listener, e, options)
package httpd

import (
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/tracing"
)

// Document is the bundled OpenAPI document of a program in the served formats:
// OpenAPI 3.0 and 3.1, each as JSON and YAML.
type Document interface {
	JSON() []byte
	YAML() []byte
	JSON31() []byte
	YAML31() []byte
	// ContractVersion is info.version, which every response carries.
	ContractVersion() string
	// DeprecationHeaders returns the additional response headers of a deprecated operation,
	// identified by its method and Echo pattern; nil for other operations.
	DeprecationHeaders(method, route string) http.Header
	// OperationID returns the operationId of a route, identified likewise; empty for
	// other routes.
	OperationID(method, route string) string
}

// Options configures a server. All fields are optional.
type Options struct {
	Logger   *slog.Logger // nil discards
	Document Document     // nil serves neither /docs nor the documents
	Name     string       // of the service, for the log
	Version  string       // of the service, for the log

	// Traces records a span for each request of an operation in the Document. Nil
	// records nothing.
	Traces *tracing.Tracing

	// TrustedProxies are the peers whose X-Forwarded-For header is trusted. If
	// empty, the client address is the peer address.
	TrustedProxies []netip.Prefix

	// ReadTimeout limits reading a request including its body; 0 means one
	// minute. It does not limit handlers or upgraded connections.
	ReadTimeout time.Duration

	// MaxHeaderBytes limits the size of the request headers; 0 means 64 KiB.
	MaxHeaderBytes int

	// MaxConnections limits the number of open connections; further connections
	// wait in the accept queue. An upgraded connection counts until its handler
	// returns. 0 means no limit. At most half of the limit of open files is used.
	MaxConnections int

	// DrainTimeout is how long Serve waits for running requests when it stops; 0
	// means 15 seconds.
	DrainTimeout time.Duration

	// Observe is called after each request with its Echo pattern, which is empty if no
	// route matched. It must not block.
	Observe func(r *http.Request, route string, status int, took time.Duration)
}

const (
	defaultReadTimeout    = time.Minute
	defaultDrainTimeout   = 15 * time.Second
	defaultMaxHeaderBytes = 64 << 10
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = defaultReadTimeout
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = defaultDrainTimeout
	}
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = defaultMaxHeaderBytes
	}
	return o
}

// New returns an Echo instance without routes. It has request IDs, the access
// log, panic recovery, security headers, the error handler and, if there is a
// Document, the API explorer. Each GET route also serves HEAD.
func New(options Options) *echo.Echo {
	o := options.withDefaults()
	e := echo.New()
	e.HideBanner = true
	e.HidePort = true
	e.Logger.SetOutput(io.Discard)
	e.IPExtractor = clientIPExtractor(o.TrustedProxies)
	e.HTTPErrorHandler = handleError
	e.JSONSerializer = jsonSerializer{}
	e.OnAddRouteHandler = func(_ string, route echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
		if route.Method == http.MethodGet {
			e.Add(http.MethodHead, route.Path, handler, middleware...)
		}
	}
	e.Use(prepareRequest(o.Document), traceRequest(o.Traces, o.Document), accessLog(o.Logger, o.Observe))
	if o.Document != nil {
		addExplorer(e, o.Document)
	}
	return e
}

// clientIPExtractor trusts X-Forwarded-For only from the trusted proxies. Echo's
// default also trusts private networks.
func clientIPExtractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{
		echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false),
	}
	for _, prefix := range trusted {
		prefix = prefix.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP:   prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// contractHeader has the version of the OpenAPI document that the server implements.
const contractHeader = "X-Svc-Contract"

// prepareRequest sets the request information and the default response headers.
// It is a single middleware because each middleware costs time per request.
func prepareRequest(document Document) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r, res := c.Request(), c.Response()
			info := &requestInfo{id: requestID(r), address: c.RealIP(), userAgent: r.UserAgent()}
			c.SetRequest(r.WithContext(withRequestInfo(r.Context(), info)))
			setDefaultHeaders(res.Header(), info.id)
			if document != nil {
				setDocumentHeaders(res.Header(), document, r.Method, c.Path())
			}
			res.Writer = &hijackWatcher{ResponseWriter: res.Writer, response: res}
			return next(c)
		}
	}
}

// setDefaultHeaders sets the headers that every response has. Handlers may
// override them, for example for cacheable content. All values share one array to
// save allocations; their capacities keep an append from overwriting the next.
func setDefaultHeaders(h http.Header, requestID string) {
	values := [...]string{requestID, "nosniff", "no-referrer", "DENY", "no-store"}
	for i, name := range [...]string{echo.HeaderXRequestID, "X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cache-Control"} {
		h[name] = values[i : i+1 : i+1]
	}
}

// setDocumentHeaders sets the contract version and the deprecation headers.
func setDocumentHeaders(h http.Header, document Document, method, route string) {
	h[contractHeader] = []string{document.ContractVersion()}
	maps.Copy(h, document.DeprecationHeaders(method, route))
}
