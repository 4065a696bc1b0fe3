package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// otlpExporter exports spans as OTLP/HTTP JSON. The SDK's own exporter depends
// on gRPC, which would add a fifth to the memory of an idle worker.
type otlpExporter struct {
	url    string
	client *http.Client
}

// ExportSpans implements sdk.SpanExporter.
func (c otlpExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := json.Marshal(request(spans))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // allows the connection to be reused
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("trace collector: status %s", answer.Status)
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (c otlpExporter) Shutdown(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

type object = map[string]any

// request returns an ExportTraceServiceRequest. All spans of a worker share one
// resource.
func request(spans []sdk.ReadOnlySpan) object {
	if len(spans) == 0 {
		return object{}
	}
	var list []object
	for _, s := range spans {
		list = append(list, span(s))
	}
	scope := spans[0].InstrumentationScope()
	return object{"resourceSpans": []object{{
		"resource": object{"attributes": attributes(spans[0].Resource().Attributes())},
		"scopeSpans": []object{{
			"scope": object{"name": scope.Name}, "spans": list,
		}},
	}}}
}

func span(s sdk.ReadOnlySpan) object {
	o := object{
		"traceId": s.SpanContext().TraceID().String(), "spanId": s.SpanContext().SpanID().String(), "name": s.Name(),
		"kind": int(s.SpanKind()), "startTimeUnixNano": nanoseconds(s.StartTime()), "endTimeUnixNano": nanoseconds(s.EndTime()),
		"attributes": attributes(s.Attributes()),
	}
	if s.Parent().IsValid() {
		o["parentSpanId"] = s.Parent().SpanID().String()
	}
	if state := s.SpanContext().TraceState().String(); state != "" {
		o["traceState"] = state
	}
	var events []object
	for _, e := range s.Events() {
		events = append(events, object{"name": e.Name, "timeUnixNano": nanoseconds(e.Time), "attributes": attributes(e.Attributes)})
	}
	if events != nil {
		o["events"] = events
	}
	if status := s.Status(); status.Code != codes.Unset {
		o["status"] = object{"code": statusCode[status.Code], "message": status.Description}
	}
	return o
}

// statusCode maps the SDK's status codes to those of OTLP.
var statusCode = map[codes.Code]int{codes.Ok: 1, codes.Error: 2}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(of []attribute.KeyValue) []object {
	list := []object{}
	for _, a := range of {
		list = append(list, object{"key": string(a.Key), "value": value(a.Value)})
	}
	return list
}

func value(of attribute.Value) object {
	switch of.Type() {
	case attribute.BOOL:
		return object{"boolValue": of.AsBool()}
	case attribute.INT64:
		return object{"intValue": strconv.FormatInt(of.AsInt64(), 10)}
	case attribute.FLOAT64:
		return object{"doubleValue": of.AsFloat64()}
	case attribute.STRINGSLICE:
		values := []object{}
		for _, s := range of.AsStringSlice() {
			values = append(values, object{"stringValue": s})
		}
		return object{"arrayValue": object{"values": values}}
	default:
		return object{"stringValue": of.AsString()}
	}
}

var errRedirected = errors.New("the trace collector answered with a redirect, which is not followed")

func newOTLPExporter(url string) otlpExporter {
	return otlpExporter{url: url, client: &http.Client{
		Timeout:       exportTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}}
}
