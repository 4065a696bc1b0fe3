package tracing_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/shared/tracing/tracetest"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

// config returns the configuration of an environment.
func config(t *testing.T, environment ...string) tracing.Config {
	t.Helper()
	variables := map[string]string{}
	for _, each := range environment {
		name, value, _ := strings.Cut(each, "=")
		variables[name] = value
	}
	c, err := env.Parse[tracing.Config](variables)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c tracing.Config, logger *slog.Logger) *tracing.Tracing {
	t.Helper()
	traces, err := tracing.Open(t.Context(), c, "svc-worker", "1", logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := traces.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return traces
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// received returns a request with these headers.
func received(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// call sends a request with the context through the transport, and returns the
// headers that the server got.
func call(ctx context.Context, t *testing.T, traces *tracing.Tracing, status int) (header http.Header) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(status)
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/secret-path?key=secret-query", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := traces.Transport(http.DefaultTransport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return header
}

func TestTracing_PropagatesFromCallerToCallee(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=worker-0")
	collector := tracetest.New(t)
	traces := open(t, config(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL+"/", "OTEL_EXPORTER_OTLP_HEADERS=x-tenant=one, authorization = Bearer%20two "), discard())
	ctx, launch := traces.Tracer().Start(tracing.Extract(received("Traceparent", sampled, "Tracestate", "vendor=1")), "launch")
	launch.SetAttributes(attribute.Bool("warm", true), attribute.Int("version", 156), attribute.Float64("share", 0.5),
		attribute.String("name", "x"), attribute.StringSlice("cold", []string{"args"}))
	launch.RecordError(errors.New("no"))
	launch.SetStatus(codes.Error, "no")
	launch.AddLink(trace.Link{SpanContext: trace.SpanContextFromContext(tracing.Extract(received("Traceparent", sampled)))})
	header := call(tracing.WithOperation(ctx, "authorizeLaunch"), t, traces, http.StatusPaymentRequired)
	if id := tracing.TraceID(ctx); id != traceID {
		t.Errorf("the recorded trace is %q", id)
	}
	launch.End()
	if id := tracing.TraceID(ctx); id != "" {
		t.Errorf("the recorded trace is %q after its end", id)
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 2 {
		t.Fatalf("received %v", spans)
	}
	client, got := spans[0], spans[1]
	if got.Trace() != traceID || got.Parent() != spanID || got.Name != "launch" || got.TraceState != "vendor=1" || got.Kind != otlp.Span_SPAN_KIND_INTERNAL ||
		got.Service != "svc-worker" || got.Resource["service.version"] != "1" || got.Resource["k8s.pod.name"] != "worker-0" {
		t.Errorf("the span of the launch is %+v", got)
	}
	if cold := got.Attribute("cold").GetArrayValue().GetValues(); len(got.Attributes) != 5 || !got.Attribute("warm").GetBoolValue() || got.Attribute("version").GetIntValue() != 156 ||
		got.Attribute("share").GetDoubleValue() != 0.5 || got.Attribute("name").GetStringValue() != "x" || len(cold) != 1 || cold[0].GetStringValue() != "args" {
		t.Errorf("attributes %v", got.Attributes)
	}
	if len(got.Events) != 1 || got.Status.Code != otlp.Status_STATUS_CODE_ERROR || got.EndTimeUnixNano < got.StartTimeUnixNano || len(got.Links) != 1 {
		t.Errorf("span %v", got)
	}
	if client.Name != "authorizeLaunch" || client.Parent() != got.ID() || client.Trace() != traceID || client.Kind != otlp.Span_SPAN_KIND_CLIENT ||
		client.Attribute("http.response.status_code").GetIntValue() != http.StatusPaymentRequired || client.Status.Code != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the span of the call is %+v", client)
	}
	if want := "00-" + traceID + "-" + client.ID() + "-01"; header.Get("Traceparent") != want {
		t.Errorf("sent %q, want %q", header.Get("Traceparent"), want)
	}
	bodies, sent := collector.Received()
	if bytes.Contains(bodies, []byte("secret-")) {
		t.Error("the spans contain the path or the query of a request")
	}
	if sent.Get("X-Tenant") != "one" || sent.Get("Authorization") != "Bearer two" {
		t.Errorf("the collector got the headers %v", sent)
	}
}

func TestTracing_WithoutCollectorPassesCallersTrace(t *testing.T) {
	off := open(t, config(t), nil)
	ctx, span := off.Tracer().Start(t.Context(), "launch")
	if span.IsRecording() || off.Enabled() || (*tracing.Tracing)(nil).Enabled() {
		t.Error("spans are recorded without a collector")
	}
	if header := call(ctx, t, off, 200); header.Get("Traceparent") != "" {
		t.Errorf("sent %v", header)
	}
	ctx, _ = off.Tracer().Start(tracing.Extract(received("Traceparent", sampled)), "launch")
	if header := call(ctx, t, off, 200); header.Get("Traceparent") != sampled {
		t.Errorf("sent %v, want the caller's trace", header)
	}
	if id := tracing.TraceID(ctx); id != "" {
		t.Errorf("trace %q is not recorded", id)
	}
	if within, span := tracing.Start(ctx, "statement"); span != nil || within != ctx {
		t.Error("a span starts below a trace that is not recorded")
	}
}

func TestTracing_TrustsRoots(t *testing.T) {
	exports := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { exports <- r.URL.Path }))
	defer server.Close()
	c := config(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL)
	c.Roots = x509.NewCertPool()
	c.Roots.AddCert(server.Certificate())
	traces := open(t, c, discard())
	_, span := traces.Tracer().Start(t.Context(), "launch")
	span.End()
	if err := traces.Close(t.Context()); err != nil || len(exports) != 1 {
		t.Errorf("%v; %d exports", err, len(exports))
	}
}

