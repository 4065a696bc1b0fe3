package devtools

import (
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// query reads parameters that were checked against the document already; what
// is still wrong with one is kept for err.
type query struct {
	values  url.Values
	details []fault.Detail
}

func queryOf(c echo.Context) *query { return &query{values: c.QueryParams()} }

func (q *query) text(name, otherwise string) string {
	if !q.values.Has(name) {
		return otherwise
	}
	return q.values.Get(name)
}

func (q *query) flag(name string) bool {
	return read(q, name, false, strconv.ParseBool, fault.InvalidType)
}

func (q *query) integer(name string, otherwise int) int {
	return read(q, name, otherwise, strconv.Atoi, fault.NotInteger)
}

func (q *query) number(name string, otherwise float64) float64 {
	return read(q, name, otherwise, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, fault.InvalidType)
}

func (q *query) err() error {
	if len(q.details) == 0 {
		return nil
	}
	return fault.Invalid(q.details...)
}

func read[T any](q *query, name string, otherwise T, parse func(string) (T, error), code string) T {
	if !q.values.Has(name) {
		return otherwise
	}
	value, err := parse(q.values.Get(name))
	if err != nil {
		q.details = append(q.details, fault.Detail{Field: name, Code: code, Message: "is not a value of its type", Received: q.values.Get(name)})
	}
	return value
}

// maxRequest bounds a request's body, in bytes.
const maxRequest = 64 << 10

// decode reads a JSON body, which may be missing.
func decode(c echo.Context, into any) error {
	err := json.NewDecoder(io.LimitReader(c.Request().Body, maxRequest)).Decode(into)
	if err != nil && !errors.Is(err, io.EOF) {
		return fault.Wrap(err, fault.Validation, "The request body is not valid JSON.", fault.Detail{
			Field: "body", Code: fault.InvalidFormat, Message: "is not JSON of the documented form",
			Constraint: map[string]any{"format": "json"},
		})
	}
	return nil
}
