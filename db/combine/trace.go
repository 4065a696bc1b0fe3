package combine

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/tracing"
)

// recordingSpan returns the span in ctx if it is being recorded, or else nil.
func recordingSpan(ctx context.Context) trace.Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// startSpan starts the span of a batch if the trace of one of its calls is being
// recorded. A span has one parent: the first of these calls. It has links to all of
// them, and the others have a link to it. The caller must call end.
func (c *Combiner[K, Q, A]) startSpan(ctx context.Context, batch []*call[Q, A]) (_ context.Context, end func(error)) {
	var callers []trace.Span
	for _, each := range batch {
		if each.span != nil {
			callers = append(callers, each.span)
		}
	}
	if len(callers) == 0 {
		return ctx, func(error) {}
	}
	links := make([]trace.Link, len(callers))
	for i, span := range callers {
		links[i].SpanContext = span.SpanContext()
	}
	ctx, span := tracing.Start(trace.ContextWithSpan(ctx, callers[0]), c.opts.Name, trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("svc.batch_size", len(batch))))
	if span == nil { // the caller has given up meanwhile
		return ctx, func(error) {}
	}
	for _, other := range callers[1:] {
		other.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "the batch failed")
		}
		span.End()
	}
}
