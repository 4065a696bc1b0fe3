package httpd

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/tracing"
)

// traceRequest continues the trace of the caller (the traceparent header) and records
// a span for each request of an operation. The span has the route instead of the path
// and no query, because both may contain secrets. Probes have no span, and neither
// have upgraded connections, which last for hours.
func traceRequest(traces *tracing.Tracing, document Document) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			ctx := tracing.Extract(r)
			operation := ""
			if traces.Enabled() && document != nil && r.Header.Get("Upgrade") == "" && !isProbe(c.Path()) {
				operation = document.OperationID(r.Method, c.Path())
			}
			if operation == "" {
				if ctx != r.Context() {
					c.SetRequest(r.WithContext(ctx))
				}
				return next(c)
			}
			ctx, span := traces.Tracer().Start(ctx, operation, trace.WithSpanKind(trace.SpanKindServer))
			c.SetRequest(r.WithContext(ctx))
			if !span.IsRecording() {
				return next(c)
			}
			defer func() { // also when the response is aborted
				status := c.Response().Status
				span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", c.Path()),
					attribute.Int("http.response.status_code", status), attribute.String("svc.request_id", RequestID(ctx)))
				if status >= http.StatusInternalServerError {
					span.SetStatus(codes.Error, http.StatusText(status))
				}
				span.End()
			}()
			return next(c)
		}
	}
}
