package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/oapi/bundled"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// requestDefect is what can be wrong with a request whatever it is about.
type requestDefect struct {
	name    string
	status  int
	applies func(op *openapi3.Operation) bool // the operations whose requests can have it
	apply   func(r *http.Request)
}

var requestDefects = []requestDefect{
	{"without the key", http.StatusUnauthorized, needsKey, func(r *http.Request) { r.Header.Del("X-API-Key") }},
	{"a query parameter that does not exist", http.StatusBadRequest, anyOperation, func(r *http.Request) {
		query := r.URL.Query()
		query.Set("nonsense", "1")
		r.URL.RawQuery = query.Encode()
	}},
	{"a body of another type", http.StatusUnsupportedMediaType, hasBody, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
	{"a body that is too large", http.StatusRequestEntityTooLarge, hasBody, func(r *http.Request) {
		text := strings.Repeat(" ", 1<<20+1)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}},
}

func anyOperation(*openapi3.Operation) bool { return true }
func hasBody(op *openapi3.Operation) bool   { return op.RequestBody != nil }
func needsKey(op *openapi3.Operation) bool  { return op.Security == nil || len(*op.Security) > 0 }
func hasNoBody(op *openapi3.Operation) bool { return op.RequestBody == nil }

// validRequests are the requests that take more than the path of their operation.
var validRequests = map[string]struct{ query, body string }{
	"listAndroidModels": {query: "?browserVersion=156"},
	"launchProfile":     {body: `{"profileId":"` + profile + `"}`},
}

// TestOperations_RefuseInvalidRequestsAsDocumented spoils a good request to every
// operation in every way that it can be spoilt.
func TestOperations_RefuseInvalidRequestsAsDocumented(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	r.eachOperation(t, func(t *testing.T, op *openapi3.Operation, compose func(context.Context) *http.Request) {
		for _, trouble := range requestDefects {
			if !trouble.applies(op) {
				continue
			}
			spoilt := compose(contracttest.AllowInvalidRequest(t.Context()))
			trouble.apply(spoilt)
			if status := r.status(t, spoilt); status != trouble.status || !documents(op, status) {
				t.Errorf("%s: answers %d, want %d; the document has it: %v", trouble.name, status, trouble.status, documents(op, status))
			}
		}
		for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType} {
			if hasNoBody(op) && documents(op, status) {
				t.Errorf("the document has %d, and nothing leads there", status)
			}
		}
	})
}

// failingDependency is a machine that fails in all that it is asked for.
type failingDependency struct{}

var errInternal = errors.New("a disk, say")

func (failingDependency) Find(context.Context) ([]browser.Build, error) { return nil, errInternal }

func (failingDependency) LaunchToken(string) (string, time.Time, error) {
	return "", time.Time{}, errInternal
}
func (failingDependency) PageToken(string, time.Time) (string, error) { return "", errInternal }
func (failingDependency) IsSpent(string, ticket.Claims) bool          { return false }

// TestOperations_InternalErrorsAsDocumented breaks what the operations need:
// those that the document has 500 for fail, and no others.
func TestOperations_InternalErrorsAsDocumented(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	r.server.Builds, r.server.Links.Tokens, r.err = failingDependency{}, failingDependency{}, errInternal
	r.eachOperation(t, func(t *testing.T, op *openapi3.Operation, compose func(context.Context) *http.Request) {
		status := r.status(t, compose(t.Context()))
		if failed := status == http.StatusInternalServerError; failed != documents(op, http.StatusInternalServerError) {
			t.Errorf("answers %d, which is not what the document says", status)
		}
	})
}

// eachOperation runs a test for each operation that this package answers; compose
// makes a good request for it. Each has a session that runs.
func (r *testServer) eachOperation(t *testing.T, test func(t *testing.T, op *openapi3.Operation, compose func(context.Context) *http.Request)) {
	t.Helper()
	document, err := bundled.Load(t.Context(), openapi.Files, "worker.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.T().Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, "raw") {
				continue
			}
			session := r.add(started)
			address := r.url + strings.ReplaceAll(path, "{sessionId}", session.ID.String()) + validRequests[op.OperationID].query
			t.Run(op.OperationID, func(t *testing.T) {
				test(t, op, func(ctx context.Context) *http.Request {
					return request(ctx, t, method, address, validRequests[op.OperationID].body)
				})
			})
		}
	}
}

func request(ctx context.Context, t *testing.T, method, address, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	if body == "" {
		r.Body = http.NoBody
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (r *testServer) status(t *testing.T, request *http.Request) int {
	t.Helper()
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// documents reports whether the operation names the status.
func documents(op *openapi3.Operation, status int) bool {
	return op.Responses.Value(fmt.Sprint(status)) != nil
}
