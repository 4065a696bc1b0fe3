package tracing

import (
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// sampler decides which traces are recorded. Anyone can send a traceparent header,
// and choose the trace id in it, so that both the flag and the ratio of a remote
// parent are the caller's choice. Therefore the number of recorded traces per second
// is limited. Callers have a limit of their own, so that they cannot use up the
// limit of other traces.
type sampler struct {
	root        sdk.Sampler // for traces without a parent
	parentBased bool        // a remote parent decides instead of root
	callers     *rate.Limiter
	others      *rate.Limiter
}

// ShouldSample implements sdk.Sampler.
func (s *sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	var record bool
	switch {
	case !parent.IsValid():
		record = s.recordRoot(p) && s.others.Allow()
	case !parent.IsRemote():
		record = parent.IsSampled()
	case s.parentBased:
		record = parent.IsSampled() && s.callers.Allow()
	default:
		record = s.recordRoot(p) && s.callers.Allow()
	}
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	if record {
		result.Decision = sdk.RecordAndSample
	}
	return result
}

func (s *sampler) recordRoot(p sdk.SamplingParameters) bool {
	return s.root.ShouldSample(p).Decision == sdk.RecordAndSample
}

// Description implements sdk.Sampler.
func (s *sampler) Description() string { return s.root.Description() }
