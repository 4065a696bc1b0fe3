package httpd_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/ws"
)

// deprecatedDocument is a document with one deprecated operation.
type deprecatedDocument struct{ document }

func (deprecatedDocument) DeprecationHeaders(method, route string) http.Header {
	if method != http.MethodGet || route != "/v1/plans/:id" {
		return nil
	}
	return http.Header{"Deprecation": {"@1798761600"}, "Sunset": {"Thu, 01 Jul 2027 00:00:00 GMT"}, "Link": {`<../../docs#/plans/getPlan>; rel="deprecation"`}}
}

func TestContractHeader_IsOnEveryResponse(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: document{}})
	e.GET("/v1/plans", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.GET("/v1/fault", func(echo.Context) error { return fault.New(fault.Conflict, "No.") })
	e.GET("/v1/error", func(echo.Context) error { return errors.New("no") })
	e.GET("/v1/panic", func(echo.Context) error { panic("no") })
	e.GET("/v1/socket", func(c echo.Context) error {
		conn, err := ws.Accept(c.Response(), c.Request(), ws.Options{})
		if err != nil {
			return err
		}
		return conn.CloseNow()
	})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	for _, test := range []struct {
		method, path string
		header       http.Header
		status       int
	}{
		{"GET", "/v1/plans", nil, 204},
		{"GET", "/v1/fault", nil, 409},
		{"GET", "/v1/error", nil, 500},
		{"GET", "/v1/panic", nil, 500},
		{"GET", "/nowhere", nil, 404},
		{"DELETE", "/v1/plans", nil, 405},
		{"GET", "/docs", nil, 200},
		{"HEAD", "/docs", nil, 200},
		{"GET", "/docs/", nil, 308},
		{"GET", "/docs/nothing", nil, 404},
		{"GET", "/openapi.json", nil, 200},
		{"GET", "/openapi.json", http.Header{"Range": {"bytes=0-3"}}, 206},
		{"GET", "/v1/socket", http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}, 101},
	} {
		answer := exchange(t, server, test.method, test.path, test.header)
		if got := answer.Header.Values("X-Svc-Contract"); answer.StatusCode != test.status || !cmp.Equal(got, []string{"1.2.3"}) {
			t.Errorf("%s %s: %d with X-Svc-Contract %q, want %d with 1.2.3", test.method, test.path, answer.StatusCode, got, test.status)
		}
	}
}

func TestContractHeader_IsMissingWithoutDocument(t *testing.T) {
	e, _ := newServer(t, httpd.Options{})
	if got, named := do(e, http.MethodGet, "/nowhere").Header()["X-Svc-Contract"]; named {
		t.Errorf("X-Svc-Contract is %q", got)
	}
}

func TestDeprecationHeaders_AreOnEveryResponse(t *testing.T) {
	e, _ := newServer(t, httpd.Options{Document: deprecatedDocument{}})
	e.GET("/v1/plans/:id", func(c echo.Context) error {
		if c.Param("id") == "none" {
			return fault.Missing("plan")
		}
		c.Response().Header().Add("Link", "</v1/plans>; rel=up")
		return c.NoContent(http.StatusNoContent)
	})
	e.GET("/v1/plans", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	for path, want := range map[string]int{"/v1/plans/1": 204, "/v1/plans/none": 404} {
		got := do(e, http.MethodGet, path)
		if h := got.Header(); got.Code != want || h.Get("Deprecation") != "@1798761600" || h.Get("Sunset") == "" || !strings.Contains(h.Get("Link"), "deprecation") {
			t.Errorf("%s: %d %v", path, got.Code, h)
		}
	}
	if links := do(e, http.MethodGet, "/v1/plans/1").Header().Values("Link"); len(links) != 2 {
		t.Errorf("after two calls: got the links %q, want those of the handler and of the deprecation", links)
	}
	if h := do(e, http.MethodGet, "/v1/plans").Header(); h.Get("Deprecation") != "" {
		t.Errorf("operation that is not deprecated: %v", h)
	}
}

// exchange sends one request on its own connection and reads the head of the answer.
func exchange(t *testing.T, server *httptest.Server, method, path string, header http.Header) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	_ = answer.Body.Close()
	return answer
}
