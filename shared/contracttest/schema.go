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

// Violations lists where a value departs from a schema, formats included. A
// property that the schema does not name departs from it even where it would be
// allowed. The options say whose value it is: openapi3.VisitAsRequest or
// VisitAsResponse.
func Violations(schema *openapi3.Schema, value any, options ...openapi3.SchemaValidationOption) []string {
	found := describe(schema.VisitJSON(value, append(options, openapi3.MultiErrors(), formats())...))
	for _, path := range undocumentedPaths([]*openapi3.Schema{schema}, value, "") {
		found = append(found, path+" is not in the schema")
	}
	return found
}

// undocumentedPaths lists the paths of the properties in value that none of the schemas
// names. Answers are open in the document, so that a client survives a new
// property; a server that sends one nobody wrote down is wrong all the same. An
// object whose schema allows additional properties, or names none, is free.
func undocumentedPaths(schemas []*openapi3.Schema, value any, path string) []string {
	parts := compose(schemas)
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			candidates, free := propertySchemas(parts, key)
			at := strings.TrimPrefix(path+"."+key, ".")
			if len(candidates) > 0 {
				found = append(found, undocumentedPaths(candidates, value[key], at)...)
			} else if !free {
				found = append(found, at)
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

// compose adds the schemas that the given ones are composed of.
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

// describe puts a validation error into one line a problem.
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

// isFree reports whether a schema allows every value, null included: in OpenAPI
// 3.0.3 only a schema with a type has to allow null by name.
func isFree(s *openapi3.Schema) bool {
	return s.Type == nil && len(s.Enum)+len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0
}

// branchesOf finds what each schema of a composition says; nil for an error that
// is about no composition.
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

// formats checks the formats that the document uses and the validator leaves
// open by itself.
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
