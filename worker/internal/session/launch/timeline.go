package launch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/worker/internal/session"
)

// timeline records the steps of a launch and their times, for the session, the log
// and the trace.
type timeline struct {
	tracer trace.Tracer
	span   trace.Span // of the complete launch

	metrics *Metrics
	start   startKind // used by the launch only

	mu    sync.Mutex
	steps []session.Step // the first is Asked
}

// beginTimeline starts the timeline and the trace of a launch that was received at that
// time. The returned context carries the trace.
func (s *Service) beginTimeline(ctx context.Context, request Request, timestamp time.Time) (context.Context, *timeline) {
	ctx, span := s.Tracer.Start(ctx, "launch", trace.WithTimestamp(timestamp), trace.WithAttributes(attribute.Bool("svc.headless", request.Headless)))
	return ctx, &timeline{tracer: s.Tracer, span: span, metrics: s.Metrics, start: noStart, steps: []session.Step{{Name: session.Asked, At: timestamp}}}
}

// record adds a step. Its span lasts from the previous step to this one.
func (t *timeline) record(ctx context.Context, name session.StepName, timestamp time.Time) session.Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.lastAt()
	if timestamp.Before(last) { // the times come from different processes, or a warm browser did the step before
		timestamp = last
	} else {
		t.metrics.observeStep(ctx, string(name), timestamp.Sub(last))
	}
	_, span := t.tracer.Start(ctx, string(name), trace.WithTimestamp(last))
	span.End(trace.WithTimestamp(timestamp))
	step := session.Step{Name: name, At: timestamp.Truncate(time.Microsecond)}
	t.steps = append(t.steps, step)
	return step
}

// lastAt returns the time of the last step. The caller holds the lock.
func (t *timeline) lastAt() time.Time { return t.steps[len(t.steps)-1].At }

// snapshot returns a copy of the steps.
func (t *timeline) snapshot() []session.Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.steps)
}

// finish ends the trace of a successful launch.
func (t *timeline) finish(ctx context.Context, launched session.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.metrics.observeStep(ctx, totalStep, t.lastAt().Sub(t.steps[0].At))
	t.span.SetAttributes(attributes(launched)...)
	t.span.End(trace.WithTimestamp(t.lastAt()))
}

// fail ends the trace of a failed launch.
func (t *timeline) fail(err error, timestamp time.Time) {
	t.span.RecordError(err, trace.WithTimestamp(timestamp))
	t.span.SetStatus(codes.Error, err.Error())
	t.span.End(trace.WithTimestamp(timestamp))
}

// recordSession adds a span for the ended session to the trace of its launch.
func (t *timeline) recordSession(ended session.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx := trace.ContextWithSpanContext(context.Background(), t.span.SpanContext())
	_, span := t.tracer.Start(ctx, "session", trace.WithTimestamp(t.lastAt()), trace.WithAttributes(attributes(ended)...),
		trace.WithAttributes(attribute.String("svc.status", string(ended.Status)), attribute.String("svc.end_reason", string(ended.EndReason))))
	span.End(trace.WithTimestamp(ended.EndedAt))
}

func attributes(s session.Session) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("svc.session_id", s.ID.String()), attribute.String("svc.launch_id", s.LaunchID.String()),
		attribute.String("svc.profile_id", s.ProfileID.String()), attribute.Int("svc.browser_version", s.BrowserVersion),
		attribute.Bool("svc.warm", s.Start.Warm), attribute.StringSlice("svc.cold_reasons", s.Start.ColdReasons),
	}
}

// LogValue implements slog.LogValuer: each step with the milliseconds since the
// request.
func (t *timeline) LogValue() slog.Value {
	steps := t.snapshot()
	var sinceRequest []slog.Attr
	for _, step := range steps[1:] {
		sinceRequest = append(sinceRequest, slog.Float64(string(step.Name), float64(step.At.Sub(steps[0].At).Microseconds())/1000))
	}
	return slog.GroupValue(sinceRequest...)
}
