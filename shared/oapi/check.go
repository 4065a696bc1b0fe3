package oapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// maxDetails limits the number of reported problems.
const maxDetails = 100

// step is a step from a value to one of its children.
type step struct {
	node int32 // a member of an object, by its node
	item int   // an item of an array when node is 0
}

// edit replaces a part of the body with an equivalent value that Go can decode.
type edit struct {
	span span
	text string
}

// checker is one request being checked. It is reused from one request to the
// next.
type checker struct {
	tape    tape
	param   string // the parameter being checked; "" is the body
	path    []step
	secret  bool            // the value is a secret or a part of one
	secrets map[string]bool // names of secret parameters and members in the document
	quiet   int             // if positive, failures are only counted
	failed  int
	details []fault.Detail
	edits   []edit
}

func (c *checker) reset() {
	c.tape.text = nil
	if cap(c.tape.nodes) > 4096 {
		c.tape.nodes = nil
	}
	c.param, c.path, c.secret, c.quiet, c.failed = "", c.path[:0], false, 0, 0
	c.details, c.edits = nil, c.edits[:0]
}

// done reports whether further checks cannot change the answer.
func (c *checker) done() bool {
	if c.quiet > 0 {
		return c.failed > 0
	}
	return len(c.details) >= maxDetails
}

// finding is one problem of the value being checked.
type finding struct {
	code       string
	message    string
	constraint map[string]any
	received   any    // omitted if nil
	member     string // the affected member of the value, if any
}

func (c *checker) report(f finding) {
	c.failed++
	if c.quiet > 0 || len(c.details) >= maxDetails {
		return
	}
	field := c.location()
	if f.member != "" {
		field = join(field, clipName(f.member))
	}
	if field == "" {
		field = "body"
	}
	if c.secret {
		f.received = nil
	}
	// Report only the first finding of each field.
	if slices.ContainsFunc(c.details, func(d fault.Detail) bool { return d.Field == field }) {
		return
	}
	c.details = append(c.details, fault.Detail{
		Field: field, Code: f.code, Message: f.message, Received: f.received, Constraint: f.constraint,
	})
}

// location returns the dotted path of the value being checked; "" is the whole
// body.
func (c *checker) location() string {
	field := c.param
	for _, s := range c.path {
		if s.node == 0 {
			field += "[" + strconv.Itoa(s.item) + "]"
		} else {
			field = join(field, clipName(string(c.tape.key(s.node))))
		}
	}
	return field
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// body checks the parsed body.
func (c *checker) body(r *rule) {
	c.reportDuplicates()
	if !c.done() {
		c.value(r, 0)
	}
}

// reportDuplicates reports the members with the name of an earlier member of the same
// object, because decoders disagree on which of them counts.
func (c *checker) reportDuplicates() {
	for _, i := range c.tape.duplicates {
		c.path = c.tape.pathTo(c.path[:0], i)
		c.report(finding{code: fault.Custom, message: "is given more than once"})
	}
	c.path = c.path[:0]
}

// pathTo appends the path from the root to the node target.
func (t *tape) pathTo(path []step, target int32) []step {
	for current := int32(0); current != target; {
		child := current + 1
		item := 0
		for t.nodes[child].next <= target {
			child = t.nodes[child].next
			item++
		}
		if t.nodes[current].kind == kindObject {
			path = append(path, step{node: child})
		} else {
			path = append(path, step{item: item})
		}
		current = child
	}
	return path
}

// applyEdits returns the body with the edits.
func (c *checker) applyEdits(body []byte) []byte {
	if len(c.edits) == 0 {
		return body
	}
	slices.SortFunc(c.edits, func(a, b edit) int { return int(a.span.start - b.span.start) })
	var out strings.Builder
	done := int32(0)
	for _, e := range c.edits {
		if e.span.start < done {
			continue // two branches of a union made the same edit
		}
		out.Write(body[done:e.span.start])
		out.WriteString(e.text)
		done = e.span.end
	}
	out.Write(body[done:])
	return []byte(out.String())
}
