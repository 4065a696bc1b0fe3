package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// skippedExamples contains the operations whose examples cannot be sent, and the
// reason.
var skippedExamples = map[string]string{
	"startOidcSignIn":    "no OpenID provider",
	"completeOidcSignIn": "no OpenID provider",
	"receiveStripeEvent": "only Stripe can sign an event",
	"deleteMachine":      "a machine is offline only after two minutes",
}

// examples sends all request examples of the documents with the IDs of seeded
// resources, and a request for each operation without a body. All must succeed. The
// other examples are validated against their schemas.
func (h *testEnvironment) examples(ctx context.Context) (string, error) {
	wrong := slices.Concat(invalidExamples("cloud", h.documents.cloud.T()), invalidExamples("worker", h.documents.worker.T()))
	var problems []error
	for _, text := range wrong {
		problems = append(problems, errors.New(text))
	}
	p := newExampleRunner(h)
	all := append(exampleRequests("cloud", h.documents.cloud.T()), exampleRequests("worker", h.documents.worker.T())...)
	sent, left := 0, 0
	for _, request := range all {
		id := request.operation.OperationID
		if h.only != "" && h.only != id {
			continue
		}
		if _, ok := skippedExamples[id]; ok {
			left++
			continue
		}
		sent++
		if err := p.run(ctx, request); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", request, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	for id := range skippedExamples {
		if !slices.ContainsFunc(all, func(request exampleRequest) bool { return request.operation.OperationID == id }) {
			problems = append(problems, fmt.Errorf("%s is in skippedExamples, but is not an operation", id))
		}
	}
	summary := fmt.Sprintf("%d requests sent, %d skipped, %d other examples validated", sent, left,
		len(schemaExamples("cloud", h.documents.cloud.T()))+len(schemaExamples("worker", h.documents.worker.T())))
	return summary, errors.Join(problems...)
}

// exampleRequest is an example request of a document.
type exampleRequest struct {
	surface, method, path, name string
	item                        *openapi3.PathItem
	operation                   *openapi3.Operation
	spec                        *openapi3.T
	body                        any // nil for none
}

// String implements fmt.Stringer.
func (e exampleRequest) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s (%s) %s", e.method, e.path, e.operation.OperationID, e.name))
}

// exampleRequests lists the examples of request bodies, and one request for each
// operation without a body, in the order of the paths.
func exampleRequests(surface string, spec *openapi3.T) []exampleRequest {
	var all []exampleRequest
	paths := spec.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		operations := paths[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			request := exampleRequest{surface: surface, method: method, path: path, item: paths[path], operation: operations[method], spec: spec}
			bodies := bodiesOf(request.operation)
			if len(bodies) == 0 {
				all = append(all, request)
			}
			for _, name := range slices.Sorted(maps.Keys(bodies)) {
				request.name, request.body = name, bodies[name]
				all = append(all, request)
			}
		}
	}
	return all
}

func bodiesOf(operation *openapi3.Operation) map[string]any {
	if operation.RequestBody == nil {
		return nil
	}
	return examplesOf(operation.RequestBody.Value.Content.Get("application/json"))
}

// examplesOf returns the examples of a body by name. A single example has no name.
func examplesOf(media *openapi3.MediaType) map[string]any {
	if media == nil {
		return nil
	}
	found := map[string]any{}
	if media.Example != nil {
		found[""] = media.Example
	}
	for name, ref := range media.Examples {
		found[name] = ref.Value.Value
	}
	return found
}
