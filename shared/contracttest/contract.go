// Package contracttest is a test client that holds both sides of an exchange to the
// OpenAPI document. A test uses it like any other client:
//
//	client := contract.New(t, document, nil)
//	res, err := client.Get(server.URL + "/v1/plans")
//
// and fails when the answer, or its own request, departs from the document:
//
//   - a path or method that is not in the document, unless the context says
//     AllowUndocumentedRoute;
//   - a status or content type that the operation does not document, a header
//     that it requires and that is missing, or that it does not document and is
//     none of those that any HTTP server sends; a body that its schema does not
//     allow, formats included;
//   - a property that the schema does not name, which is how a misspelt one
//     looks; an envelope whose success contradicts the status;
//   - a request that is not valid, unless the context says AllowInvalidRequest;
//   - a deliberately wrong request that is answered as if it were right;
//   - an answer to a request that carries none of the credentials its operation
//     asks for.
//
// The bodies of streams, downloads and pages are not read: only JSON is judged.
//
// A Validator does the same for what is no test, such as a proxy. What either has
// judged is recorded where the environment says so, see ObservationsVariable.
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

// New returns a client whose exchanges are held to the document; what departs
// from it fails t. The base makes the exchange, http.DefaultTransport when nil.
// Redirects are not followed: each answer is the server's own.
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

// AllowInvalidRequest marks the requests of a context as wrong on purpose, for tests of
// refusals: they may depart from the document, but then must be refused.
func AllowInvalidRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowInvalidKey, true)
}

// AllowUndocumentedRoute marks the requests of a context as aimed at a path or method
// that is not in the document. An answer of 404 or 405 must still be the failure
// envelope.
func AllowUndocumentedRoute(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowUndocumentedKey, true)
}

func marked(r *http.Request, key contextKey) bool {
	set, _ := r.Context().Value(key).(bool)
	return set
}
