package oapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// itemsSpec has concrete paths that look like items.
const itemsSpec = `
openapi: 3.0.3
info: {title: items, version: 1.0.0}
paths:
  /items/{itemId}:
    parameters: [{name: itemId, in: path, required: true, schema: {type: string, format: uuid}}]
    get: {operationId: a, security: [{key: []}], responses: {'204': {description: Nothing.}}}
    delete: {operationId: b, security: [{key: []}], responses: {'204': {description: Nothing.}}}
  /items/stats:
    get: {operationId: c, security: [], responses: {'204': {description: Nothing.}}}
  /items/new:
    post: {operationId: d, security: [], responses: {'204': {description: Nothing.}}}
  /boxes/{boxId}/items/{itemId}:
    parameters: [{name: boxId, in: path, required: true, schema: {type: string}}, {name: itemId, in: path, required: true, schema: {type: string, format: uuid}}]
    put: {operationId: e, security: [{key: []}], responses: {'204': {description: Nothing.}}}
  /boxes/{boxId}/items/stats:
    parameters: [{name: boxId, in: path, required: true, schema: {type: string}}]
    get: {operationId: f, security: [], responses: {'204': {description: Nothing.}}}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-API-Key}
`

func TestGuard_RefusesUndeclaredMethodOfConcretePath(t *testing.T) {
	document, err := loadText(t, itemsSpec)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"key": func(r *http.Request) (context.Context, error) { return r.Context(), nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware())
	succeed := func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }
	for _, route := range [][2]string{
		{"GET", "/items/:itemId"}, {"DELETE", "/items/:itemId"}, {"GET", "/items/stats"}, {"POST", "/items/new"},
		{"PUT", "/boxes/:boxId/items/:itemId"}, {"GET", "/boxes/:boxId/items/stats"},
	} {
		e.Add(route[0], route[1], succeed)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/items/stats", 204, ""},
		{"DELETE", "/items/stats", 405, "GET, HEAD"},
		{"DELETE", "/items/st%61ts", 405, "GET, HEAD"},
		{"GET", "/items/new", 405, "POST"},
		{"HEAD", "/items/new", 405, "POST"},
		{"DELETE", "/items/new", 405, "POST"},
		{"DELETE", "/items/other", 400, ""},
		{"DELETE", "/items/" + thingID, 204, ""},
		{"PUT", "/boxes/stats/items/stats", 405, "GET, HEAD"},
		{"PUT", "/boxes/stats/items/" + thingID, 204, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Allow"); answer.StatusCode != test.status || got != test.allow {
			t.Errorf("%s %s: %d, Allow %q, want %d, %q", test.method, test.path, answer.StatusCode, got, test.status, test.allow)
		}
	}
}
