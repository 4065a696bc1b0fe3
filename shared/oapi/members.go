package oapi

import (
	"encoding/json"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
)

// members checks an object and its members.
func (c *checker) members(r *rule, object int32) {
	n := c.tape.nodes[object]
	before, size := int32(0), int(n.size)
	nonEmpty := false
	for i := object + 1; i < n.next && !c.done(); i = c.tape.nodes[i].next {
		if c.tape.nodes[i].kind == kindNull && c.isAbsent(r, i) {
			c.omit(n.next, before, i, nonEmpty)
			size--
		} else {
			nonEmpty = true
			c.path = append(c.path, step{node: i})
			c.member(r, i)
			c.path = c.path[:len(c.path)-1]
		}
		before = i
	}
	for _, name := range r.object.required {
		if !c.tape.has(object, name) {
			c.report(finding{code: fault.Required, message: "is required", member: name})
		}
	}
	o := &r.object
	switch {
	case size < o.min:
		c.report(finding{code: fault.Custom, message: "must have at least " + propertyCount(o.min), constraint: o.bounds(), received: c.received(r, object)})
	case o.max >= 0 && size > o.max:
		c.report(finding{code: fault.Custom, message: "must have at most " + propertyCount(o.max), constraint: o.bounds(), received: c.received(r, object)})
	}
}

// isAbsent reports whether a null means that an optional, non-nullable member is
// absent. Typed clients send null for unset members.
func (c *checker) isAbsent(r *rule, i int32) bool {
	key := c.tape.key(i)
	property, ok := r.object.props[string(key)]
	return ok && !slices.Contains(r.object.required, string(key)) && (property.readOnly || !c.passes(property, i))
}

// omit removes the member i and one comma from the body that the handler gets.
// before is the preceding member, if any; nonEmpty reports whether a preceding
// member remains; end is the node after the object.
func (c *checker) omit(end, before, i int32, nonEmpty bool) {
	n := &c.tape.nodes[i]
	n.absent = true
	if c.quiet > 0 {
		return
	}
	part := span{n.key.start - 1, n.raw.end}
	switch {
	case nonEmpty:
		part.start = c.tape.nodes[before].raw.end
	case n.next < end:
		part.end = c.tape.nodes[n.next].key.start - 1
	}
	c.edits = append(c.edits, edit{part, ""})
}

func propertyCount(n int) string {
	if n == 1 {
		return "1 property"
	}
	return count(n, "propertie")
}

func (o *objectRule) bounds() map[string]any { return limits(o.min > 0, o.min, o.max >= 0, o.max) }

func (c *checker) member(r *rule, i int32) {
	property, ok := r.object.props[string(c.tape.key(i))]
	switch {
	case ok && property.readOnly:
		c.report(finding{code: fault.Custom, message: "is read-only", received: c.received(property, i)})
	case ok:
		c.value(property, i)
	case c.tape.nodes[i].keyUnstorable:
		c.report(unstorableText(nil))
	case r.object.closed:
		c.report(finding{code: fault.UnrecognizedKey, message: "is not a known field", received: c.receivedUnknown(r, i)})
	default:
		c.value(r.object.extra, i)
	}
}

// has reports whether an object has a member with the name.
func (t *tape) has(object int32, name string) bool {
	for i := object + 1; i < t.nodes[object].next; i = t.nodes[i].next {
		if string(t.key(i)) == name {
			return !t.nodes[i].absent
		}
	}
	return false
}

// textOf returns the value of a member: the string, or the JSON text of another
// value.
func (t *tape) textOf(object int32, name string) (text string, present bool) {
	for i := object + 1; i < t.nodes[object].next; i = t.nodes[i].next {
		if string(t.key(i)) == name && !t.nodes[i].absent {
			if t.nodes[i].kind == kindString {
				return string(t.str(i)), true
			}
			return string(json.RawMessage(t.raw(i))), true
		}
	}
	return "", false
}
