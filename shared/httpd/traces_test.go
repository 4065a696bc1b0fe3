package httpd_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/shared/tracing/tracetest"
)

// operations are the operations of document.
var operations = map[string]string{"GET /v1/plans/:id": "getPlan", "GET /v1/broken": "getBroken", "GET /v1/aborted": "getAborted", "GET /readyz": "getReadiness", "GET /v1/socket": "connect"}

const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
	traceparent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

func TestTraces_RecordOperationsWithoutSecrets(t *testing.T) {
	collector := tracetest.New(t)
	traces, err := tracing.Open(t.Context(), tracing.Config{Endpoint: collector.URL}, "svc", "1", (&testLog{}).logger())
	if err != nil {
		t.Fatal(err)
	}
	e, book := newServer(t, httpd.Options{Document: document{}, Traces: traces})
	answer := func(c echo.Context) error { return c.String(200, tracing.TraceID(c.Request().Context())) }
	for _, route := range []string{"/v1/plans/:id", "/readyz", "/v1/socket", "/v1/unknown"} {
		e.GET(route, answer)
	}
	e.GET("/v1/broken", func(echo.Context) error { panic("secret-panic") })
	e.GET("/v1/aborted", func(echo.Context) error { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(e)
	defer server.Close()
	get := func(path string, header ...string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
		}
		return book.lastRequest(t)
	}
	if line := get("/v1/plans/secret-path?key=secret-query", "Traceparent", traceparent, "X-Api-Key", "secret-key", "X-Request-Id", "request-1"); line["trace_id"] != callerTrace {
		t.Errorf("the access log has %v", line)
	}
	if line := get("/v1/broken"); len(line["trace_id"].(string)) != 32 {
		t.Errorf("the access log has %v", line)
	}
	get("/v1/aborted")
	for path, header := range map[string]string{"/readyz": "X-None", "/v1/unknown": "X-None", "/v1/nothing": "X-None", "/v1/socket": "Upgrade"} {
		if line := get(path, "Traceparent", traceparent, header, "websocket"); line["trace_id"] != nil {
			t.Errorf("%s is recorded: %v", path, line)
		}
	}
	if line := get("/v1/plans/1", "Traceparent", strings.TrimSuffix(traceparent, "1")+"0"); line["trace_id"] != nil {
		t.Errorf("recorded although the caller does not record: %v", line)
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 3 {
		t.Fatalf("recorded %v", spans)
	}
	plan, broken, aborted := spans[0], spans[1], spans[2]
	if plan.Name != "getPlan" || plan.Trace() != callerTrace || plan.Parent() != callerSpan || plan.Kind != otlp.Span_SPAN_KIND_SERVER ||
		plan.Attribute("http.route").GetStringValue() != "/v1/plans/:id" || plan.Attribute("http.request.method").GetStringValue() != "GET" ||
		plan.Attribute("http.response.status_code").GetIntValue() != 200 || plan.Attribute("svc.request_id").GetStringValue() != "request-1" || len(plan.Attributes) != 4 {
		t.Errorf("the span is %+v", plan)
	}
	if broken.Name != "getBroken" || broken.Parent() != "" || broken.Status.Code != otlp.Status_STATUS_CODE_ERROR || broken.Attribute("http.response.status_code").GetIntValue() != 500 {
		t.Errorf("the span of a failure is %+v", broken)
	}
	if aborted.Name != "getAborted" || aborted.EndTimeUnixNano == 0 {
		t.Errorf("the span of an aborted response is %+v", aborted)
	}
	if bodies, _ := collector.Received(); bytes.Contains(bodies, []byte("secret-")) {
		t.Error("a secret is in the spans")
	}
}

// TestTraces_WithoutCollectorKeepCallersTrace covers a worker that records nothing
// and passes the caller's trace on to the cloud.
func TestTraces_WithoutCollectorKeepCallersTrace(t *testing.T) {
	off := &tracing.Tracing{}
	e, book := newServer(t, httpd.Options{Document: document{}, Traces: off})
	var sent string
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Traceparent") }))
	defer cloud.Close()
	e.GET("/v1/plans/:id", func(c echo.Context) error {
		r, err := http.NewRequestWithContext(c.Request().Context(), http.MethodGet, cloud.URL, nil)
		if err != nil {
			return err
		}
		answer, err := off.Transport(http.DefaultTransport).RoundTrip(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
	do(e, "GET", "/v1/plans/1", "Traceparent", traceparent)
	if line := book.lastRequest(t); sent != traceparent || line["trace_id"] != nil {
		t.Errorf("sent %q; the access log has %v", sent, line)
	}
}
