// Package contract is a test client that holds both sides of an exchange to the
// OpenAPI document. A test uses it like any other client:
//
//	client := contract.New(t, document, nil)
//	res, err := client.Get(server.URL + "/v1/plans")
//
// and fails when the answer, or its own request, departs from the document:
//
//   - a path or method that is not in the document, unless the context says
//     Undocumented;
//   - a status, content type or required header that the operation does not
//     document; a body that its schema does not allow, formats included;
//   - a property that the schema does not name, which is how a misspelt one
//     looks; an envelope whose success contradicts the status;
//   - a request that is not valid, unless the context says Deliberate;
//   - a deliberately wrong request that is answered as if it were right;
//   - an answer to a request that carries none of the credentials its operation
//     asks for.
//
// The bodies of streams, downloads and pages are not read: only JSON is judged.
package contract

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a loaded and resolved OpenAPI document.
type Document interface {
	T() *openapi3.T
}

// New returns a client whose exchanges are held to the document; what departs
// from it fails t. The base makes the exchange, http.DefaultTransport when nil.
// Redirects are not followed: each answer is the server's own.
func New(t testing.TB, document Document, base http.RoundTripper) *http.Client {
	if base == nil {
		base = http.DefaultTransport
	}
	return &http.Client{
		Transport:     &transport{t: t, base: base, spec: document.T(), routes: routesOf(document.T())},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type contextKey int

const (
	deliberateKey contextKey = iota
	undocumentedKey
)

// Deliberate marks the requests of a context as wrong on purpose, for tests of
// refusals: they may depart from the document, but then must be refused.
func Deliberate(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliberateKey, true)
}

// Undocumented marks the requests of a context as aimed at a path or method
// that is not in the document. An answer of 404 or 405 must still be the failure
// envelope.
func Undocumented(ctx context.Context) context.Context {
	return context.WithValue(ctx, undocumentedKey, true)
}

func marked(r *http.Request, key contextKey) bool {
	set, _ := r.Context().Value(key).(bool)
	return set
}

type transport struct {
	t      testing.TB
	base   http.RoundTripper
	spec   *openapi3.T
	routes []route
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tr.t.Helper()
	x := &exchange{spec: tr.spec, sent: r}
	outgoing, err := x.keepRequestBody()
	if err != nil {
		return nil, err
	}
	x.answer, err = tr.base.RoundTrip(outgoing)
	if err != nil {
		return nil, err
	}
	x.keepResponseBody()
	x.judge(tr.routes)
	if len(x.findings) > 0 {
		tr.t.Errorf("%s", x.report())
	}
	return x.answer, nil
}

// exchange is one request and its answer, and what is wrong with them.
type exchange struct {
	spec     *openapi3.T
	sent     *http.Request
	sentBody []byte
	answer   *http.Response
	body     []byte // of a JSON answer
	match    match
	findings []string
}

func (x *exchange) find(format string, args ...any) {
	x.findings = append(x.findings, fmt.Sprintf(format, args...))
}

// keepRequestBody returns the request to send. A body that isn't JSON may be a
// stream and is left alone.
func (x *exchange) keepRequestBody() (*http.Request, error) {
	r := x.sent
	if r.Body == nil || r.Body == http.NoBody || !isJSON(r.Header) {
		return r, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request body: %w", err)
	}
	x.sentBody = body
	outgoing := r.Clone(r.Context())
	outgoing.Body = io.NopCloser(bytes.NewReader(body))
	return outgoing, nil
}

func (x *exchange) keepResponseBody() {
	if !isJSON(x.answer.Header) || x.answer.Body == nil {
		return
	}
	body, err := io.ReadAll(x.answer.Body)
	_ = x.answer.Body.Close()
	if err != nil {
		x.find("the body broke off after %d bytes: %v", len(body), err)
	}
	x.body = body
	x.answer.Body = io.NopCloser(bytes.NewReader(body))
}

func (x *exchange) judge(routes []route) {
	found, ok := find(routes, x.sent)
	if !ok {
		x.judgeUndocumented()
		return
	}
	x.match = found
	departures := x.checkRequest()
	if !marked(x.sent, deliberateKey) {
		x.findings = append(x.findings, departures...)
	} else if len(departures) > 0 && x.accepted() {
		x.find("the request departs from the document, yet it was accepted:\n      %s", strings.Join(departures, "\n      "))
	}
	if x.accepted() && !x.hasCredential() {
		x.find("the request carries none of the credentials that the operation asks for, yet it was accepted")
	}
	x.checkResponse()
}

func (x *exchange) accepted() bool { return x.answer.StatusCode < http.StatusBadRequest }

func (x *exchange) judgeUndocumented() {
	if !marked(x.sent, undocumentedKey) {
		x.find("no operation of the document has this method and path")
		return
	}
	if x.answer.StatusCode == http.StatusNotFound || x.answer.StatusCode == http.StatusMethodNotAllowed {
		x.checkFailureEnvelope()
	}
}

// report puts the findings under one heading.
func (x *exchange) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract: %s %s", x.sent.Method, x.sent.URL.EscapedPath())
	if x.match.operation != nil {
		fmt.Fprintf(&b, " (%s)", x.match.operation.OperationID)
	}
	fmt.Fprintf(&b, " answered %d:", x.answer.StatusCode)
	for _, finding := range x.findings {
		b.WriteString("\n    - " + finding)
	}
	if len(x.sentBody) > 0 {
		b.WriteString("\n    sent: " + shorten(x.sentBody))
	}
	if len(x.body) > 0 {
		b.WriteString("\n    received: " + shorten(x.body))
	}
	return b.String()
}

func shorten(body []byte) string {
	const most = 2000
	text := strings.TrimSpace(string(body))
	if len(text) > most {
		return fmt.Sprintf("%s... (%d bytes)", text[:most], len(text))
	}
	return text
}

func isJSON(header http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}
