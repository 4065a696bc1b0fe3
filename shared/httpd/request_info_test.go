package httpd_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
)

func TestRequestInfo_IsReadFromContext(t *testing.T) {
	known := func(ctx context.Context) []string {
		return []string{httpd.RequestID(ctx), httpd.ClientAddress(ctx), httpd.UserAgent(ctx)}
	}
	var ctx context.Context
	e, _ := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error {
		ctx = c.Request().Context()
		return c.NoContent(http.StatusNoContent)
	})
	do(e, http.MethodGet, "/x", "X-Request-Id", "request-1", "User-Agent", "worker/1")
	for name, test := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"the request's own":    {ctx, []string{"request-1", "192.0.2.1", "worker/1"}},
		"outside of a request": {t.Context(), []string{"", "", ""}},
	} {
		if diff := cmp.Diff(test.want, known(test.ctx)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDefaultHeaders_AreIndependent(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error {
		h := c.Response().Header()
		for _, name := range []string{"X-Request-Id", "X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options", "Cache-Control"} {
			h.Add(name, "more")
		}
		h.Set("X-Frame-Options", "SAMEORIGIN")
		return c.NoContent(http.StatusNoContent)
	})
	for range 2 { // the first answer must not change the defaults
		got := do(e, http.MethodGet, "/x", "X-Request-Id", "request-1").Header()
		want := http.Header{
			"X-Request-Id": {"request-1", "more"}, "X-Content-Type-Options": {"nosniff", "more"},
			"Referrer-Policy": {"no-referrer", "more"}, "X-Frame-Options": {"SAMEORIGIN"}, "Cache-Control": {"no-store", "more"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
