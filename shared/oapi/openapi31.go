package oapi

import (
	"slices"
	"strings"
)

// upgradeTo31 converts a decoded OpenAPI 3.0 document to 3.1, in place: nullable
// becomes a type, boolean exclusive bounds become numbers, and the example of a schema
// becomes its examples.
func upgradeTo31(doc map[string]any) {
	doc["openapi"] = "3.1.0"
	components, _ := doc["components"].(map[string]any)
	for collection, named := range components {
		for _, component := range asMap(named) {
			switch collection {
			case "schemas":
				upgradeSchema(component)
			case "examples":
			default:
				upgradeTree(component)
			}
		}
	}
	upgradeTree(doc["paths"])
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// upgradeTree upgrades the schemas in a value that is not a schema. Examples and
// extensions are data and not changed.
func upgradeTree(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			upgradeTree(item)
		}
	case map[string]any:
		for key, child := range v {
			switch {
			case key == "schema":
				upgradeSchema(child)
			case key == "example", key == "examples", strings.HasPrefix(key, "x-"):
			default:
				upgradeTree(child)
			}
		}
	}
}

func upgradeSchema(v any) {
	schema, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, child := range asMap(schema["properties"]) {
		upgradeSchema(child)
	}
	for _, key := range []string{"items", "not", "additionalProperties"} {
		upgradeSchema(schema[key])
	}
	for _, key := range []string{"allOf", "oneOf", "anyOf"} {
		branches, _ := schema[key].([]any)
		for _, branch := range branches {
			upgradeSchema(branch)
		}
	}
	upgradeBound(schema, "minimum", "exclusiveMinimum")
	upgradeBound(schema, "maximum", "exclusiveMaximum")
	if example, ok := schema["example"]; ok {
		schema["examples"] = []any{example}
		delete(schema, "example")
	}
	upgradeNullable(schema)
}

func upgradeBound(schema map[string]any, bound, exclusive string) {
	if flag, ok := schema[exclusive].(bool); ok {
		delete(schema, exclusive)
		if value, set := schema[bound]; set && flag {
			schema[exclusive] = value
			delete(schema, bound)
		}
	}
}

// upgradeNullable adds null to the type if possible, and otherwise wraps the
// schema in anyOf with null.
func upgradeNullable(schema map[string]any) {
	nullable, _ := schema["nullable"].(bool)
	delete(schema, "nullable")
	if !nullable {
		return
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, nil) {
		schema["enum"] = append(enum, nil)
	}
	kind, typed := schema["type"].(string)
	composed := schema["allOf"] != nil || schema["oneOf"] != nil || schema["anyOf"] != nil || schema["not"] != nil
	if typed && !composed {
		schema["type"] = []any{kind, "null"}
		return
	}
	inner := map[string]any{}
	for key, value := range schema {
		switch key {
		case "description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly":
		default:
			inner[key] = value
			delete(schema, key)
		}
	}
	schema["anyOf"] = []any{inner, map[string]any{"type": "null"}}
}
