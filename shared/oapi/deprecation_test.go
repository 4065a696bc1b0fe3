package oapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// deprecatedSpec is a document with one deprecated operation and another one on the
// same path.
const deprecatedSpec = `
openapi: 3.0.3
info: {title: plans, version: 4.5.6}
tags: [{name: Old plans, description: Plans.}]
paths:
  /v1/plans/{planId}:
    parameters: [{name: planId, in: path, required: true, schema: {type: string, maxLength: 4}}]
    get:
      operationId: getPlan
      tags: [Old plans]
      deprecated: true
      x-deprecated-at: 2027-01-01
      x-sunset: '2027-07-01'
      security: [{key: []}]
      responses: {'204': {description: Nothing.}}
    delete:
      operationId: deletePlan
      tags: [Old plans]
      security: []
      responses: {'204': {description: Nothing.}}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-API-Key}
`

func loadText(t *testing.T, text string) (*bundled.Document, error) {
	t.Helper()
	return bundled.Load(t.Context(), fstest.MapFS{"api.yaml": {Data: []byte(text)}}, "api.yaml")
}

// TestDeprecationHeaders_OfDeprecatedOperation sends requests over a socket, through
// the server and the guard of both programs.
func TestDeprecationHeaders_OfDeprecatedOperation(t *testing.T) {
	document, err := loadText(t, deprecatedSpec)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"key": func(r *http.Request) (context.Context, error) {
			if r.Header.Get("X-API-Key") == "" {
				return nil, oapi.ErrNoCredential
			}
			return r.Context(), nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware())
	e.GET("/v1/plans/:id", func(c echo.Context) error {
		if c.Param("id") == "lost" {
			return fault.Missing("plan")
		}
		return c.NoContent(http.StatusNoContent)
	})
	e.HEAD("/v1/plans/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.DELETE("/v1/plans/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)

	deprecated := map[string][]string{
		"Deprecation":    {"@1798761600"},
		"Sunset":         {"Thu, 01 Jul 2027 00:00:00 GMT"},
		"Link":           {`<../../docs#/Old%20plans/getPlan>; rel="deprecation"; type="text/html"`},
		"X-Svc-Contract": {"4.5.6"},
	}
	unchanged := map[string][]string{"Deprecation": nil, "Sunset": nil, "Link": nil, "X-Svc-Contract": {"4.5.6"}}
	for _, test := range []struct {
		name, method, path, key string
		status                  int
		want                    map[string][]string
	}{
		{"a success", "GET", "/v1/plans/free", "k", 204, deprecated},
		{"its head", "HEAD", "/v1/plans/free", "k", 204, deprecated},
		{"no credential", "GET", "/v1/plans/free", "", 401, deprecated},
		{"a wrong request", "GET", "/v1/plans/too-long", "k", 400, deprecated},
		{"the handler's refusal", "GET", "/v1/plans/lost", "k", 404, deprecated},
		{"another operation of the path", "DELETE", "/v1/plans/free", "", 204, unchanged},
		{"nothing", "GET", "/v1/nothing", "", 404, unchanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.key != "" {
				request.Header.Set("X-API-Key", test.key)
			}
			answer, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			got := map[string][]string{}
			for name := range test.want {
				got[name] = answer.Header.Values(name)
				if len(got[name]) == 0 {
					got[name] = nil
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || answer.StatusCode != test.status {
				t.Errorf("%d, want %d; headers (-want +got):\n%s", answer.StatusCode, test.status, diff)
			}
		})
	}
}

func TestParse_RequiresSixMonthsNotice(t *testing.T) {
	for name, test := range map[string]struct{ old, replacement, want string }{
		"six months":              {"", "", ""},
		"the end of a month":      {"2027-01-01\n      x-sunset: '2027-07-01'", "2026-08-31\n      x-sunset: '2027-03-03'", ""},
		"no date":                 {"      x-deprecated-at: 2027-01-01\n", "", "x-deprecated-at must be a date"},
		"no sunset":               {"      x-sunset: '2027-07-01'\n", "", "x-sunset must be a date"},
		"no day":                  {"2027-01-01", "January", "x-deprecated-at must be a date such as 2027-01-31, not January"},
		"a day too few":           {"2027-07-01", "2027-06-30", "not before 2027-07-01"},
		"a sunset before":         {"2027-07-01", "2026-01-01", "not before 2027-07-01"},
		"dates of one that stays": {"      deprecated: true\n", "", "require deprecated: true"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(deprecatedSpec, test.old, test.replacement, 1)
			if test.old != "" && text == deprecatedSpec {
				t.Fatal("the test did not change the document")
			}
			_, err := loadText(t, text)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "GET /v1/plans/{planId}")):
				t.Errorf("error %v, want one of GET /v1/plans/{planId} with %q", err, test.want)
			}
		})
	}
}
