package oapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// keysSpec has an operation for each set of credentials of the two programs.
const keysSpec = `
openapi: 3.0.3
info: {title: keys, version: 1.0.0}
paths:
  /worker: {get: {operationId: a, security: [{workerKey: []}], responses: {'204': {description: Nothing.}}}}
  /cloud: {get: {operationId: b, security: [{organizationKey: []}], responses: {'204': {description: Nothing.}}}}
  /dashboard: {get: {operationId: c, security: [{dashboardSession: []}, {dashboardBearer: []}], responses: {'204': {description: Nothing.}}}}
  /profiles: {get: {operationId: e, x-scope: 'profiles:read', security: [{dashboardSession: []}, {dashboardBearer: []}], responses: {'204': {description: Nothing.}}}}
  /builds: {get: {operationId: d, security: [{organizationKey: []}, {dashboardBearer: []}], responses: {'204': {description: Nothing.}}}}
components:
  securitySchemes:
    workerKey: {type: apiKey, in: header, name: X-API-Key}
    organizationKey: {type: apiKey, in: header, name: X-API-Key}
    dashboardSession: {type: apiKey, in: cookie, name: svc_session}
    dashboardBearer: {type: http, scheme: bearer}
`

// refusing returns an authenticator that refuses every credential it finds.
func refusing(credential func(*http.Request) string, message string) oapi.Authenticator {
	return func(r *http.Request) (context.Context, error) {
		if credential(r) == "" {
			return nil, oapi.ErrNoCredential
		}
		return nil, fault.New(fault.Unauthenticated, message)
	}
}

func TestGuard_NamesRequiredAndWrongKey(t *testing.T) {
	document, err := loadText(t, keysSpec)
	if err != nil {
		t.Fatal(err)
	}
	header := func(r *http.Request) string { return r.Header.Get("X-API-Key") }
	session := refusing(func(r *http.Request) string { return oapi.BearerToken(r.Header) }, "The session has ended.")
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"workerKey": refusing(header, "The worker key is invalid."), "organizationKey": refusing(header, "The organization key is invalid."),
		"dashboardSession": refusing(func(*http.Request) string { return "" }, ""), "dashboardBearer": session,
	}})
	if err != nil {
		t.Fatal(err)
	}
	const (
		worker    = "This request requires the worker key (API_KEY of the worker, or its SVC_KEY if API_KEY is not set) in X-API-Key."
		cloud     = "This request requires an organization key (svc_, from the dashboard) in X-API-Key."
		dashboard = "This request requires a dashboard session (of sign-in) in the cookie svc_session, or the token of a dashboard session as Authorization: Bearer."
		builds    = "This request requires an organization key (svc_, from the dashboard) in X-API-Key, or the token of a dashboard session as Authorization: Bearer."
	)
	scoped := strings.TrimSuffix(dashboard, ".") + ", or an access token (svct_) as Authorization: Bearer."
	for _, test := range []struct{ path, key, bearer, want string }{
		{"/worker", "", "svct_a", "Authorization has an access token. " + worker},
		{"/worker", "svct_a", "", "X-API-Key has an access token. " + worker},
		{"/cloud", "SVCT_A", "", "X-API-Key has an access token. " + cloud},
		{"/dashboard", "", "svct_a", "Authorization has an access token. " + dashboard},
		{"/profiles", "", "", scoped},
		{"/profiles", "", "svct_a", "The session has ended."},
		{"/profiles", "svct_a", "", "X-API-Key has an access token. " + scoped},
		{"/profiles", "svct_a", "svct_a", "X-API-Key has an access token. " + scoped},
		{"/profiles", "", "svc_a", "Authorization has an organization key. " + scoped},
		{"/worker", "", "", worker},
		{"/worker", "mine", "", "The worker key is invalid."},
		{"/worker", "wrk_a", "", "The worker key is invalid."},
		{"/worker", "svc_a", "", "X-API-Key has an organization key. " + worker},
		{"/worker", "", "wrk_a", "Authorization has a worker key. " + worker},
		{"/cloud", "", "", cloud},
		{"/cloud", "SVC_A", "", "The organization key is invalid."},
		{"/cloud", "wrk_a", "", "X-API-Key has a worker key. " + cloud},
		{"/cloud", "", "svc_a", "Authorization has an organization key. " + cloud},
		{"/dashboard", "svc_a", "", "X-API-Key has an organization key. " + dashboard},
		{"/dashboard", "", "svc_a", "Authorization has an organization key. " + dashboard},
		{"/dashboard", "", "token", "The session has ended."},
		{"/builds", "", "svc_a", "Authorization has an organization key. " + builds},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil)
		r.Header.Set("X-API-Key", test.key)
		if test.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+test.bearer)
		}
		var refusal *fault.Error
		e := echo.New()
		e.Use(guard.Middleware())
		e.GET(test.path, func(echo.Context) error { return nil })
		e.HTTPErrorHandler = func(err error, _ echo.Context) { refusal = fault.From(err) }
		e.ServeHTTP(httptest.NewRecorder(), r)
		if refusal == nil || refusal.Kind != fault.Unauthenticated || refusal.Message != test.want {
			t.Errorf("%s with key %q and token %q: got %v, want %q", test.path, test.key, test.bearer, refusal, test.want)
		}
	}
}
