package oapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// inspect validates the parameters and the body of a request, and restores the
// body for the handler.
func (g *Guard) inspect(c echo.Context, o *operation) error {
	schema, err := o.bodySchema(c.Request())
	if err != nil {
		return err
	}
	run := g.checks.Get().(*checker)
	defer func() {
		run.reset()
		g.checks.Put(run)
	}()
	run.params(c, o)
	if err := g.checkRequestBody(c, o, schema, run); err != nil {
		return err
	}
	if len(run.details) > 0 {
		return fault.Invalid(run.details...)
	}
	return nil
}

// hasBody reports whether the request headers announce a body.
func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// bodySchema returns the rule of the body for its content type, before the body is
// read. It returns nil for a body that the guard does not validate.
func (o *operation) bodySchema(r *http.Request) (*rule, error) {
	if o.body == nil || !hasBody(r) {
		return nil, nil
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fault.New(fault.UnsupportedMediaType, "The body must not be compressed.", fault.Detail{
			Field: "contentEncoding", Code: fault.InvalidEnumValue, Message: "must be omitted",
			Received: receivedText(encoding), Constraint: map[string]any{"allowed": []string{"identity"}},
		})
	}
	header := r.Header.Get("Content-Type")
	if schema, ok := o.body.schemas[header]; ok {
		return schema, nil
	}
	base, params, err := mime.ParseMediaType(header)
	schema, ok := o.body.schemas[base]
	charset := params["charset"]
	if err != nil || !ok || (isJSON(base) && charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return nil, o.body.unsupportedType(header)
	}
	if isJSON(base) {
		r.Header.Set("Content-Type", base) // Echo's binder compares the exact value
	}
	return schema, nil
}

// unsupportedType refuses a content type that the operation does not accept.
func (b *bodyRule) unsupportedType(contentType string) error {
	accepted := strings.Join(b.accepts, " or ")
	detail := fault.Detail{
		Field: "contentType", Code: fault.InvalidEnumValue, Message: "must be " + accepted,
		Constraint: map[string]any{"allowed": b.accepts},
	}
	if contentType == "" {
		detail.Code = fault.Required
	} else {
		detail.Received = receivedText(contentType)
	}
	return fault.New(fault.UnsupportedMediaType, "The body must be "+accepted+", and Content-Type must match.", detail)
}

// checkRequestBody checks the body. It returns errors about the body as a whole;
// findings inside it are added to the checker.
func (g *Guard) checkRequestBody(c echo.Context, o *operation, schema *rule, run *checker) error {
	r := c.Request()
	switch {
	case o.body == nil && hasBody(r):
		return o.rejectBody(c, run)
	case o.body == nil:
		return nil
	case !hasBody(r):
		if o.body.required {
			run.report(finding{code: fault.Required, message: "is required"})
		}
		return nil
	case schema == nil && r.ContentLength > o.maxBody:
		return o.tooLargeError()
	case schema == nil:
		r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, o.maxBody)
		return nil
	}
	text, err := o.readBody(c)
	if err != nil {
		return err
	}
	if len(text) == 0 && !o.body.required {
		r.Body, r.ContentLength = http.NoBody, 0
		return nil
	}
	if len(text) == 0 {
		run.report(finding{code: fault.Required, message: "is required"})
		return nil
	}
	if broken := run.tape.parse(text); broken != nil {
		run.report(syntaxFinding(text, broken))
		return nil
	}
	run.body(schema)
	text = run.applyEdits(text)
	r.Body, r.ContentLength = newCheckedBody(text), int64(len(text))
	return nil
}

// checkedBody is a body that was read and checked. The handler can read it again.
type checkedBody struct {
	bytes.Reader
	text []byte
}

func newCheckedBody(text []byte) *checkedBody {
	c := &checkedBody{text: text}
	c.Reset(text)
	return c
}

// Text returns the whole body, for decoders that need no reader. The caller must not
// modify it.
func (c *checkedBody) Text() []byte { return c.text }

// Close implements io.Closer.
func (c *checkedBody) Close() error { return nil }

// rejectBody refuses a body if the operation has none. An empty object is accepted,
// because generic clients send it with each POST.
func (o *operation) rejectBody(c echo.Context, run *checker) error {
	text, err := o.readBody(c)
	if err != nil {
		return err
	}
	r := c.Request()
	r.Body, r.ContentLength = http.NoBody, 0
	if len(text) == 0 {
		return nil
	}
	refusal := finding{code: fault.UnrecognizedKey, message: "this operation does not accept a body"}
	if run.tape.parse(text) != nil {
		run.report(refusal)
		return nil
	}
	if run.tape.nodes[0].kind == kindObject {
		run.body(&emptyObject)
		return nil
	}
	refusal.received = run.received(&emptyObject, 0)
	run.report(refusal)
	return nil
}

// emptyObject is the rule for the body of an operation without one.
var emptyObject = rule{object: objectRule{closed: true, max: -1}}

// readBody reads the complete body, up to the limit.
func (o *operation) readBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	if r.ContentLength > o.maxBody {
		return nil, o.tooLargeError()
	}
	// Trust a small Content-Length only. For larger ones, allocate as data arrives.
	const believed = 64 << 10
	if r.ContentLength >= 0 && r.ContentLength <= believed {
		text := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, text); err != nil {
			return nil, bodyReadError(err)
		}
		return text, nil
	}
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(r.ContentLength, believed))) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(c.Response().Writer, r.Body, o.maxBody))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, o.tooLargeError()
	}
	if err != nil {
		return nil, bodyReadError(err)
	}
	return buf.Bytes(), nil
}

func (o *operation) tooLargeError() error {
	return fault.Oversized(nil, o.maxBody)
}

func bodyReadError(err error) error {
	return fault.Wrap(err, fault.Validation, "The request body is incomplete.", fault.Detail{
		Field: "body", Code: fault.Custom, Message: "is incomplete",
	})
}

// syntaxFinding reports the position of a JSON syntax error as line and column.
func syntaxFinding(text []byte, broken *syntaxError) finding {
	before := text[:broken.offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1
	return finding{
		code:       fault.InvalidFormat,
		message:    fmt.Sprintf("is not valid JSON: %s at line %d, column %d", broken.reason, line, column),
		constraint: map[string]any{"format": "json"},
	}
}
