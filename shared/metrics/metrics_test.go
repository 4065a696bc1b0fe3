package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/metrics/metricstest"
	"github.com/browser-svc/svc/shared/testenv"
)

var discard = slog.New(slog.DiscardHandler)

func ask(t *testing.T, handler http.Handler, headers ...string) (status int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, metrics.Path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.String()
}

func TestRegister_RequiresTokenOrKey(t *testing.T) {
	accepts := func(secret string) bool { return secret == "the key" }
	for _, test := range []struct {
		name    string
		config  metrics.Config
		accepts func(string) bool
		headers []string
		status  int
		says    string
	}{
		{"right token", metrics.Config{Token: "secret"}, nil, []string{"Authorization", "Bearer secret"}, 200, "go_goroutines"},
		{"lower case scheme", metrics.Config{Token: "secret"}, nil, []string{"Authorization", "bearer secret"}, 200, "go_goroutines"},
		{"no token", metrics.Config{Token: "secret"}, nil, nil, 401, "METRICS_TOKEN"},
		{"wrong token", metrics.Config{Token: "secret"}, nil, []string{"Authorization", "Bearer secret2"}, 401, "invalid"},
		{"another scheme", metrics.Config{Token: "secret"}, nil, []string{"Authorization", "Basic secret"}, 401, "METRICS_TOKEN"},
		{"token as key", metrics.Config{Token: "secret"}, accepts, []string{"X-API-Key", "secret"}, 401, "invalid"},
		{"empty token, none configured", metrics.Config{}, nil, []string{"Authorization", "Bearer "}, 401, "METRICS_ADDR"},
		{"none configured", metrics.Config{}, nil, []string{"Authorization", "Bearer x"}, 401, "METRICS_ADDR"},
		{"key", metrics.Config{}, accepts, []string{"X-API-Key", "the key"}, 200, "go_goroutines"},
		{"key as token", metrics.Config{Token: "secret"}, accepts, []string{"Authorization", "Bearer the key"}, 200, "go_goroutines"},
		{"wrong key", metrics.Config{Token: "secret"}, accepts, []string{"X-API-Key", "other"}, 401, "invalid"},
		{"own address", metrics.Config{Token: "secret", Address: ":9090"}, accepts, []string{"Authorization", "Bearer secret"}, 404, "RESOURCE_NOT_FOUND"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := httpd.New(httpd.Options{})
			test.config.Register(e, metrics.NewHandler(metrics.NewRegistry(), discard), test.accepts)
			status, text := ask(t, e, test.headers...)
			if status != test.status || !strings.Contains(text, test.says) {
				t.Errorf("got %d %.200s, want %d with %q", status, text, test.status, test.says)
			}
		})
	}
}

func TestConfig_RefusesInvalidAddress(t *testing.T) {
	for address, valid := range map[string]bool{
		"": true, ":9090": true, "127.0.0.1:9090": true, "[::1]:9090": true,
		"9090": false, ":": false, ":0": false, ":65536": false, "localhost": false, ":http": false,
	} {
		err := metrics.Config{Address: address}.Validate()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "METRICS_ADDR") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestStart_ServesUntilStopped(t *testing.T) {
	config := metrics.Config{Address: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))}
	handler := metrics.NewHandler(metrics.NewRegistry(), discard)
	ctx, cancel := context.WithCancel(t.Context())
	stop, err := config.Start(ctx, handler, discard)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // a program that shuts down is still scraped
	get := func(path string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+config.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text
	}
	status, text := get(metrics.Path)
	if status != http.StatusOK {
		t.Fatalf("got %d", status)
	}
	metricstest.Parse(t, text).Value(t, "go_goroutines")
	if status, _ := get("/"); status != http.StatusNotFound {
		t.Errorf("another path got %d", status)
	}
	if _, err := config.Start(t.Context(), handler, discard); err == nil || !strings.Contains(err.Error(), "METRICS_ADDR") {
		t.Errorf("the same address again: %v", err)
	}
	stop()
	if status, _ := get(metrics.Path); status != 0 {
		t.Errorf("after the stop: got %d", status)
	}
}

func TestObserve_AddsRecordedTraceAsExemplar(t *testing.T) {
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()))
	recorded, span := provider.Tracer("test").Start(t.Context(), "request")
	unsampled, _ := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("test").Start(t.Context(), "request")
	foreign := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	id := span.SpanContext().TraceID().String()
	span.End() // the exemplar is added when the request is over
	for name, test := range map[string]struct {
		ctx  context.Context
		want bool
	}{"recorded": {recorded, true}, "not sampled": {unsampled, false}, "of a caller only": {foreign, false}, "none": {t.Context(), false}} {
		histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "test_seconds", Help: "Test.", Buckets: []float64{1}})
		metrics.Observe(test.ctx, histogram, 250*time.Millisecond)
		registry := prometheus.NewRegistry()
		registry.MustRegister(histogram)
		handler := metrics.NewHandler(registry, discard)
		_, text := ask(t, handler, "Accept", "application/openmetrics-text;version=1.0.0")
		if got := strings.Contains(text, `test_seconds_bucket{le="1.0"} 1 # {trace_id="`+id+`"} 0.25`); got != test.want {
			t.Errorf("%s: exemplar is %v:\n%s", name, got, text)
		}
		if !strings.Contains(text, "test_seconds_sum 0.25") {
			t.Errorf("%s: no observation:\n%s", name, text)
		}
	}
}

// failing is a collector that fails.
type failing struct{ desc *prometheus.Desc }

func (f failing) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }
func (f failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(f.desc, fault.New(fault.Unavailable, "down"))
}

func TestHandler_ServesOtherMetricsIfCollectorFails(t *testing.T) {
	registry := metrics.NewRegistry()
	registry.MustRegister(failing{prometheus.NewDesc("test_state", "Test.", nil, nil)})
	var log strings.Builder
	status, text := ask(t, metrics.NewHandler(registry, slog.New(slog.NewTextHandler(&log, nil))))
	if status != http.StatusOK || !strings.Contains(text, "go_goroutines") || !strings.Contains(log.String(), "down") {
		t.Errorf("got %d, logged %s", status, log.String())
	}
}

func TestBuildInfo_HasVersions(t *testing.T) {
	registry := metrics.NewRegistry()
	registry.MustRegister(metrics.NewBuildInfo("svc_test", "1.2.3", "4.5.6"))
	e := echo.New()
	metrics.Config{Token: "x"}.Register(e, metrics.NewHandler(registry, discard), nil)
	_, text := ask(t, e, "Authorization", "Bearer x")
	scrape := metricstest.Parse(t, []byte(text))
	scrape.Lint(t)
	if !strings.Contains(text, `contract_version="4.5.6"`) || !strings.Contains(text, `,version="1.2.3"} 1`) {
		t.Errorf("got %s", text)
	}
}
