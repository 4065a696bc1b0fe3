package launch_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func stepNames(steps []session.Step) (names []session.StepName) {
	for _, step := range steps {
		names = append(names, step.Name)
	}
	return names
}

func TestTimeline_IsInSessionLogAndTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	var log bytes.Buffer
	r := newFixture(t, func(o *launch.Options) {
		o.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	s := r.launch(t, byProfile())
	want := []session.StepName{session.Asked, session.Authorized, session.Started, session.Answered, session.Ready, session.Reported}
	if diff := cmp.Diff(want, stepNames(s.Timeline)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	for i, step := range s.Timeline[1:] {
		if step.At.Before(s.Timeline[i].At) {
			t.Errorf("%s is before %s", step.Name, s.Timeline[i].Name)
		}
	}
	ended, err := r.Kill(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if last := ended.Timeline[len(ended.Timeline)-1]; last.Name != session.Ended || !last.At.Equal(ended.EndedAt) || len(ended.Timeline) != len(want)+1 {
		t.Errorf("the ended session has the timeline %v", ended.Timeline)
	}
	if logged := log.String(); !strings.Contains(logged, `msg="session started"`) || !strings.Contains(logged, "after.authorized=") || !strings.Contains(logged, "after.reported=") {
		t.Errorf("logged\n%s", logged)
	}
	var traced []session.StepName
	root := spans.Ended()[5]
	for _, span := range spans.Ended() {
		traced = append(traced, session.StepName(span.Name()))
		if span.SpanContext().TraceID() != root.SpanContext().TraceID() || span != root && span.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s is not in the trace of the launch", span.Name())
		}
	}
	if diff := cmp.Diff(append(want[1:], "launch", "session"), traced); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if !root.StartTime().Equal(s.Timeline[0].At) || !root.EndTime().Equal(s.Timeline[5].At) {
		t.Errorf("the trace of the launch is from %v to %v, its timeline is %v", root.StartTime(), root.EndTime(), s.Timeline)
	}
}

func TestTimeline_RecordsFailedLaunch(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	r := newFixture(t, func(o *launch.Options) { o.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test") })
	r.cloud.refusal = fault.New(fault.PaymentRequired, "no")
	_, err := r.Launch(t.Context(), byProfile())
	assertKind(t, err, fault.PaymentRequired)
	if all := spans.Ended(); len(all) != 1 || all[0].Name() != "launch" || all[0].Status().Code != codes.Error {
		t.Errorf("traced %v", all)
	}
}
