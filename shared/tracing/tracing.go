// Package tracing exports traces to an OpenTelemetry collector and joins the traces
// of callers (W3C Trace Context).
//
// Code that adds spans to the trace of its caller needs no configuration: it takes
// the tracer from the caller's span, see Start.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
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

// scope is the instrumentation scope of all spans.
const scope = "github.com/browser-svc/svc"

// Open exports the named service's traces to the configured collector. Without an
// endpoint, tracing is disabled. The caller must call Close. If the collector is
// unreachable, traces are lost. Standard variables that are not in config, such as
// OTEL_RESOURCE_ATTRIBUTES and OTEL_BSP_SCHEDULE_DELAY, are read from the environment.
func Open(ctx context.Context, config Config, service, version string, logger *slog.Logger) (*Tracing, error) {
	if config.Endpoint == "" {
		return &Tracing{}, nil
	}
	sampler, err := config.sampler()
	if err != nil {
		return nil, err
	}
	headers, err := config.headers()
	if err != nil {
		return nil, err
	}
	attributes, err := resource.Merge(
		resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	logger.InfoContext(ctx, "exporting traces", "collector", config.Endpoint, "sampler", config.Sampler, "limit", traceLimit)
	exporter := loggingExporter{newOTLPExporter(config.Endpoint, headers, config.Roots), logger}
	return &Tracing{provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithSampler(sampler), sdk.WithResource(attributes))}, nil
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

// Enabled reports whether spans are recorded. A nil Tracing is disabled.
func (t *Tracing) Enabled() bool { return t != nil && t.provider != nil }

// Tracer returns the tracer of the program.
func (t *Tracing) Tracer() trace.Tracer {
	if !t.Enabled() {
		return noop.Tracer{}
	}
	return t.provider.Tracer(scope)
}

// Close exports the pending traces until ctx is done, and stops tracing.
func (t *Tracing) Close(ctx context.Context) error {
	if !t.Enabled() {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	return nil
}

// Start starts a span below the recording span in ctx. Without one, it returns ctx
// and nil, at the cost of looking for it.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// TraceID returns the id of the trace in ctx that is being recorded; empty if there
// is none.
func TraceID(ctx context.Context) string {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return ""
	}
	return span.SpanContext().TraceID().String()
}

// maxTraceState is the length of the longest tracestate header that is propagated,
// the minimum that W3C Trace Context asks for. Each span is exported with it.
const maxTraceState = 512

// Extract returns the request's context with the trace of its traceparent header.
func Extract(r *http.Request) context.Context {
	if r.Header.Get("Traceparent") == "" {
		return r.Context()
	}
	header := http.Header{"Traceparent": r.Header["Traceparent"]}
	if state := r.Header.Get("Tracestate"); len(state) <= maxTraceState {
		header.Set("Tracestate", state)
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(header))
}

type operationKey struct{}

// WithOperation returns a context whose requests are named in traces: operation is
// the operationId of the called API.
func WithOperation(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, operationKey{}, operation)
}

// Operation returns the operation of WithOperation; empty without one.
func Operation(ctx context.Context) string {
	operation, _ := ctx.Value(operationKey{}).(string)
	return operation
}

// Transport returns a transport that records a span for each request, until its
// answer begins, and sends the trace context. The spans contain neither the path nor
// the query of the request.
func (t *Tracing) Transport(through http.RoundTripper) http.RoundTripper {
	return tracingTransport{through, t.Tracer()}
}

type tracingTransport struct {
	http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip implements http.RoundTripper.
func (p tracingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := p.tracer.Start(r.Context(), cmp.Or(Operation(r.Context()), r.Method), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if trace.SpanContextFromContext(ctx).IsValid() {
		r = r.Clone(ctx)
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	}
	answer, err := p.RoundTripper.RoundTrip(r)
	if !span.IsRecording() {
		return answer, err
	}
	span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname()))
	if err != nil {
		span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
		span.SetStatus(codes.Error, "no answer")
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", answer.StatusCode))
	if answer.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, answer.Status)
	}
	return answer, nil
}
