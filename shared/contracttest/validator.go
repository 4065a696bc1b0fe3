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

// Validator validates exchanges against a document. It is safe for concurrent use.
type Validator struct {
	spec     *openapi3.T
	routes   []route
	recorder *recorder
}

// NewValidator returns a validator for the document, which must not change.
func NewValidator(document Document) *Validator {
	return &Validator{spec: document.T(), routes: routesOf(document.T()), recorder: newRecorder(document.T())}
}

// Transport returns a transport that sends requests with base, or
// http.DefaultTransport if base is nil, and reports each exchange before it returns
// the response. See AllowInvalidRequest and AllowUndocumentedRoute.
func (j *Validator) Transport(base http.RoundTripper, tell func(*Exchange)) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{validator: j, base: base, report: tell}
}

type transport struct {
	validator *Validator
	base      http.RoundTripper
	report    func(*Exchange)
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &Exchange{spec: tr.validator.spec, request: r}
	outgoing, err := x.keepRequestBody()
	if err != nil {
		return nil, err
	}
	x.response, err = tr.base.RoundTrip(outgoing)
	if err != nil {
		return nil, err
	}
	x.keepResponseBody()
	x.check(tr.validator.routes)
	if err := tr.validator.recorder.add(x); err != nil {
		x.addFinding("the exchange could not be recorded: %v", err)
	}
	tr.report(x)
	return x.response, nil
}

// Exchange is a request and its response, with the violations.
type Exchange struct {
	Findings []string // the violations of the document

	spec         *openapi3.T
	request      *http.Request
	requestBody  []byte
	response     *http.Response
	responseBody []byte // of a JSON answer
	match        match
}

func (x *Exchange) addFinding(format string, args ...any) {
	x.Findings = append(x.Findings, fmt.Sprintf(format, args...))
}

// keepRequestBody returns the request to send. A body that is not JSON may be a stream
// and is not read.
func (x *Exchange) keepRequestBody() (*http.Request, error) {
	r := x.request
	if r.Body == nil || r.Body == http.NoBody || !isJSON(r.Header) {
		return r, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request body: %w", err)
	}
	x.requestBody = body
	outgoing := r.Clone(r.Context())
	outgoing.Body = io.NopCloser(bytes.NewReader(body))
	return outgoing, nil
}

func (x *Exchange) keepResponseBody() {
	if !isJSON(x.response.Header) || x.response.Body == nil {
		return
	}
	body, err := io.ReadAll(x.response.Body)
	_ = x.response.Body.Close()
	if err != nil {
		x.addFinding("the body broke off after %d bytes: %v", len(body), err)
	}
	x.responseBody = body
	x.response.Body = io.NopCloser(bytes.NewReader(body))
}

func (x *Exchange) check(routes []route) {
	found, ok := findRoute(routes, x.request)
	if !ok {
		x.checkUndocumented()
		return
	}
	x.match = found
	violations := x.checkRequest()
	if !marked(x.request, allowInvalidKey) {
		x.Findings = append(x.Findings, violations...)
	} else if len(violations) > 0 && x.accepted() && !x.isUnguarded() {
		x.addFinding("an invalid request was accepted:\n      %s", strings.Join(violations, "\n      "))
	}
	if x.accepted() && !x.hasCredential() {
		x.addFinding("a request without the required credential was accepted")
	}
	x.checkResponse()
}

// isUnguarded reports whether the operation accepts requests of another protocol or
// from a browser navigation. Of these, only the credential is validated.
func (x *Exchange) isUnguarded() bool { return x.match.operation.Extensions["x-guard"] == "none" }

func (x *Exchange) accepted() bool { return x.response.StatusCode < http.StatusBadRequest }

func (x *Exchange) checkUndocumented() {
	if !marked(x.request, allowUndocumentedKey) {
		x.addFinding("no operation of the document has this method and path")
		return
	}
	if x.response.StatusCode == http.StatusNotFound || x.response.StatusCode == http.StatusMethodNotAllowed {
		x.checkFailureEnvelope()
	}
}

// OperationID returns the ID of the operation, or "" if it is not in the document.
func (x *Exchange) OperationID() string {
	if x.match.operation == nil {
		return ""
	}
	return x.match.operation.OperationID
}

// Status returns the status of the response.
func (x *Exchange) Status() int { return x.response.StatusCode }

// Report formats the findings with the JSON bodies of the request and the response.
func (x *Exchange) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract: %s %s", x.request.Method, x.request.URL.EscapedPath())
	if id := x.OperationID(); id != "" {
		fmt.Fprintf(&b, " (%s)", id)
	}
	fmt.Fprintf(&b, " answered %d:", x.response.StatusCode)
	for _, finding := range x.Findings {
		b.WriteString("\n    - " + finding)
	}
	if len(x.requestBody) > 0 {
		b.WriteString("\n    sent: " + shorten(x.requestBody))
	}
	if len(x.responseBody) > 0 {
		b.WriteString("\n    received: " + shorten(x.responseBody))
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
