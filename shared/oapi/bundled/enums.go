package bundled

import (
	"strings"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"
)

// nameEnumValues gives the values of each named enum constant names that start with
// the name of the schema. Some generators declare all constants in one scope, where
// two enums with the same value would collide.
func nameEnumValues(doc *openapi3.T) {
	for name, ref := range doc.Components.Schemas {
		schema := ref.Value
		if ref.Ref != "" || !schema.Type.Is("string") || len(schema.Enum) == 0 {
			continue
		}
		var constants []string
		for _, value := range schema.Enum {
			if text, isText := value.(string); isText { // null is not a constant
				constants = append(constants, name+pascalCase(text))
			}
		}
		if schema.Extensions == nil {
			schema.Extensions = map[string]any{}
		}
		schema.Extensions["x-enum-varnames"] = constants
	}
}

// pascalCase joins the words of a value, which is in snake, kebab, camel or upper case.
func pascalCase(value string) string {
	if value == strings.ToUpper(value) {
		value = strings.ToLower(value)
	}
	var joined strings.Builder
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		joined.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return joined.String()
}
