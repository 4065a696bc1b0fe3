package contracttest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Judge holds exchanges to one document. It is safe for concurrent use.
type Judge struct {
	spec   *openapi3.T
	routes []route
	book   *book
}

// NewJudge returns a judge by the document, which must not change.
func NewJudge(document Document) *Judge {
	return &Judge{spec: document.T(), routes: routesOf(document.T()), book: openBook(document.T())}
}

// Transport makes exchanges through base, http.DefaultTransport when nil, and
// tells of each one that got an answer before the caller has it. The contexts of
// the requests say what is wrong on purpose.
func (j *Judge) Transport(base http.RoundTripper, tell func(*Exchange)) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{judge: j, base: base, tell: tell}
}

type transport struct {
	judge *Judge
	base  http.RoundTripper
	tell  func(*Exchange)
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &Exchange{spec: tr.judge.spec, sent: r}
	outgoing, err := x.keepRequestBody()
	if err != nil {
		return nil, err
	}
	x.answer, err = tr.base.RoundTrip(outgoing)
	if err != nil {
		return nil, err
	}
	x.keepResponseBody()
	x.judge(tr.judge.routes)
	if err := tr.judge.book.add(x); err != nil {
		x.find("the exchange could not be recorded: %v", err)
	}
	tr.tell(x)
	return x.answer, nil
}

// Exchange is one request and its answer, and what is wrong with them.
type Exchange struct {
	Findings []string // where it departs from the document; empty when it doesn't

	spec     *openapi3.T
	sent     *http.Request
	sentBody []byte
	answer   *http.Response
	body     []byte // of a JSON answer
	match    match
}

func (x *Exchange) find(format string, args ...any) {
	x.Findings = append(x.Findings, fmt.Sprintf(format, args...))
}

// keepRequestBody returns the request to send. A body that isn't JSON may be a
// stream and is left alone.
func (x *Exchange) keepRequestBody() (*http.Request, error) {
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

func (x *Exchange) keepResponseBody() {
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

func (x *Exchange) judge(routes []route) {
	found, ok := find(routes, x.sent)
	if !ok {
		x.judgeUndocumented()
		return
	}
	x.match = found
	departures := x.checkRequest()
	if !marked(x.sent, deliberateKey) {
		x.Findings = append(x.Findings, departures...)
	} else if len(departures) > 0 && x.accepted() && !x.isUnguarded() {
		x.find("the request departs from the document, yet it was accepted:\n      %s", strings.Join(departures, "\n      "))
	}
	if x.accepted() && !x.hasCredential() {
		x.find("the request carries none of the credentials that the operation asks for, yet it was accepted")
	}
	x.checkResponse()
}

// isUnguarded reports whether the operation takes requests as another protocol
// or a browser sends them, whatever else they say: nothing but the credential is
// checked before it.
func (x *Exchange) isUnguarded() bool { return x.match.operation.Extensions["x-guard"] == "none" }

func (x *Exchange) accepted() bool { return x.answer.StatusCode < http.StatusBadRequest }

func (x *Exchange) judgeUndocumented() {
	if !marked(x.sent, undocumentedKey) {
		x.find("no operation of the document has this method and path")
		return
	}
	if x.answer.StatusCode == http.StatusNotFound || x.answer.StatusCode == http.StatusMethodNotAllowed {
		x.checkFailureEnvelope()
	}
}

// OperationID names the operation; empty when the document has none for it.
func (x *Exchange) OperationID() string {
	if x.match.operation == nil {
		return ""
	}
	return x.match.operation.OperationID
}

// Status is the answer's.
func (x *Exchange) Status() int { return x.answer.StatusCode }

// Report puts the findings under one heading, with the bodies of both sides as
// far as they are JSON.
func (x *Exchange) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract: %s %s", x.sent.Method, x.sent.URL.EscapedPath())
	if id := x.OperationID(); id != "" {
		fmt.Fprintf(&b, " (%s)", id)
	}
	fmt.Fprintf(&b, " answered %d:", x.answer.StatusCode)
	for _, finding := range x.Findings {
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
