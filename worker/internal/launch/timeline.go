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

// timeline notes what a launch gets to, and when: for its session's timeline, the
// log and a trace.
type timeline struct {
	tracer trace.Tracer
	span   trace.Span // of the whole launch

	mu    sync.Mutex
	steps []session.Step // the first is Asked
}

// beginTimeline begins the journey of a launch. What is done with the context is part
// of its trace.
func (s *Service) beginTimeline(ctx context.Context, request Request) (context.Context, *timeline) {
	now := s.Clock.Now()
	ctx, span := s.Tracer.Start(ctx, "launch", trace.WithTimestamp(now), trace.WithAttributes(attribute.Bool("svc.headless", request.Headless)))
	return ctx, &timeline{tracer: s.Tracer, span: span, steps: []session.Step{{Name: session.Asked, At: now}}}
}

// record adds a step. In the trace it lasts from the step before until then.
func (j *timeline) record(ctx context.Context, name session.StepName, at time.Time) session.Step {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.lastAt()
	if at.Before(last) { // the two were read off in different places
		at = last
	}
	_, span := j.tracer.Start(ctx, string(name), trace.WithTimestamp(last))
	span.End(trace.WithTimestamp(at))
	step := session.Step{Name: name, At: at.Truncate(time.Microsecond)}
	j.steps = append(j.steps, step)
	return step
}

// lastAt is when the last step was. The caller holds the lock.
func (j *timeline) lastAt() time.Time { return j.steps[len(j.steps)-1].At }

// snapshot returns the steps so far.
func (j *timeline) snapshot() []session.Step {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.steps)
}

// finish ends the journey of a launch that became a session.
func (j *timeline) finish(of session.Session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.span.SetAttributes(attributes(of)...)
	j.span.End(trace.WithTimestamp(j.lastAt()))
}

// failedLaunch ends the journey of a launch that came to nothing.
func (j *timeline) fail(err error, at time.Time) {
	j.span.RecordError(err, trace.WithTimestamp(at))
	j.span.SetStatus(codes.Error, err.Error())
	j.span.End(trace.WithTimestamp(at))
}

// withDefaults adds the session that followed to the trace of its launch.
func (j *timeline) recordSession(of session.Session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ctx := trace.ContextWithSpanContext(context.Background(), j.span.SpanContext())
	_, span := j.tracer.Start(ctx, "session", trace.WithTimestamp(j.lastAt()), trace.WithAttributes(attributes(of)...),
		trace.WithAttributes(attribute.String("svc.status", string(of.Status)), attribute.String("svc.end_reason", string(of.EndReason))))
	span.End(trace.WithTimestamp(of.EndedAt))
}

func attributes(of session.Session) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("svc.session_id", of.ID.String()), attribute.String("svc.launch_id", of.LaunchID.String()),
		attribute.String("svc.profile_id", of.ProfileID.String()), attribute.Int("svc.browser_version", of.BrowserVersion),
		attribute.Bool("svc.warm", of.Start.Warm), attribute.StringSlice("svc.cold_reasons", of.Start.ColdReasons),
	}
}

// LogValue implements slog.LogValuer: each step with the milliseconds since the
// launch was asked for.
func (j *timeline) LogValue() slog.Value {
	steps := j.snapshot()
	var after []slog.Attr
	for _, step := range steps[1:] {
		after = append(after, slog.Float64(string(step.Name), float64(step.At.Sub(steps[0].At).Microseconds())/1000))
	}
	return slog.GroupValue(after...)
}
