package oapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

func TestInspect_ChecksSelfAuthorizingOperation(t *testing.T) {
	guard := newGuard(t, oapi.Options{})
	e := echo.New()
	e.Use(guard.Middleware())
	var reached bool
	var found error
	e.POST("/self/:id", func(c echo.Context) error {
		reached, found = true, guard.Inspect(c)
		return c.NoContent(http.StatusOK)
	})
	e.GET("/elsewhere", func(c echo.Context) error {
		reached, found = true, guard.Inspect(c)
		return c.NoContent(http.StatusOK)
	})
	for _, tc := range []struct{ method, target, body, field string }{
		{"POST", "/self/5", ``, ""},
		{"POST", "/self/0", ``, "id"},
		{"POST", "/self/5?nonsense=1", ``, "nonsense"},
		{"POST", "/self/5", `{"nonsense":1}`, "nonsense"},
		{"GET", "/elsewhere?nonsense=1", ``, ""},
	} {
		reached, found = false, nil
		r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.target, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", "application/json")
		e.ServeHTTP(httptest.NewRecorder(), r)
		if !reached {
			t.Errorf("%s %s did not reach its handler", tc.method, tc.target)
		}
		if got := fields(found); tc.field == "" && found != nil || tc.field != "" && !strings.Contains(got, tc.field) {
			t.Errorf("%s %s %s: %v [%s]", tc.method, tc.target, tc.body, found, got)
		}
	}
}

func TestCheckBody(t *testing.T) {
	guard := newGuard(t, oapi.Options{})
	if _, err := guard.CheckBody("postSelf", []byte(`{"nonsense":1}`)); !strings.Contains(fields(err), "nonsense") {
		t.Errorf("an unknown key: %v", err)
	}
	if _, err := guard.CheckBody("postSelf", []byte(`{`)); !fault.Is(err, fault.Validation) {
		t.Errorf("invalid JSON: %v", err)
	}
	if text, err := guard.CheckBody("postSelf", []byte(` {"name":"abc"} `)); err != nil || !strings.Contains(string(text), `"name":"abc"`) {
		t.Errorf("valid body: %q, %v", text, err)
	}
	if _, err := guard.CheckBody("upload", []byte(`{}`)); err == nil || fault.Is(err, fault.Validation) {
		t.Errorf("an operation without a JSON body: %v", err)
	}
}

// fields returns the fields in the details of a fault.
func fields(err error) string {
	if err == nil {
		return ""
	}
	var names []string
	for _, detail := range fault.From(err).Details {
		names = append(names, detail.Field)
	}
	return strings.Join(names, " ")
}

// TestBody_ReportsWholeBody sends other values than an object to an operation whose body has
// secrets, and to one without a body.
func TestBody_ReportsWholeBody(t *testing.T) {
	secret := `[{"name":"ab","proxy":{"server":"s","password":"hunter2","pasword":"hunter2"}},"hunter2",[{"pasword":"hunter2"}]]`
	for body, received := range map[string]string{
		`5`: `5`, `true`: `true`, `[]`: `[]`, `[1]`: `[1]`, `"x"`: `"x"`,
		`"https://ann:hunter2@a.example"`:         `"https://***@a.example"`,
		`"{\"proxy\":{\"pasword\":\"hunter2\"}}"`: ``,
		`"password=hunter2"`:                      ``,
		secret:                                    `[{"name":"ab","proxy":{"server":"s"}},"***","***"]`,
	} {
		got := send(t, call{body: body})
		want := []expectedDetail{{"body", "INVALID_TYPE", received, `{"type":"object"}`, "must be an object"}}
		if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
			t.Errorf("%s: status %d: %s", body, got.status, diff)
		}
	}
	for _, received := range []string{`5`, `[]`, `"x"`} {
		got := send(t, call{method: http.MethodGet, target: "/open", body: received})
		want := []expectedDetail{{"body", "UNRECOGNIZED_KEY", received, ``, "this operation does not accept a body"}}
		if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
			t.Errorf("%s: status %d: %s", received, got.status, diff)
		}
	}
}
