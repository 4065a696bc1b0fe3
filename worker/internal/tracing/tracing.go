// Package tracing exports traces of launches to an OpenTelemetry collector and
// joins the traces of callers (W3C Trace Context).
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing exports traces. The zero value exports nothing.
type Tracing struct {
	provider *sdk.TracerProvider
}

// exportTimeout is the timeout of one export.
const exportTimeout = 10 * time.Second

// Open exports the named service's traces to a collector, such as
// http://localhost:4318, by OTLP over HTTP. An empty endpoint disables tracing.
// The caller must call Close. If the collector is unreachable, traces are lost.
func Open(ctx context.Context, endpoint, service, version string, logger *slog.Logger) *Tracing {
	if endpoint == "" {
		return &Tracing{}
	}
	logger.InfoContext(ctx, "exporting launch traces", "collector", endpoint)
	exporter := newOTLPExporter(strings.TrimSuffix(endpoint, "/") + "/v1/traces")
	attrs := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	return &Tracing{provider: sdk.NewTracerProvider(sdk.WithBatcher(loggingExporter{exporter, logger}), sdk.WithResource(attrs))}
}

// loggingExporter logs failed exports. The SDK reports them only to a global
// handler.
type loggingExporter struct {
	sdk.SpanExporter
	logger *slog.Logger
}

// ExportSpans implements sdk.SpanExporter.
func (t loggingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := t.SpanExporter.ExportSpans(ctx, spans); err != nil {
		t.logger.WarnContext(ctx, "failed to export traces", "spans", len(spans), "error", err)
	}
	return nil
}

// Tracer returns the tracer of the worker.
func (t *Tracing) Tracer() trace.Tracer {
	if t.provider == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer("github.com/browser-svc/svc/worker")
}

// Close exports the pending traces until ctx is done, and stops tracing.
func (t *Tracing) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	return nil
}

// Middleware continues the trace in a request's traceparent header.
func Middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.Header.Get("Traceparent") != "" {
			ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			c.SetRequest(r.WithContext(ctx))
		}
		return next(c)
	}
}

// Transport returns a transport that sends the trace context of each request.
func Transport(through http.RoundTripper) http.RoundTripper { return tracingTransport{through} }

type tracingTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p tracingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(r.Context()).IsValid() {
		r = r.Clone(r.Context())
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	}
	return p.RoundTripper.RoundTrip(r)
}
