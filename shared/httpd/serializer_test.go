package httpd_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
)

// inMemory is a body that can only be read with Text.
type inMemory string

func (inMemory) Read([]byte) (int, error) { return 0, errors.New("it was read") }
func (inMemory) Close() error             { return nil }
func (b inMemory) Text() []byte           { return []byte(b) }

func TestSerializer_DecodesBodyInMemory(t *testing.T) {
	for text, want := range map[string]struct {
		status int
		name   string
	}{
		`{"name":"a"}`: {http.StatusNoContent, "a"},
		`{"name":1}`:   {http.StatusBadRequest, ""},
		`{"name"`:      {http.StatusBadRequest, ""},
	} {
		for source, body := range map[string]io.ReadCloser{
			"memory": inMemory(text), "a stream": io.NopCloser(strings.NewReader(text)),
		} {
			e, _ := newServer(t, httpd.Options{})
			var got struct{ Name string }
			e.POST("/x", func(c echo.Context) error {
				if err := c.Bind(&got); err != nil {
					return err
				}
				return c.NoContent(http.StatusNoContent)
			})
			r := httptest.NewRequest(http.MethodPost, "/x", nil)
			r.Body, r.ContentLength = body, int64(len(text))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != want.status || got.Name != want.name {
				t.Errorf("%s from %s: status %d, name %q, want %d and %q", text, source, w.Code, got.Name, want.status, want.name)
			}
		}
	}
}
