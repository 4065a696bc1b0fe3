// Package tracing sends traces of launches to an OpenTelemetry collector, and
// makes them part of the traces of who asks (W3C Trace Context).
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

// Tracing is where traces go. The zero value traces nothing.
type Tracing struct {
	provider *sdk.TracerProvider
}

// exportTimeout bounds one delivery.
const exportTimeout = 10 * time.Second

// Open sends traces of the named service by OTLP over HTTP to a collector, such
// as http://localhost:4318; to none when that is empty. Close must follow. A
// collector that is away costs traces, and nothing else.
func Open(ctx context.Context, endpoint, service, version string, logger *slog.Logger) *Tracing {
	if endpoint == "" {
		return &Tracing{}
	}
	logger.InfoContext(ctx, "launches are traced", "collector", endpoint)
	exporter := newOTLPExporter(strings.TrimSuffix(endpoint, "/") + "/v1/traces")
	about := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	return &Tracing{provider: sdk.NewTracerProvider(sdk.WithBatcher(loggingExporter{exporter, logger}), sdk.WithResource(about))}
}

// loggingExporter logs what the collector did not take. The library tells a global.
type loggingExporter struct {
	sdk.SpanExporter
	logger *slog.Logger
}

// ExportSpans implements sdk.SpanExporter.
func (t loggingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := t.SpanExporter.ExportSpans(ctx, spans); err != nil {
		t.logger.WarnContext(ctx, "traces not delivered", "spans", len(spans), "error", err)
	}
	return nil
}

// Tracer makes spans.
func (t *Tracing) Tracer() trace.Tracer {
	if t.provider == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer("github.com/browser-svc/svc/worker")
}

// Close delivers what waits, as long as ctx allows, and ends tracing.
func (t *Tracing) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	return nil
}

// Middleware is middleware that makes what a request causes part of the trace that its
// traceparent names.
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

// Transport returns a transport that names the trace of a request's context to the
// server.
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
