package contracttest

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/uuid"
)

// Violations returns the differences between a value and a schema, including formats. A
// property that is not in the schema is a violation even if additional properties are
// allowed. The options set whether it is a request or a response:
// openapi3.VisitAsRequest or VisitAsResponse.
func Violations(schema *openapi3.Schema, value any, options ...openapi3.SchemaValidationOption) []string {
	found := describe(schema.VisitJSON(value, append(options, openapi3.MultiErrors(), formats())...))
	for _, path := range undocumentedPaths([]*openapi3.Schema{schema}, value, "") {
		found = append(found, path+" is not in the schema")
	}
	return found
}

// undocumentedPaths returns the paths of the properties in value that are in none of
// the schemas. The document allows additional properties in answers, so that clients
// accept new ones, but the server must not send undocumented ones. Objects whose schema
// explicitly allows additional properties, or has no properties, are not checked.
func undocumentedPaths(schemas []*openapi3.Schema, value any, path string) []string {
	parts := compose(schemas)
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			candidates, free := propertySchemas(parts, key)
			member := strings.TrimPrefix(path+"."+key, ".")
			if len(candidates) > 0 {
				found = append(found, undocumentedPaths(candidates, value[key], member)...)
			} else if !free {
				found = append(found, member)
			}
		}
	case []any:
		var items []*openapi3.Schema
		for _, part := range parts {
			if part.Items != nil {
				items = append(items, part.Items.Value)
			}
		}
		if len(items) == 0 {
			return nil
		}
		for i, item := range value {
			found = append(found, undocumentedPaths(items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return found
}

// compose appends the schemas of which the given ones are composed.
func compose(schemas []*openapi3.Schema) []*openapi3.Schema {
	var all []*openapi3.Schema
	for _, schema := range schemas {
		all = append(all, schema)
		for _, refs := range []openapi3.SchemaRefs{schema.AllOf, schema.OneOf, schema.AnyOf} {
			for _, ref := range refs {
				all = append(all, compose([]*openapi3.Schema{ref.Value})...)
			}
		}
	}
	return all
}

// propertySchemas returns the schemas that the parts have for a property, and
// whether a property without one is allowed.
func propertySchemas(parts []*openapi3.Schema, key string) (candidates []*openapi3.Schema, free bool) {
	named := false
	for _, part := range parts {
		named = named || len(part.Properties) > 0
		if property := part.Properties[key]; property != nil {
			candidates = append(candidates, property.Value)
		}
		additional := part.AdditionalProperties
		free = free || additional.Has != nil && *additional.Has
		if additional.Schema != nil {
			free = true
			if part.Properties[key] == nil {
				candidates = append(candidates, additional.Schema.Value)
			}
		}
	}
	return candidates, free || !named
}

// describe returns a line for each problem in a validation error.
func describe(err error) []string {
	if err == nil {
		return nil
	}
	//nolint:errorlint // the outermost type decides how the rest is read
	switch e := err.(type) {
	case openapi3.MultiError:
		var all []string
		for _, part := range e {
			all = append(all, describe(part)...)
		}
		return all
	case *openapi3filter.RequestError:
		where := "body"
		if e.Parameter != nil {
			where = e.Parameter.In + " parameter " + e.Parameter.Name
		}
		if e.Err == nil {
			return []string{where + ": " + e.Reason}
		}
		var all []string
		for _, problem := range describe(e.Err) {
			all = append(all, where+": "+problem)
		}
		return all
	case *openapi3.SchemaError:
		if e.SchemaField == "nullable" && isFree(e.Schema) {
			return nil
		}
		branches := describe(branchesOf(e))
		if e.SchemaField == "allOf" && len(branches) > 0 {
			return branches
		}
		return append([]string{describeSchemaError(e)}, branches...)
	}
	first, _, _ := strings.Cut(err.Error(), "\nSchema:")
	return []string{first}
}

// isFree reports whether a schema allows every value. In OpenAPI 3.0.3 such a schema
// also allows null, because only a schema with a type must declare nullable.
func isFree(s *openapi3.Schema) bool {
	return s.Type == nil && len(s.Enum)+len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0
}

// branchesOf returns the errors of the schemas in a composition, or nil if the error is
// not about a composition.
func branchesOf(e *openapi3.SchemaError) error {
	for inner := e.Origin; inner != nil; inner = errors.Unwrap(inner) {
		if branches, ok := inner.(openapi3.MultiError); ok { //nolint:errorlint // walks the chain itself
			return branches
		}
	}
	return nil
}

func describeSchemaError(e *openapi3.SchemaError) string {
	var path strings.Builder
	for _, step := range e.JSONPointer() {
		if step != "" && strings.Trim(step, "0123456789") == "" {
			path.WriteString("[" + step + "]")
			continue
		}
		path.WriteString("." + step)
	}
	where := strings.TrimPrefix(path.String(), ".")
	if where != "" {
		where += ": "
	}
	reason := e.Reason
	if reason == "" {
		reason = "does not match the schema's " + e.SchemaField
	}
	value := fmt.Sprintf("%v", e.Value)
	if len(value) > 100 {
		value = value[:100] + "..."
	}
	return fmt.Sprintf("%s%s (got %s)", where, reason, value)
}

// formats returns options that check the document's formats that the validator does not
// check itself.
func formats() openapi3.SchemaValidationOption {
	check := func(ok func(string) bool) openapi3.StringFormatValidator {
		return openapi3.NewCallbackValidator(func(text string) error {
			if !ok(text) {
				return errors.New("is not of this format")
			}
			return nil
		})
	}
	return openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
		"uuid":      check(func(s string) bool { _, err := uuid.Parse(s); return err == nil && len(s) == 36 }),
		"uri":       check(func(s string) bool { u, err := url.Parse(s); return err == nil && u.IsAbs() }),
		"email":     check(func(s string) bool { a, err := mail.ParseAddress(s); return err == nil && a.Address == s }),
		"date-time": check(func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil }),
		"date":      check(func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }),
		"ipv4":      check(func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }),
		"ipv6":      check(func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() }),
	})
}
