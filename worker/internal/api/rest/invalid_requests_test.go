package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
)

// requestDefect is a defect that a request to any operation can have.
type requestDefect struct {
	name    string
	status  int
	applies func(op *openapi3.Operation) bool // reports whether requests of the operation can have the defect
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
		const size = extension.MaxPackage + 1 // more than any operation accepts
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", size))), int64(size)
	}},
}

func anyOperation(*openapi3.Operation) bool { return true }
func hasBody(op *openapi3.Operation) bool   { return op.RequestBody != nil }
func needsKey(op *openapi3.Operation) bool  { return op.Security == nil || len(*op.Security) > 0 }
func hasNoBody(op *openapi3.Operation) bool { return op.RequestBody == nil }

// validRequests contains the queries and bodies that operations require.
var validRequests = map[string]struct{ query, body, contentType string }{
	"createExtension":   {body: "package", contentType: "application/octet-stream"},
	"listAndroidModels": {query: "?browserVersion=156"},
	"launchProfile":     {body: `{"profileId":"` + profile + `"}`},

	"updateBrowserSession": {body: `{"name":"a"}`},
}

// TestOperations_RefuseInvalidRequestsAsDocumented sends each operation a valid
// request with each defect.
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
				t.Errorf("%s: got %d, want %d; documented: %v", trouble.name, status, trouble.status, documents(op, status))
			}
		}
		for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType} {
			if hasNoBody(op) && documents(op, status) {
				t.Errorf("the documented status %d cannot be reached", status)
			}
		}
	})
}

// failingDependency is a dependency whose methods fail.
type failingDependency struct{}

var errInternal = errors.New("disk failure")

func (failingDependency) Find(context.Context) ([]builds.Build, error) { return nil, errInternal }

func (failingDependency) LaunchToken(string) (string, time.Time, error) {
	return "", time.Time{}, errInternal
}
func (failingDependency) PageToken(string, ticket.Page, time.Time) (string, error) {
	return "", errInternal
}
func (failingDependency) IsSpent(string, ticket.Claims, ticket.Page) bool { return false }

// TestOperations_InternalErrorsAsDocumented makes the dependencies of the operations
// fail: exactly those with a documented 500 must fail.
func TestOperations_InternalErrorsAsDocumented(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	r.server.Builds, r.server.Links.Tokens, r.err = failingDependency{}, failingDependency{}, errInternal
	r.eachOperation(t, func(t *testing.T, op *openapi3.Operation, compose func(context.Context) *http.Request) {
		status := r.status(t, compose(t.Context()))
		if failed := status == http.StatusInternalServerError; failed != documents(op, http.StatusInternalServerError) {
			t.Errorf("got %d, which is not documented", status)
		}
	})
}

// eachOperation runs a test for each operation of this package. compose creates a
// valid request. A session runs in each test.
func (r *testServer) eachOperation(t *testing.T, test func(t *testing.T, op *openapi3.Operation, compose func(context.Context) *http.Request)) {
	t.Helper()
	document := contracttest.Load(t, "worker.yaml")
	for path, item := range document.T().Paths.Map() {
		for method, op := range item.Operations() {
			if op.Extensions["x-raw"] == true {
				continue
			}
			session := r.add(started)
			filled := strings.NewReplacer("{sessionId}", session.ID.String(), "{extensionId}", storedExtension.ID).Replace(path)
			valid := validRequests[op.OperationID]
			t.Run(op.OperationID, func(t *testing.T) {
				test(t, op, func(ctx context.Context) *http.Request {
					req := request(ctx, t, method, r.url+filled+valid.query, valid.body)
					if valid.contentType != "" {
						req.Header.Set("Content-Type", valid.contentType)
					}
					return req
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
