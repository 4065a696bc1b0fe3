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

// query reads the query parameters of a request. The request was validated against
// the API document; remaining errors are collected for err.
type query struct {
	values  url.Values
	details []fault.Detail
}

func queryOf(c echo.Context) *query { return &query{values: c.QueryParams()} }

func (q *query) text(name, byDefault string) string {
	if !q.values.Has(name) {
		return byDefault
	}
	return q.values.Get(name)
}

func (q *query) flag(name string, byDefault bool) bool {
	return read(q, name, byDefault, strconv.ParseBool, fault.InvalidType)
}

func (q *query) integer(name string, byDefault int) int {
	return read(q, name, byDefault, strconv.Atoi, fault.NotInteger)
}

func (q *query) number(name string, byDefault float64) float64 {
	return read(q, name, byDefault, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, fault.InvalidType)
}

func (q *query) err() error {
	if len(q.details) == 0 {
		return nil
	}
	return fault.Invalid(q.details...)
}

func read[T any](q *query, name string, byDefault T, parse func(string) (T, error), code string) T {
	if !q.values.Has(name) {
		return byDefault
	}
	value, err := parse(q.values.Get(name))
	if err != nil {
		q.details = append(q.details, fault.Detail{Field: name, Code: code, Message: "has the wrong type", Received: q.values.Get(name)})
	}
	return value
}

// maxRequest is the maximum size of a request body, in bytes.
const maxRequest = 64 << 10

// decode reads a JSON body. An empty body is allowed.
func decode(c echo.Context, into any) error {
	err := json.NewDecoder(io.LimitReader(c.Request().Body, maxRequest)).Decode(into)
	if err != nil && !errors.Is(err, io.EOF) {
		return fault.Wrap(err, fault.Validation, "The request body is not valid JSON.", fault.Detail{
			Field: "body", Code: fault.InvalidFormat, Message: "must be JSON that matches the documented schema",
			Constraint: map[string]any{"format": "json"},
		})
	}
	return nil
}
