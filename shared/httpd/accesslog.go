package httpd

import (
	"bufio"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/tracing"
)

// accessLog logs each request when its handler returns. It omits the query,
// which may contain tokens (specification 5.5), masks keys in the path, and
// summarizes repeated refusals. It also calls observe, unless that is nil.
func accessLog(logger *slog.Logger, observe func(*http.Request, string, int, time.Duration)) echo.MiddlewareFunc {
	alike := newRefusalLimiter(logger)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			var failure error
			finished := false
			// Deferred, so that aborted responses are logged too.
			defer func() {
				took := time.Since(start)
				if observe != nil {
					observe(c.Request(), c.Path(), c.Response().Status, took)
				}
				logRequest(logger, alike, c, took, failure, !finished)
			}()
			failure = recoverPanic(next, c)
			committed := c.Response().Committed
			if failure != nil {
				c.Error(failure)
			}
			finished = true
			if _, panicked := errors.AsType[*panicError](failure); panicked && committed {
				// The response is incomplete. Only closing the connection
				// shows that to the client.
				panic(http.ErrAbortHandler)
			}
			return nil
		}
	}
}

func logRequest(logger *slog.Logger, alike *refusalLimiter, c echo.Context, took time.Duration, failure error, aborted bool) {
	r, res := c.Request(), c.Response()
	info := requestInfoFrom(r.Context())
	now := time.Now()
	alike.summarize(r.Context(), now)
	ours := res.Status >= http.StatusInternalServerError
	probe := isProbe(c.Path()) // Readiness logs changes
	least := slog.LevelInfo
	if probe || c.Path() == "/metrics" && failure == nil {
		least = slog.LevelDebug
	}
	if (probe || failure == nil && !ours) && !logger.Enabled(r.Context(), least) {
		return
	}
	if failure != nil && !alike.shouldLog(refusalKey{c.Path(), info.address, classify(failure).Kind}, now) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("route", c.Path()),
		slog.String("path", fault.MaskSecrets(r.URL.Path)),
		slog.Int("status", res.Status),
		slog.Duration("duration", took),
		slog.Int64("bytes", res.Size),
		slog.String("requestId", info.id),
		slog.String("remoteIp", info.address),
	}
	if trace := tracing.TraceID(r.Context()); trace != "" {
		attrs = append(attrs, slog.String("trace_id", trace))
	}
	if aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if failure != nil {
		f := classify(failure)
		attrs = append(attrs, slog.String("code", string(f.Kind.Code())), slog.String("error", fault.MaskSecrets(failure.Error())))
		if p, ok := errors.AsType[*panicError](failure); ok {
			attrs = append(attrs, slog.String("stack", p.stack))
		}
		// The status was sent before the failure if the response had started.
		ours = f.Kind.Status() >= http.StatusInternalServerError && !clientDisconnected(r, failure)
	}
	level := least
	if ours && !probe {
		level = slog.LevelError
	}
	logger.LogAttrs(r.Context(), level, "request", attrs...)
}

// isProbe reports whether a route is one that is requested every few seconds.
func isProbe(route string) bool { return route == "/livez" || route == "/readyz" }

// hijackWatcher marks the response as committed when its connection is hijacked,
// so that the error handler does not write to an upgraded connection.
type hijackWatcher struct {
	http.ResponseWriter
	response *echo.Response
}

// Unwrap lets http.ResponseController reach the connection.
func (w *hijackWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *hijackWatcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.response.Committed = true
		w.response.Status = http.StatusSwitchingProtocols
	}
	if c, ok := connection.(*conn); ok { // relays need the underlying connection
		c.hijacked.Store(true)
		connection = c.Conn
	}
	return connection, buffer, err
}
