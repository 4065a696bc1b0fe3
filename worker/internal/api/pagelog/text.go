package pagelog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// cut shortens a text to a number of bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	limit -= len(mark)
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + mark
}

// remoteObject is a value of a page.
type remoteObject struct {
	Type, Subtype, Description string
	UnserializableValue        string
	Value                      json.RawMessage
	Preview                    *preview
}

// preview are the first properties of an object.
type preview struct {
	Subtype    string
	Overflow   bool
	Properties []struct{ Name, Type, Value string }
}

// text returns a value as a console shows it.
func (o remoteObject) text() string {
	var plain string
	switch {
	case o.Type == "undefined":
		return "undefined"
	case o.UnserializableValue != "":
		return o.UnserializableValue
	case o.Preview != nil && (o.Subtype == "" || o.Subtype == "array"):
		return o.Preview.text()
	case o.Value == nil:
		return o.Description
	case json.Unmarshal(o.Value, &plain) == nil && o.Type == "string":
		return plain
	}
	return string(o.Value)
}

func (p preview) text() string {
	var parts []string
	for _, property := range p.Properties {
		value := property.Value
		if property.Type == "string" {
			value = fmt.Sprintf("%q", value)
		}
		if p.Subtype != "array" {
			value = property.Name + ": " + value
		}
		parts = append(parts, value)
	}
	if p.Overflow {
		parts = append(parts, "…")
	}
	if p.Subtype == "array" {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
