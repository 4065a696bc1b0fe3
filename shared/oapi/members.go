package oapi

import (
	"encoding/json"

	"github.com/browser-svc/svc/shared/fault"
)

// members checks an object and what it holds.
func (c *check) members(r *rule, object int32) {
	n := c.tape.nodes[object]
	for i := object + 1; i < n.next && !c.enough(); i = c.tape.nodes[i].next {
		c.path = append(c.path, step{node: i})
		c.member(r, i)
		c.path = c.path[:len(c.path)-1]
	}
	for _, name := range r.object.required {
		if !c.tape.has(object, name) {
			c.report(finding{code: fault.Required, message: "is required", member: name})
		}
	}
	o, size := &r.object, int(n.size)
	switch {
	case size < o.min:
		c.report(finding{code: fault.Custom, message: "must have at least " + members(o.min), constraint: o.bounds(), received: c.sent(r, object)})
	case o.max >= 0 && size > o.max:
		c.report(finding{code: fault.Custom, message: "must have at most " + members(o.max), constraint: o.bounds(), received: c.sent(r, object)})
	}
}

func members(n int) string {
	if n == 1 {
		return "1 property"
	}
	return count(n, "propertie")
}

func (o *objectRule) bounds() map[string]any { return limits(o.min > 0, o.min, o.max >= 0, o.max) }

func (c *check) member(r *rule, i int32) {
	property, known := r.object.props[string(c.tape.key(i))]
	switch {
	case known && property.readOnly:
		c.report(finding{code: fault.Custom, message: "is set by the service and can't be sent", received: c.sent(property, i)})
	case known:
		c.value(property, i)
	case c.tape.nodes[i].keyBad:
		c.report(unstorable(nil))
	case r.object.closed:
		c.report(finding{code: fault.UnrecognizedKey, message: "is not a known field", received: c.unknown(r, i)})
	default:
		c.value(r.object.extra, i)
	}
}

// unknown is the value of an unknown member as an answer repeats it. Beside a
// secret it is not repeated: it may be that secret under a misspelt name.
func (c *check) unknown(r *rule, i int32) any {
	for _, p := range r.object.props {
		if p.secret {
			return nil
		}
	}
	if k := c.tape.nodes[i].kind; k == kindArray || k == kindObject {
		return nil
	}
	return c.sent(&anything, i)
}

// has tells whether an object has a member of that name.
func (t *tape) has(object int32, name string) bool {
	for i := object + 1; i < t.nodes[object].next; i = t.nodes[i].next {
		if string(t.key(i)) == name {
			return true
		}
	}
	return false
}

// textOf is the string that a member of an object is, if it is one.
func (t *tape) textOf(object int32, name string) (text string, present bool) {
	for i := object + 1; i < t.nodes[object].next; i = t.nodes[i].next {
		if string(t.key(i)) == name {
			if t.nodes[i].kind == kindString {
				return string(t.str(i)), true
			}
			return string(json.RawMessage(t.raw(i))), true
		}
	}
	return "", false
}