func TestTracing_LogsUnreachableCollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var log bytes.Buffer
	lost := open(t, config(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL), slog.New(slog.NewTextHandler(&log, nil)))
	_, span := lost.Tracer().Start(t.Context(), "launch")
	span.End()
	if err := lost.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "failed to export traces") {
		t.Errorf("logged %q", &log)
	}
}

func TestExtract_IgnoresInvalidAndOversizedHeaders(t *testing.T) {
	for _, header := range []string{"", "x", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", sampled + strings.Repeat("a", 60_000)} {
		if got := trace.SpanContextFromContext(tracing.Extract(received("Traceparent", header))); got.IsValid() {
			t.Errorf("%.80s: %v", header, got)
		}
	}
	got := trace.SpanContextFromContext(tracing.Extract(received("Traceparent", sampled, "Tracestate", "a="+strings.Repeat("b", 600))))
	if !got.IsRemote() || got.TraceState().Len() != 0 {
		t.Errorf("got %v, want no trace state", got)
	}
}

// TestSampler_Decides also covers callers that choose a trace id below every ratio.
func TestSampler_Decides(t *testing.T) {
	const lowest = "00-00000000000000000000000000000001-" + spanID
	for _, test := range []struct {
		sampler, arg, parent string
		want                 bool
	}{
		{"", "", "", true},
		{"", "", lowest + "-01", true},
		{"", "", lowest + "-00", false},
		{"parentbased_always_off", "", "", false},
		{"parentbased_always_off", "", lowest + "-01", true},
		{"parentbased_traceidratio", "0", "", false},
		{"parentbased_traceidratio", "1", "", true},
		{"parentbased_traceidratio", "0", lowest + "-01", true},
		{"parentbased_traceidratio", "1", lowest + "-00", false},
		{"parentbased_traceidratio", "", "", true},
		{"traceidratio", "0", lowest + "-01", false},
		{"traceidratio", "0.5", lowest + "-00", true},
		{"always_on", "", lowest + "-00", true},
		{"always_off", "", lowest + "-01", false},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			traces := open(t, config(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+tracetest.New(t).URL, "OTEL_TRACES_SAMPLER="+test.sampler, "OTEL_TRACES_SAMPLER_ARG="+test.arg), discard())
			ctx, span := traces.Tracer().Start(tracing.Extract(received("Traceparent", test.parent)), "x")
			defer span.End()
			if span.IsRecording() != test.want {
				t.Errorf("recorded: %t, want %t", span.IsRecording(), test.want)
			}
			_, child := tracing.Start(ctx, "y")
			if (child != nil) != test.want {
				t.Errorf("the child is recorded: %t, want %t", child != nil, test.want)
			}
		})
	}
}

func TestSampler_LimitsCallersAndOthersSeparately(t *testing.T) {
	traces := open(t, config(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+tracetest.New(t).URL), discard())
	count := func(ctx context.Context) (recorded int) {
		for range 1000 {
			_, span := traces.Tracer().Start(ctx, "x")
			if span.IsRecording() {
				recorded++
			}
			span.End()
		}
		return recorded
	}
	// The limit is refilled while the loop runs.
	ctx, span := traces.Tracer().Start(t.Context(), "x")
	defer span.End()
	if got := count(tracing.Extract(received("Traceparent", sampled))); got < 100 || got > 500 {
		t.Errorf("%d traces of callers", got)
	}
	if got := count(t.Context()); got < 99 || got > 500 {
		t.Errorf("%d other traces", got)
	}
	if got := count(ctx); got != 1000 {
		t.Errorf("%d spans of a recorded trace", got)
	}
}

func TestConfig_RefusesInvalidValues(t *testing.T) {
	for _, test := range []struct{ name, value string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:p@collector"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "s3cret"}, {"OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%0a"}, {"OTEL_EXPORTER_OTLP_HEADERS", "a b=s3cret"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote"}, {"OTEL_TRACES_SAMPLER_ARG", "2"}, {"OTEL_TRACES_SAMPLER_ARG", "NaN"},
	} {
		_, err := env.Parse[tracing.Config](map[string]string{test.name: test.value})
		if err == nil || !strings.Contains(err.Error(), test.name) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s=%s: %v", test.name, test.value, err)
		}
	}
}
