package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpExporter exports spans by OTLP over HTTP, in protocol buffers. The SDK's own
// exporter depends on gRPC, which would add a fifth to the memory of an idle worker.
type otlpExporter struct {
	url     string
	headers http.Header
	client  *http.Client
}

var errRedirected = errors.New("the trace collector answered with a redirect, which is not followed")

func newOTLPExporter(endpoint string, headers http.Header, roots *x509.CertPool) otlpExporter {
	headers = headers.Clone()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	headers.Set("Content-Type", "application/x-protobuf")
	return otlpExporter{url: strings.TrimSuffix(endpoint, "/") + "/v1/traces", headers: headers, client: &http.Client{
		Timeout:       exportTimeout,
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}}
}

// ExportSpans implements sdk.SpanExporter.
func (c otlpExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(toOTLP(spans))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.headers.Clone()
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

// toOTLP returns the spans as TracesData, which is encoded as an
// ExportTraceServiceRequest is; the package of that type depends on gRPC. All spans
// of a program have the same resource and scope.
func toOTLP(spans []sdk.ReadOnlySpan) *tracepb.TracesData {
	if len(spans) == 0 {
		return &tracepb.TracesData{}
	}
	list := make([]*tracepb.Span, len(spans))
	for i, s := range spans {
		list[i] = spanToOTLP(s)
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: attributesToOTLP(spans[0].Resource().Attributes())},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: spans[0].InstrumentationScope().Name}, Spans: list,
		}},
	}}}
}

func spanToOTLP(s sdk.ReadOnlySpan) *tracepb.Span {
	id := s.SpanContext()
	span := &tracepb.Span{
		TraceId: traceID(id), SpanId: spanID(id), TraceState: id.TraceState().String(), Flags: flags(id, s.Parent()), Name: s.Name(),
		Kind:              tracepb.Span_SpanKind(s.SpanKind()),
		StartTimeUnixNano: nanoseconds(s.StartTime()), EndTimeUnixNano: nanoseconds(s.EndTime()),
		Attributes: attributesToOTLP(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
		DroppedEventsCount: uint32(s.DroppedEvents()), DroppedLinksCount: uint32(s.DroppedLinks()),
		Status: &tracepb.Status{Code: statusCode[s.Status().Code], Message: s.Status().Description},
	}
	if s.Parent().IsValid() {
		span.ParentSpanId = spanID(s.Parent())
	}
	for _, e := range s.Events() {
		span.Events = append(span.Events, &tracepb.Span_Event{
			Name: e.Name, TimeUnixNano: nanoseconds(e.Time), Attributes: attributesToOTLP(e.Attributes),
		})
	}
	for _, l := range s.Links() {
		span.Links = append(span.Links, &tracepb.Span_Link{
			TraceId: traceID(l.SpanContext), SpanId: spanID(l.SpanContext), TraceState: l.SpanContext.TraceState().String(),
			Attributes: attributesToOTLP(l.Attributes), Flags: flags(l.SpanContext, l.SpanContext),
		})
	}
	return span
}

// flags returns the W3C flags of a span, and whether another one is remote.
func flags(id, remote trace.SpanContext) uint32 {
	bits := uint32(id.TraceFlags()) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if remote.IsRemote() {
		bits |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return bits
}

// statusCode maps the SDK's status codes to those of OTLP.
var statusCode = map[codes.Code]tracepb.Status_StatusCode{
	codes.Ok: tracepb.Status_STATUS_CODE_OK, codes.Error: tracepb.Status_STATUS_CODE_ERROR,
}

func traceID(span trace.SpanContext) []byte {
	id := span.TraceID()
	return id[:]
}

func spanID(span trace.SpanContext) []byte {
	id := span.SpanID()
	return id[:]
}

func nanoseconds(t time.Time) uint64 { return uint64(t.UnixNano()) }

func attributesToOTLP(attributes []attribute.KeyValue) []*commonpb.KeyValue {
	list := make([]*commonpb.KeyValue, len(attributes))
	for i, a := range attributes {
		list[i] = &commonpb.KeyValue{Key: string(a.Key), Value: valueToOTLP(a.Value)}
	}
	return list
}

func valueToOTLP(value attribute.Value) *commonpb.AnyValue {
	switch value.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: value.AsFloat64()}}
	case attribute.STRINGSLICE:
		list := &commonpb.ArrayValue{}
		for _, s := range value.AsStringSlice() {
			list.Values = append(list.Values, valueToOTLP(attribute.StringValue(s)))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	default:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value.String()}}
	}
}
