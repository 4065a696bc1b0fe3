package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
)

// schemaExample is an example that is only validated: of a response, a parameter, a
// header or a schema.
type schemaExample struct {
	where   string
	schema  *openapi3.Schema
	value   any
	options []openapi3.SchemaValidationOption
}

// invalidExamples lists the examples that do not match their schemas.
func invalidExamples(surface string, spec *openapi3.T) []string {
	var wrong []string
	for _, example := range schemaExamples(surface, spec) {
		for _, violation := range contracttest.Violations(example.schema, example.value, example.options...) {
			wrong = append(wrong, fmt.Sprintf("%s: the example does not match the schema: %s", example.where, violation))
		}
	}
	return wrong
}

func schemaExamples(surface string, spec *openapi3.T) []schemaExample {
	var all []schemaExample
	add := func(where string, schema *openapi3.SchemaRef, value any, options ...openapi3.SchemaValidationOption) {
		if schema != nil && value != nil {
			all = append(all, schemaExample{surface + " " + where, schema.Value, value, options})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		item := spec.Paths.Value(path)
		for method, operation := range item.Operations() {
			parameters(add, operation.OperationID, slices.Concat(item.Parameters, operation.Parameters))
			for name, body := range bodiesOf(operation) {
				add(operation.OperationID+" request "+name, operation.RequestBody.Value.Content.Get("application/json").Schema, body, openapi3.VisitAsRequest())
			}
			for status, ref := range operation.Responses.Map() {
				where := fmt.Sprintf("%s (%s %s) %s", operation.OperationID, method, path, status)
				response(add, where, ref.Value)
			}
		}
	}
	if spec.Components != nil {
		for name, ref := range spec.Components.Schemas {
			schemas(add, "schema "+name, ref, 0)
		}
	}
	return all
}

type addExampleFunc func(where string, schema *openapi3.SchemaRef, value any, options ...openapi3.SchemaValidationOption)

func parameters(add addExampleFunc, where string, all openapi3.Parameters) {
	for _, ref := range all {
		add(where+" parameter "+ref.Value.Name, ref.Value.Schema, ref.Value.Example)
		for name, example := range ref.Value.Examples {
			add(where+" parameter "+ref.Value.Name+" "+name, ref.Value.Schema, example.Value.Value)
		}
	}
}

func response(add addExampleFunc, where string, response *openapi3.Response) {
	for name, ref := range response.Headers {
		add(where+" header "+name, ref.Value.Schema, ref.Value.Example)
	}
	for kind, media := range response.Content {
		for name, value := range examplesOf(media) {
			add(where+" "+kind+" "+name, media.Schema, value, openapi3.VisitAsResponse())
		}
	}
}

// schemas adds the example of a schema and the examples of its unnamed subschemas.
func schemas(add addExampleFunc, where string, ref *openapi3.SchemaRef, depth int) {
	if ref == nil || ref.Value == nil || depth > 0 && ref.Ref != "" {
		return
	}
	add(where, ref, ref.Value.Example)
	for name, property := range ref.Value.Properties {
		schemas(add, where+"."+name, property, depth+1)
	}
	schemas(add, where+"[]", ref.Value.Items, depth+1)
}
