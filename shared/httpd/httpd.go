// Package httpd is the HTTP front of both surfaces: one way to set up Echo, one
// error handler, one access log, the API explorer and a shutdown that lets
// running requests finish.
//
// Handlers return their errors; only this package turns an error into a status
// and a failure envelope (specification 2.1, 7). What an error says to the log
// never reaches a client.
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
)

// Document is the bundled description of a surface, in the forms that are
// served: OpenAPI 3.0 and the derived 3.1, each as JSON and YAML.
type Document interface {
	JSON() []byte
	YAML() []byte
	JSON31() []byte
	YAML31() []byte
	// ContractVersion is info.version; every answer carries it.
	ContractVersion() string
	// DeprecationHeaders is what the answers of a deprecated operation carry besides, by its
	// method and its Echo pattern; nil for one that stays.
	DeprecationHeaders(method, route string) http.Header
}

// Options says how a surface is served. Every field may be left out.
type Options struct {
	Logger   *slog.Logger // nil discards
	Document Document     // nil serves neither /docs nor the documents
	Name     string       // of the service, for the log
	Version  string       // of the service, for the log

	// TrustedProxies are the peers whose X-Forwarded-For is believed. With none,
	// the client's address is the peer's.
	TrustedProxies []netip.Prefix

	// ReadTimeout is how long a client may take to send a request, its body
	// included; 0 means a minute. How long the answer takes is not its concern,
	// nor is an upgraded connection.
	ReadTimeout time.Duration

	// MaxHeaderBytes bounds the head of a request; 0 means 64 KiB.
	MaxHeaderBytes int

	// MaxConnections is how many connections Serve has open at once; more wait
	// to be accepted. An upgraded one counts until its handler returns. 0 means
	// no limit.
	MaxConnections int

	// DrainTimeout is how long Serve lets running requests finish once it is
	// told to stop; 0 means 15 seconds.
	DrainTimeout time.Duration
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

// New returns an Echo with everything in place but the routes: request ids, the
// access log, panic recovery, security headers, the error handler and, when
// there is a Document, the explorer. Each route for GET answers to HEAD, too.
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
	e.Use(prepareRequest(o.Document), accessLog(o.Logger))
	if o.Document != nil {
		addExplorer(e, o.Document)
	}
	return e
}

// clientIPExtractor believes X-Forwarded-For only where it comes from one of the
// trusted proxies; Echo's own default would also believe private networks.
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

// contractHeader tells a client which version of the document is kept here.
const contractHeader = "X-Svc-Contract"

// prepareRequest gives a request and its answer what all of them have. It is one
// middleware, since each costs every request.
func prepareRequest(document Document) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r, res := c.Request(), c.Response()
			from := &requestInfo{id: requestID(r), address: c.RealIP(), userAgent: r.UserAgent()}
			c.SetRequest(r.WithContext(withRequestInfo(r.Context(), from)))
			setDefaultHeaders(res.Header(), from.id)
			if document != nil {
				setDocumentHeaders(res.Header(), document, r.Method, c.Path())
			}
			res.Writer = &hijackWatcher{ResponseWriter: res.Writer, response: res}
			return next(c)
		}
	}
}

// setDefaultHeaders sets what every answer starts with; a handler that serves
// something cacheable or embeddable overrides it. The values lie in one array,
// and each can't grow into the next.
func setDefaultHeaders(h http.Header, requestID string) {
	values := [...]string{requestID, "nosniff", "no-referrer", "DENY", "no-store"}
	for i, name := range [...]string{echo.HeaderXRequestID, "X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cache-Control"} {
		h[name] = values[i : i+1 : i+1]
	}
}

// setDocumentHeaders sets what the document promises of an answer.
func setDocumentHeaders(h http.Header, document Document, method, route string) {
	h[contractHeader] = []string{document.ContractVersion()}
	maps.Copy(h, document.DeprecationHeaders(method, route))
}
