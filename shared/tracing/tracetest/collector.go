// Package tracetest is a trace collector for tests.
package tracetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Service  string // service.name of its resource
	Resource map[string]string
	*otlp.Span
}

// Trace returns the id of the trace, in hexadecimal like the other ids.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// ID returns the id of the span.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Parent returns the id of the parent span; empty for a root.
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Attribute returns an attribute; nil if the span does not have it.
func (s Span) Attribute(key string) *common.AnyValue {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// Collector is an OTLP receiver that keeps all spans.
type Collector struct {
	URL string

	mu      sync.Mutex
	spans   []Span
	headers http.Header // of the last request
	bodies  []byte      // everything received
}

// New starts a collector, which is stopped at the end of the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "not an export of traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header
	c.bodies = append(c.bodies, body...)
	for _, group := range request.ResourceSpans {
		resource := map[string]string{}
		for _, a := range group.Resource.GetAttributes() {
			resource[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range group.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, Span{resource["service.name"], resource, span})
			}
		}
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// Spans returns the received spans, in order of arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named returns the received spans with this name.
func (c *Collector) Named(name string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Name != name })
}

// Received returns all request bodies and the headers of the last request.
func (c *Collector) Received() ([]byte, http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bodies), c.headers.Clone()
}
