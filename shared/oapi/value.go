package oapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
)

// value validates the value of node i and its children.
func (c *checker) value(r *rule, i int32) {
	if r == nil {
		r = &anyValue
	}
	if r.secret && !c.secret {
		c.secret = true
		defer func() { c.secret = false }()
	}
	n := c.tape.nodes[i]
	if n.kind == kindNull && r.nullable {
		return
	}
	before := c.failed
	if r.kinds != 0 && r.kinds&n.kind == 0 {
		c.report(finding{
			code: fault.InvalidType, message: typeMessage(r.typ, n.kind),
			constraint: typeConstraint(r.typ), received: c.received(r, i),
		})
		return
	}
	if r.enum != nil && !c.inEnum(r, i) {
		c.report(r.enumFinding(c.received(r, i)))
		return
	}
	switch n.kind {
	case kindString:
		if n.unstorable {
			c.report(unstorableText(c.received(r, i)))
		} else {
			c.text(r, c.tape.str(i))
		}
	case kindNumber:
		c.numberNode(r, i)
	case kindArray:
		c.items(r, i)
	case kindObject:
		c.members(r, i)
	}
	if c.failed == before || n.kind == kindObject {
		c.compositions(r, i)
	}
}

func (c *checker) compositions(r *rule, i int32) {
	for _, part := range r.allOf {
		c.value(part, i)
	}
	if r.oneOf != nil {
		c.union(r, r.oneOf, i)
	}
	if r.anyOf != nil {
		c.union(r, r.anyOf, i)
	}
	if r.exclusive != nil {
		c.exclusive(r.exclusive, i)
	}
	if r.not != nil && c.passes(r.not, i) {
		c.report(finding{code: fault.Custom, message: "has a value that is not allowed", received: c.received(r, i)})
	}
}

// passes reports whether the value satisfies the rule, without recording findings.
func (c *checker) passes(r *rule, i int32) bool {
	failed := c.failed
	c.failed = 0
	c.quiet++
	c.value(r, i)
	c.quiet--
	ok := c.failed == 0
	c.failed = failed
	return ok
}

func (c *checker) items(r *rule, array int32) {
	n := c.tape.nodes[array]
	size, a := int(n.size), r.array
	switch {
	case size < a.min:
		c.report(finding{code: fault.ArrayTooShort, message: "must have at least " + count(a.min, "item"), constraint: a.bounds(), received: c.received(r, array)})
		return
	case a.max >= 0 && size > a.max:
		c.report(finding{code: fault.ArrayTooLong, message: "must have at most " + count(a.max, "item"), constraint: a.bounds(), received: c.received(r, array)})
		return
	case a.unique && !c.tape.unique(array):
		c.report(finding{code: fault.Custom, message: "must not contain duplicate items", constraint: map[string]any{"unique": true}, received: c.received(r, array)})
		return
	}
	item := 0
	for i := array + 1; i < n.next && !c.done(); i = c.tape.nodes[i].next {
		c.path = append(c.path, step{item: item})
		c.value(a.items, i)
		c.path = c.path[:len(c.path)-1]
		item++
	}
}

func (a arrayRule) bounds() map[string]any {
	return limits(a.min > 0, a.min, a.max >= 0, a.max)
}

// unique reports whether all items of an array are different.
func (t *tape) unique(array int32) bool {
	encodings := make(map[string]bool, t.nodes[array].size)
	for i := array + 1; i < t.nodes[array].next; i = t.nodes[i].next {
		// The encoding of the decoded value is the same for equal values.
		key, err := json.Marshal(t.decoded(i))
		if err != nil || encodings[string(key)] {
			return false
		}
		encodings[string(key)] = true
	}
	return true
}

// decoded returns the value as encoding/json decodes it into an any; nil for a number
// out of range.
func (t *tape) decoded(i int32) any {
	if n := t.nodes[i]; n.kind == kindString {
		return string(t.str(i))
	}
	var v any
	if err := json.Unmarshal(t.raw(i), &v); err != nil {
		return nil
	}
	return v
}

// inEnum reports whether the value is in the rule's enum.
func (c *checker) inEnum(r *rule, i int32) bool {
	if c.tape.nodes[i].kind == kindString {
		return r.allowsText(c.tape.str(i))
	}
	v := c.tape.decoded(i)
	return slices.ContainsFunc(r.enum, func(allowed any) bool { return reflect.DeepEqual(allowed, v) })
}

func (r *rule) allowsText(s []byte) bool {
	for _, allowed := range r.enum {
		if a, ok := allowed.(string); ok && a == string(s) {
			return true
		}
	}
	return false
}

// allowsLiteral reports whether the enum contains a value that is sent as text.
func (r *rule) allowsLiteral(value string) bool {
	return slices.ContainsFunc(r.enum, func(allowed any) bool { return fmt.Sprint(allowed) == value })
}

func (r *rule) enumFinding(received any) finding {
	message := "must be one of "
	if len(r.enum) == 1 {
		message = "must be "
	}
	for i, v := range r.enum {
		if i == 20 {
			message += ", and others"
			break
		}
		if i > 0 {
			message += ", "
		}
		message += fmt.Sprint(v)
	}
	return finding{
		code: fault.InvalidEnumValue, message: message,
		constraint: map[string]any{"allowed": r.enum}, received: received,
	}
}

func unstorableText(received any) finding {
	return finding{
		code:       fault.InvalidFormat,
		message:    "must be valid Unicode text without NUL characters",
		constraint: map[string]any{"format": "utf-8"},
		received:   received,
	}
}

var typeNouns = map[string]string{
	"string": "a string", "integer": "a whole number", "number": "a number",
	"boolean": "true or false", "array": "an array", "object": "an object",
}

func typeMessage(typ string, got kind) string {
	if noun, ok := typeNouns[typ]; ok {
		return "must be " + noun
	}
	if got == kindNull {
		return "must not be null"
	}
	return "has the wrong type"
}

func typeConstraint(typ string) map[string]any {
	if typ == "" {
		return nil
	}
	return map[string]any{"type": typ}
}

// limits returns the constraint of a minimum and a maximum; either may be unset.
func limits[T any](hasMin bool, minimum T, hasMax bool, maximum T) map[string]any {
	if !hasMin && !hasMax {
		return nil
	}
	m := make(map[string]any, 2)
	if hasMin {
		m["min"] = minimum
	}
	if hasMax {
		m["max"] = maximum
	}
	return m
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
