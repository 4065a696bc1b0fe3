package oapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/oapi"
)

const (
	smallBody = `{"name":"thing-1","slug":"thing","count":7,"color":"red","owner":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f","tags":["a","b"],"point":{"x":1,"y":2}}`
	badBody   = `{"name":"t","slug":"T","count":0,"color":"pink","owner":"x","tags":[],"point":{"x":-1,"z":2}}`
)

// BenchmarkGuard sends a small request through the guard to a handler that decodes it
// like generated code.
func BenchmarkGuard(b *testing.B) {
	benchmark(b, smallBody, http.StatusOK, decode, newGuard(b, oapi.Options{}).Middleware())
}

// BenchmarkHandWritten sends the same request to a handler that decodes and validates
// it by hand, as a baseline for the guard.
func BenchmarkHandWritten(b *testing.B) { benchmark(b, smallBody, http.StatusOK, decodeAndCheck) }

// BenchmarkUnchecked sends the same request to a handler that only decodes it. The
// difference to BenchmarkGuard is the cost of the guard.
func BenchmarkUnchecked(b *testing.B) { benchmark(b, smallBody, http.StatusOK, decode) }

// BenchmarkGuardRefuses sends a body with eight invalid fields.
func BenchmarkGuardRefuses(b *testing.B) {
	benchmark(b, badBody, http.StatusBadRequest, decode, newGuard(b, oapi.Options{}).Middleware())
}

// BenchmarkGuardLarge sends a body of 50 KB.
func BenchmarkGuardLarge(b *testing.B) {
	body := `{"name":"ab","metadata":{"list":[` + strings.Repeat(`{"key":"value","n":12345},`, 2000) + `0]}}`
	b.SetBytes(int64(len(body)))
	benchmark(b, body, http.StatusOK, decode, newGuard(b, oapi.Options{}).Middleware())
}

func benchmark(b *testing.B, body string, status int, handler echo.HandlerFunc, middleware ...echo.MiddlewareFunc) {
	b.Helper()
	e := echo.New()
	e.HTTPErrorHandler = func(_ error, c echo.Context) { c.Response().WriteHeader(http.StatusBadRequest) }
	e.Use(middleware...)
	e.POST("/open", handler)
	reader := strings.NewReader(body)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/open", nil)
	r.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		r.Body, r.ContentLength = nopCloser{reader}, int64(len(body))
		w := discard{header: http.Header{}}
		e.ServeHTTP(&w, r)
		if w.status != status {
			b.Fatalf("status %d", w.status)
		}
	}
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// discard is a response writer without output.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func decode(c echo.Context) error {
	var body thing
	if err := json.NewDecoder(c.Request().Body).Decode(&body); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}

var slugPattern = regexp.MustCompile(`^[a-z]+$`)

func decodeAndCheck(c echo.Context) error {
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.Response().Writer, c.Request().Body, 1<<20)); err != nil {
		return err
	}
	decoder := json.NewDecoder(&buf)
	decoder.DisallowUnknownFields()
	var body thing
	if err := decoder.Decode(&body); err != nil {
		return err
	}
	var wrong []error
	refuse := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, errors.New(what))
		}
	}
	length := utf8.RuneCountInString(body.Name)
	refuse(length < 2 || length > 8, "name")
	refuse(body.Slug != nil && !slugPattern.MatchString(*body.Slug), "slug")
	refuse(body.Count != nil && (*body.Count < 1 || *body.Count > 100), "count")
	refuse(body.Color != nil && *body.Color != "red" && *body.Color != "green" && *body.Color != "blue", "color")
	if body.Owner != nil {
		_, err := uuid.Parse(*body.Owner)
		refuse(err != nil, "owner")
	}
	if body.Tags != nil {
		refuse(len(*body.Tags) < 1 || len(*body.Tags) > 3, "tags")
	}
	if body.Point != nil {
		refuse(body.Point.X < 0 || body.Point.X > 4096 || body.Point.Y < 0 || body.Point.Y > 4096, "point")
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	return c.NoContent(http.StatusOK)
}
