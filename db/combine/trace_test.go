package combine

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/shared/tracing/tracetest"
)

func TestTraces_BatchIsLinkedToItsCalls(t *testing.T) {
	collector := tracetest.New(t)
	traces, err := tracing.Open(t.Context(), tracing.Config{Endpoint: collector.URL}, "svc", "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d := newHeldCombiner()
	d.opts.Name = "double numbers"
	inner := d.Combiner.run
	d.Combiner.run = func(ctx context.Context, key uuid.UUID, batch []int) ([]int, error) {
		_, statement := tracing.Start(ctx, "statement")
		if statement != nil {
			defer statement.End()
		}
		return inner(ctx, key, batch)
	}
	release, replies := d.queueBehind(t.Context(), t, 1) // neither of these calls is recorded
	defer release()
	var requests []trace.Span
	for i, name := range []string{"first", "second"} {
		ctx, request := traces.Tracer().Start(t.Context(), name)
		requests = append(requests, request)
		go func() {
			answer, err := d.Do(ctx, d.org, i)
			replies <- reply{i, answer, err}
		}()
		d.awaitWaiting(t, i+2)
	}
	release()
	for range 4 {
		if got := <-replies; got.err != nil {
			t.Error(got.err)
		}
	}
	for _, request := range requests {
		request.End()
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	batches := collector.Named("double numbers")
	if len(batches) != 1 || len(collector.Spans()) != 4 {
		t.Fatalf("recorded %v", collector.Spans())
	}
	batch, first, second, statement := batches[0], collector.Named("first")[0], collector.Named("second")[0], collector.Named("statement")[0]
	if batch.Parent() != first.ID() || batch.Trace() != first.Trace() || statement.Parent() != batch.ID() || batch.Attribute("svc.batch_size").GetIntValue() != 3 {
		t.Errorf("the batch is %v, the statement %v", batch, statement)
	}
	if len(batch.Links) != 2 || !slices.Equal(batch.Links[0].SpanId, first.SpanId) || !slices.Equal(batch.Links[1].SpanId, second.SpanId) ||
		len(first.Links) != 0 || len(second.Links) != 1 || !slices.Equal(second.Links[0].SpanId, batch.SpanId) {
		t.Errorf("the batch has the links %v, the calls %v and %v", batch.Links, first.Links, second.Links)
	}
}
