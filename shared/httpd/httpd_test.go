package httpd_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
)

const secret = "password authentication failed for user svc"

func TestHandleError_WritesFailureEnvelope(t *testing.T) {
	cause := errors.New(secret)
	detail := fault.Detail{Field: "limit", Code: fault.TooBig, Message: "too big", Received: 500, Constraint: map[string]any{"max": 100}}
	rateLimited := fault.New(fault.RateLimited, "Slow down.")
	rateLimited.RetryAfter = 1500 * time.Millisecond
	notAllowed := fault.New(fault.MethodNotAllowed, "No.")
	notAllowed.Allow = "GET"

	tests := map[string]struct {
		err    error
		status int
		body   string
		header map[string]string
	}{
		"a plain error is internal":     {cause, 500, `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something went wrong on our side."}}`, nil},
		"a fault hides its cause":       {fault.Wrap(cause, fault.Unavailable, "No licence server."), 503, `{"success":false,"error":{"code":"EXTERNAL_SERVICE_ERROR","message":"No licence server."}}`, nil},
		"a wrapped fault is found":      {fmt.Errorf("%s: %w", secret, fault.Missing("profile")), 404, `{"success":false,"error":{"code":"RESOURCE_NOT_FOUND","message":"No such profile."}}`, nil},
		"details are objects":           {fault.Invalid(detail), 400, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","details":[{"field":"limit","code":"TOO_BIG","message":"too big","received":500,"constraint":{"max":100}}]}}`, nil},
		"an inexpressible detail":       {fault.Invalid(fault.Detail{Field: "x", Code: fault.TooBig, Message: "too big", Received: math.NaN()}), 400, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","details":[{"field":"x","code":"TOO_BIG","message":"too big"}]}}`, nil},
		"Retry-After rounds up":         {rateLimited, 429, `{"success":false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Slow down."}}`, map[string]string{"Retry-After": "2"}},
		"Allow is sent":                 {notAllowed, 405, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"No.","details":[{"field":"method","code":"INVALID_ENUM_VALUE","message":"must be one of GET","received":"GET","constraint":{"allowed":["GET"]}}]}}`, map[string]string{"Allow": "GET"}},
		"a bind error keeps its words":  {echo.NewHTTPError(400, secret).SetInternal(cause), 400, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","details":[{"field":"request","code":"CUSTOM","message":"The request is not valid."}]}}`, nil},
		"echo's 413":                    {echo.ErrStatusRequestEntityTooLarge, 413, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request body is too large.","details":[{"field":"body","code":"TOO_LONG","message":"The request body is too large."}]}}`, nil},
		"a body over the limit":         {fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 10}), 413, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request body is larger than 10 bytes.","details":[{"field":"body","code":"TOO_LONG","message":"must be at most 10 bytes long","constraint":{"max":10}}]}}`, nil},
		"echo's 415":                    {echo.ErrUnsupportedMediaType, 415, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request body has the wrong content type.","details":[{"field":"contentType","code":"INVALID_ENUM_VALUE","message":"The request body has the wrong content type."}]}}`, nil},
		"echo's 416":                    {echo.NewHTTPError(416, secret), 416, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The requested range is outside the content.","details":[{"field":"Range","code":"CUSTOM","message":"The requested range is outside the content."}]}}`, nil},
		"an unusual 4xx is validation":  {echo.NewHTTPError(418, secret), 400, `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"The request is not valid.","details":[{"field":"request","code":"CUSTOM","message":"The request is not valid."}]}}`, nil},
		"an unusual 5xx is internal":    {echo.NewHTTPError(507, secret), 500, `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Something went wrong on our side."}}`, nil},
		"echo's error around a fault":   {echo.NewHTTPError(500, secret).SetInternal(fault.Missing("plan")), 404, `{"success":false,"error":{"code":"RESOURCE_NOT_FOUND","message":"No such plan."}}`, nil},
		"echo's 503 is another service": {echo.NewHTTPError(503, secret), 503, `{"success":false,"error":{"code":"EXTERNAL_SERVICE_ERROR","message":"A required service is not available."}}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, _ := newServer(t, httpd.Options{})
			e.GET("/x", func(echo.Context) error { return test.err })
			w := do(e, "GET", "/x")
			if w.Code != test.status {
				t.Errorf("status = %d, want %d", w.Code, test.status)
			}
			if diff := cmp.Diff(test.body, strings.TrimSpace(w.Body.String())); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Error("the cause reached the client")
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type = %q", got)
			}
			for name, want := range test.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestHandleError_UnknownRouteAndMethod(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/v1/plans", func(c echo.Context) error { return c.NoContent(204) })

	w := do(e, "GET", "/v1/nothing")
	if w.Code != 404 || !strings.Contains(w.Body.String(), `"success":false,"error":{"code":"RESOURCE_NOT_FOUND"`) {
		t.Errorf("unknown route: %d %s", w.Code, w.Body)
	}
	if w.Header().Get("X-Request-Id") == "" || w.Header().Get("X-Frame-Options") != "DENY" {
		t.Errorf("unknown route lacks headers: %v", w.Header())
	}
	if got := book.lastRequest(t)["route"]; got != "" {
		t.Errorf("route of an unknown path = %q", got)
	}

	w = do(e, "POST", "/v1/plans")
	if w.Code != 405 || !strings.Contains(w.Body.String(), `"code":"VALIDATION_ERROR"`) ||
		!strings.Contains(w.Body.String(), `"details":[{"field":"method","code":"INVALID_ENUM_VALUE"`) || !strings.Contains(w.Body.String(), `"received":"POST"`) {
		t.Errorf("unknown method: %d %s", w.Code, w.Body)
	}
	if allow := w.Header().Get("Allow"); !strings.Contains(allow, "GET") {
		t.Errorf("Allow = %q", allow)
	}
}

func TestHandleError_HeadAndCommittedResponse(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.HEAD("/x", func(echo.Context) error { return fault.Missing("thing") })
	if w := do(e, "HEAD", "/x"); w.Code != 404 || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d %q", w.Code, w.Body)
	}
	e.GET("/begun", func(c echo.Context) error {
		_ = c.String(200, "begun")
		return errors.New(secret)
	})
	if w := do(e, "GET", "/begun"); w.Code != 200 || w.Body.String() != "begun" {
		t.Errorf("committed: %d %q", w.Code, w.Body)
	}
	if line := book.lastRequest(t); line["level"] != "ERROR" || line["error"] != secret {
		t.Errorf("the failure after the start is not in the log: %v", line)
	}
}

func TestHandleError_DropsHeadersOfUnsentResponse(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error {
		c.Response().Header().Set("ETag", `"1"`)
		c.Response().Header().Set("Cache-Control", "public, max-age=60")
		c.Response().Header().Set("Content-Length", "5")
		c.Response().Header().Set("Content-Range", "bytes */5") // belongs to the failure
		return fault.New(fault.RangeNotSatisfiable, "No.")
	})
	h := do(e, "GET", "/x").Header()
	if h.Get("Content-Range") != "bytes */5" || h.Get("ETag") != "" || h.Get("Content-Length") != "" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers = %v", h)
	}
}

func TestPanic_IsInternalErrorWithLoggedStack(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/x", func(echo.Context) error { panic(secret) })
	w := do(e, "GET", "/x")
	if w.Code != 500 || strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	line := book.lastRequest(t)
	if line["level"] != "ERROR" || line["error"] != "panic: "+secret {
		t.Errorf("log = %v", line)
	}
	if stack, _ := line["stack"].(string); !strings.Contains(stack, "httpd_test.go") {
		t.Errorf("stack = %q", stack)
	}
}

func TestPanic_DuringResponseClosesConnection(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/x", func(c echo.Context) error {
		_, _ = io.WriteString(c.Response(), "half")
		c.Response().Flush()
		panic(secret)
	})
	server := httptest.NewServer(e)
	defer server.Close()
	res, err := http.Get(server.URL + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("an incomplete answer looked complete")
	}
	if line := book.lastRequest(t); line["error"] != "panic: "+secret {
		t.Errorf("log = %v", line)
	}
}

func TestAccessLog_LogsAbortedResponse(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/x", func(echo.Context) error { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(e)
	defer server.Close()
	if res, err := http.Get(server.URL + "/x"); err == nil {
		res.Body.Close()
		t.Errorf("answered %d", res.StatusCode)
	}
	if line := book.lastRequest(t); line["aborted"] != true {
		t.Errorf("log = %v", line)
	}
}

func TestRequestID(t *testing.T) {
	tests := map[string]struct {
		incoming string
		kept     bool
	}{
		"none":             {"", false},
		"good":             {"req-1234.A_b", true},
		"too short":        {"abc", false},
		"too long":         {strings.Repeat("a", 65), false},
		"line break":       {"abcdefgh\nlevel=ERROR", false},
		"markup":           {"<script>alert</script>", false},
		"good, the edge":   {strings.Repeat("z", 64), true},
		"a trailing break": {"abcdefgh\n", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, book := newServer(t, httpd.Options{})
			var inContext string
			e.GET("/x", func(c echo.Context) error {
				inContext = httpd.RequestID(c.Request().Context())
				return c.NoContent(204)
			})
			got := do(e, "GET", "/x", "X-Request-Id", test.incoming).Header().Get("X-Request-Id")
			if (got == test.incoming) != test.kept {
				t.Errorf("X-Request-Id = %q for %q", got, test.incoming)
			}
			if !test.kept {
				if id, err := uuid.Parse(got); err != nil || id.Version() != 7 {
					t.Errorf("%q is not a version 7 UUID", got)
				}
			}
			if inContext != got || book.lastRequest(t)["requestId"] != got {
				t.Errorf("answer %q, context %q, log %v", got, inContext, book.lastRequest(t))
			}
		})
	}
}

func TestAccessLog_OmitsQuery(t *testing.T) {
	e, book := newServer(t, httpd.Options{})
	e.GET("/browsers/:id/", func(c echo.Context) error { return c.String(200, "hello") })
	do(e, "GET", "/browsers/b1/?ct=token-of-somebody")
	line := book.lastRequest(t)
	for name, want := range map[string]any{
		"level": "INFO", "method": "GET", "route": "/browsers/:id/", "path": "/browsers/b1/",
		"status": 200.0, "bytes": 5.0, "remoteIp": "192.0.2.1",
	} {
		if line[name] != want {
			t.Errorf("%s = %v, want %v", name, line[name], want)
		}
	}
	if _, ok := line["duration"]; !ok {
		t.Error("no duration")
	}
	if strings.Contains(book.String(), "token-of-somebody") {
		t.Error("the token is in the log")
	}
}

func TestAccessLog_LevelByStatus(t *testing.T) {
	for name, test := range map[string]struct {
		handler echo.HandlerFunc
		level   string
	}{
		"their mistake":         {func(echo.Context) error { return fault.Missing("x") }, "INFO"},
		"our mistake":           {func(echo.Context) error { return errors.New("x") }, "ERROR"},
		"a 5xx written by hand": {func(c echo.Context) error { return c.NoContent(502) }, "ERROR"},
	} {
		e, book := newServer(t, httpd.Options{})
		e.GET("/x", test.handler)
		do(e, "GET", "/x")
		if got := book.lastRequest(t)["level"]; got != test.level {
			t.Errorf("%s: level %v, want %s", name, got, test.level)
		}
	}
}

func TestClientAddress_TrustsOnlyTrustedProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for name, test := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		forward string
		want    string
	}{
		"no proxies, header ignored":  {nil, "192.0.2.1:1000", "203.0.113.9", "192.0.2.1"},
		"loopback isn't special":      {trusted, "127.0.0.1:1000", "203.0.113.9", "127.0.0.1"},
		"private network neither":     {trusted, "10.0.0.1:1000", "203.0.113.9", "10.0.0.1"},
		"trusted proxy":               {trusted, "192.0.2.1:1000", "203.0.113.9", "203.0.113.9"},
		"trusted proxy, IPv6":         {trusted, "[2001:db8::1]:1000", "203.0.113.9", "203.0.113.9"},
		"only the last untrusted hop": {trusted, "192.0.2.1:1000", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
	} {
		e, book := newServer(t, httpd.Options{TrustedProxies: test.trusted})
		var got string
		e.GET("/x", func(c echo.Context) error {
			got = httpd.ClientAddress(c.Request().Context())
			return c.NoContent(204)
		})
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", test.forward)
		r.Header.Set("X-Real-Ip", "198.51.100.99")
		e.ServeHTTP(httptest.NewRecorder(), r)
		if got != test.want || book.lastRequest(t)["remoteIp"] != test.want {
			t.Errorf("%s: %q, log %v, want %q", name, got, book.lastRequest(t), test.want)
		}
	}
}
