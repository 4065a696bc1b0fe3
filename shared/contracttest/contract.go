// Package contracttest has an HTTP client for tests that validates requests and
// responses against the OpenAPI document:
//
//	client := contracttest.New(t, document, nil)
//	res, err := client.Get(server.URL + "/v1/plans")
//
// The client fails the test for
//
//   - a path or method that is not in the document, unless the context has
//     AllowUndocumentedRoute;
//   - an undocumented status or content type, a missing required header, an
//     undocumented header that is not a standard one, or a body that violates its
//     schema, including formats;
//   - a property that is not in the schema, or an envelope whose success does not
//     match the status;
//   - an invalid request, unless the context has AllowInvalidRequest;
//   - an invalid request that is accepted;
//   - an accepted request without a required credential.
//
// Only JSON bodies are read; streams, downloads and pages are not.
//
// A Validator does the same outside of tests, for example in a proxy. The checked
// exchanges are recorded if the environment has ObservationsVariable.
package contracttest

import (
	"context"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a loaded and resolved OpenAPI document.
type Document interface {
	T() *openapi3.T
}

// New returns a client that fails t for exchanges that violate the document. It
// sends requests with base, or http.DefaultTransport if base is nil. It does not
// follow redirects.
func New(t testing.TB, document Document, base http.RoundTripper) *http.Client {
	judged := NewValidator(document).Transport(base, func(x *Exchange) {
		if len(x.Findings) > 0 {
			t.Errorf("%s", x.Report())
		}
	})
	return &http.Client{
		Transport:     judged,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type contextKey int

const (
	allowInvalidKey contextKey = iota
	allowUndocumentedKey
)

// AllowInvalidRequest allows invalid requests in a context, for tests of refusals.
// An invalid request must still be refused.
func AllowInvalidRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowInvalidKey, true)
}

// AllowUndocumentedRoute allows requests for a path or method that is not in the
// document. A 404 or 405 response must still be the failure envelope.
func AllowUndocumentedRoute(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowUndocumentedKey, true)
}

func marked(r *http.Request, key contextKey) bool {
	set, _ := r.Context().Value(key).(bool)
	return set
}
