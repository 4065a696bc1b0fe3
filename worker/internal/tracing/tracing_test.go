package tracing_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/browser-svc/svc/worker/internal/tracing"
)

// sink is a collector that keeps the spans it gets.
type sink struct {
	mu    sync.Mutex
	spans map[string]string // name -> trace id, parent's span id
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not spans", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				s.spans[span.Name] = hex(span.TraceId) + " " + hex(span.ParentSpanId)
			}
		}
	}
}

func hex(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestALaunchIsPartOfTheTraceOfWhoAsksAndTheCloudHearsOfIt(t *testing.T) {
	s := &sink{spans: map[string]string{}}
	server := httptest.NewServer(s)
	defer server.Close()
	traces, err := tracing.Open(t.Context(), server.URL, "svc-worker", "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var passed string
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r.Header.Get("Traceparent") }))
	defer cloud.Close()
	web := echo.New()
	web.Use(tracing.Join)
	var span string
	web.POST("/", func(c echo.Context) error {
		ctx, launch := traces.Tracer().Start(c.Request().Context(), "launch")
		defer launch.End()
		span = launch.SpanContext().SpanID().String()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cloud.URL, nil)
		answer, err := tracing.Pass(http.DefaultTransport).RoundTrip(r)
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
		t.Errorf("the span is of %q", got)
	}
	if want := "00-" + traceID + "-" + span + "-01"; passed != want {
		t.Errorf("the cloud was told %q, want %q", passed, want)
	}
}

func TestWithoutACollectorNothingIsTracedAndNothingIsAddedToRequests(t *testing.T) {
	off, err := tracing.Open(t.Context(), "", "svc-worker", "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := off.Tracer().Start(t.Context(), "launch")
	if span.IsRecording() {
		t.Error("it records")
	}
	var header http.Header
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	defer cloud.Close()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cloud.URL, nil)
	answer, err := tracing.Pass(http.DefaultTransport).RoundTrip(r)
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

func TestACollectorThatIsAwayIsLogged(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var log bytes.Buffer
	lost, err := tracing.Open(t.Context(), server.URL, "svc-worker", "1", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := lost.Tracer().Start(t.Context(), "launch")
	span.End()
	if err := lost.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "traces not delivered") {
		t.Errorf("logged %q", &log)
	}
}
