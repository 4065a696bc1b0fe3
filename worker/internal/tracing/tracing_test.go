package tracing_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/browser-svc/svc/worker/internal/tracing"
)

// fakeCollector is a trace collector that records spans.
type fakeCollector struct {
	mu    sync.Mutex
	spans map[string]string // name -> trace id, parent's span id
	last  *trace.Span
}

func (s *fakeCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err := protojson.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not spans", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				s.last = span
				s.spans[span.Name] = id(span.TraceId) + " " + id(span.ParentSpanId)
			}
		}
	}
}

// id converts an id: OTLP JSON has ids in hexadecimal, other JSON encodings of
// protocol buffers in base64.
func id(of []byte) string { return base64.StdEncoding.EncodeToString(of) }

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestTracing_PropagatesFromClientToCloud(t *testing.T) {
	s := &fakeCollector{spans: map[string]string{}}
	server := httptest.NewServer(s)
	defer server.Close()
	traces := tracing.Open(t.Context(), server.URL, "svc-worker", "1", slog.New(slog.DiscardHandler))
	var passed string
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r.Header.Get("Traceparent") }))
	defer cloud.Close()
	web := echo.New()
	web.Use(tracing.Middleware)
	var span string
	web.POST("/", func(c echo.Context) error {
		ctx, launch := traces.Tracer().Start(c.Request().Context(), "launch")
		defer launch.End()
		launch.SetAttributes(attribute.Bool("warm", true), attribute.Int("version", 156), attribute.Float64("share", 0.5),
			attribute.String("name", "x"), attribute.StringSlice("cold", []string{"args"}))
		launch.RecordError(errors.New("no"))
		launch.SetStatus(codes.Error, "no")
		span = launch.SpanContext().SpanID().String()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cloud.URL, nil)
		answer, err := tracing.Transport(http.DefaultTransport).RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	})
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Traceparent", "00-"+traceID+"-"+spanID+"-01")
	web.ServeHTTP(httptest.NewRecorder(), r)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.spans["launch"]; got != traceID+" "+spanID {
		t.Errorf("the span has the service %q", got)
	}
	attrs := map[string]*common.AnyValue{}
	for _, a := range s.last.Attributes {
		attrs[a.Key] = a.Value
	}
	if cold := attrs["cold"].GetArrayValue().GetValues(); len(attrs) != 5 || !attrs["warm"].GetBoolValue() || attrs["version"].GetIntValue() != 156 ||
		attrs["share"].GetDoubleValue() != 0.5 || attrs["name"].GetStringValue() != "x" || len(cold) != 1 || cold[0].GetStringValue() != "args" {
		t.Errorf("attributes %v", attrs)
	}
	if len(s.last.Events) != 1 || s.last.Status.Code != trace.Status_STATUS_CODE_ERROR || s.last.EndTimeUnixNano < s.last.StartTimeUnixNano {
		t.Errorf("span %v", s.last)
	}
	if want := "00-" + traceID + "-" + span + "-01"; passed != want {
		t.Errorf("the cloud got the trace context %q, want %q", passed, want)
	}
}

func TestTracing_WithoutCollectorIsDisabled(t *testing.T) {
	off := tracing.Open(t.Context(), "", "svc-worker", "1", nil)
	ctx, span := off.Tracer().Start(t.Context(), "launch")
	if span.IsRecording() {
		t.Error("a span is recorded without a collector")
	}
	var header http.Header
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	defer cloud.Close()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cloud.URL, nil)
	answer, err := tracing.Transport(http.DefaultTransport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if header.Get("Traceparent") != "" {
		t.Errorf("sent %v", header)
	}
	if err := off.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestTracing_LogsUnreachableCollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var log bytes.Buffer
	lost := tracing.Open(t.Context(), server.URL, "svc-worker", "1", slog.New(slog.NewTextHandler(&log, nil)))
	_, span := lost.Tracer().Start(t.Context(), "launch")
	span.End()
	if err := lost.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "failed to export traces") {
		t.Errorf("logged %q", &log)
	}
}
