package app

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
)

// badRequest is a defect that a request of many operations can have.
type badRequest struct {
	name    string
	status  int
	applies func(op operation) bool // whether requests of the operation can have the defect
	spoil   func(r *http.Request)
}

var badRequests = []badRequest{
	{"a query parameter that does not exist", http.StatusBadRequest, guarded, func(r *http.Request) {
		query := r.URL.Query()
		query.Set("nonsense", "1")
		r.URL.RawQuery = query.Encode()
	}},
	{"a body of another type", http.StatusUnsupportedMediaType, guardedBody, func(r *http.Request) {
		r.Header.Set("Content-Type", "text/plain")
	}},
	{"a body that is too large", http.StatusRequestEntityTooLarge, hasBody, func(r *http.Request) {
		text := strings.Repeat(" ", 1<<20+1)
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	}},
	{"a page of another site", http.StatusForbidden, forBrowsers, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}},
	{"a page of another site, without a key", http.StatusUnauthorized, forWorkers, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Del("X-API-Key")
	}},
}

func guarded(op operation) bool { return op.Extensions["x-guard"] != "none" }

func hasBody(op operation) bool { return op.RequestBody != nil }

func guardedBody(op operation) bool { return guarded(op) && hasBody(op) }

// forBrowsers reports whether the operation changes something and accepts a cookie or
// no credential.
func forBrowsers(op operation) bool {
	reads := op.method == http.MethodGet || op.method == http.MethodHead
	return !reads && (len(op.schemes) == 0 || op.schemes[byCookie])
}

func forWorkers(op operation) bool { return len(op.schemes) == 1 && op.schemes[byKey] }

// TestOperations_RefuseBadRequestsAsDocumented sends each possible bad request to every
// operation. The document must list exactly the statuses of the bad requests that are
// possible.
func TestOperations_RefuseBadRequestsAsDocumented(t *testing.T) {
	h := newTestEnv(t, map[string]string{"OIDC_ISSUER": signInProvider(t), "OIDC_CLIENT_ID": "svc", "OIDC_CLIENT_SECRET": "secret"})
	h.publish(t)
	hash := cheapHash(t)
	h.eachOperation(t, func(t *testing.T, op operation, r request) {
		t.Parallel()
		a := h.attempt(t, op, r, hash)
		a.prepare()
		for _, defect := range badRequests {
			if !defect.applies(op) {
				continue
			}
			bad := a.compose()
			defect.spoil(bad)
			got := a.send(bad.WithContext(contracttest.AllowInvalidRequest(t.Context())))
			if got.status != defect.status {
				t.Errorf("%s: got %s %s, want %d", defect.name, got, got.body, defect.status)
			}
			if !documents(op, defect.status) {
				t.Errorf("%s: the document does not have %d", defect.name, defect.status)
			}
		}
		for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType} {
			possible := slices.ContainsFunc(badRequests, func(tr badRequest) bool { return tr.status == status && tr.applies(op) })
			if documents(op, status) && !possible {
				t.Errorf("the document has %d, but no bad request gets it", status)
			}
		}
	})
}

// TestIdempotencyKey_RefusesReuseForAnotherRequest reuses a key, first for a different
// request and then for the same request, for every operation that accepts keys.
func TestIdempotencyKey_RefusesReuseForAnotherRequest(t *testing.T) {
	const header = "Idempotency-Key"
	h, hash, requests := newTestEnv(t, nil), cheapHash(t), 0
	t.Run("ask", func(t *testing.T) {
		h.eachOperation(t, func(t *testing.T, op operation, r request) {
			parameter := op.Parameters.GetByInAndName(openapi3.ParameterInHeader, header)
			if parameter == nil {
				return
			}
			requests++
			t.Parallel()
			a := h.attempt(t, op, r, hash)
			a.prepare()
			first, other, again := a.compose(), a.compose(), a.compose()
			for _, r := range []*http.Request{first, other, again} {
				r.Header.Set(header, "once")
				r.Header.Set("X-Forwarded-For", first.Header.Get("X-Forwarded-For")) // a caller without a credential is identified by address
			}
			other.URL.RawQuery = "&" // an empty query, but a different fingerprint
			if got := a.send(first); !got.succeeded() {
				t.Fatalf("first request: got %s %s, want success", got, got.body)
			}
			if got := a.send(other); got.status != http.StatusConflict {
				t.Errorf("different request: got %s %s, want 409", got, got.body)
			}
			if got := a.send(again); got.succeeded() == (parameter.Extensions["x-shown-once"] == true) {
				t.Errorf("repeated request: got %s %s", got, got.body)
			}
			if !documents(op, http.StatusConflict) {
				t.Error("the document does not have 409")
			}
		})
	})
	if requests == 0 {
		t.Error("no operation accepts a key")
	}
}

// eachOperation runs a test for each operation, with its first request in requests.
func (h *testEnv) eachOperation(t *testing.T, test func(t *testing.T, op operation, r request)) {
	t.Helper()
	operations, done := operationsOf(h.document.T()), map[string]bool{}
	for _, r := range requests {
		if !done[r.operation] {
			done[r.operation] = true
			t.Run(r.operation, func(t *testing.T) { test(t, operations[r.operation], r) })
		}
	}
}

// attempt returns a call with the first credential that the operation accepts.
func (h *testEnv) attempt(t *testing.T, op operation, r request, passwordHash string) *call {
	t.Helper()
	a := &call{t: t, env: h, client: contracttest.New(t, h.document, nil), op: op, request: r}
	a.ours, a.theirs = newTenant(passwordHash), newTenant(passwordHash)
	for _, c := range credentials {
		if c.scheme == "" && len(op.schemes) == 0 || c.scheme != "" && op.schemes[c.scheme] {
			a.credential = c
			return a
		}
	}
	t.Fatal("the operation accepts none of the credentials")
	return nil
}

// documents reports whether the document lists the status for the operation.
func documents(op operation, status int) bool {
	return op.Responses.Value(fmt.Sprint(status)) != nil
}
