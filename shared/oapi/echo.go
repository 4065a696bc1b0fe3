package oapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// maxName is how many characters of a foreign name an answer repeats.
const maxName = 200

func clipName(name string) string { return fault.Cut(strings.ToValidUTF8(name, "\uFFFD"), maxName) }

// textSent is a text as an answer repeats it.
func textSent(value string) any {
	return fault.Cut(fault.WithoutSecrets(strings.ToValidUTF8(value, "\uFFFD")), fault.MaxReceived)
}

// numberSent is a number as it was sent, digit for digit; as text when few
// decoders could read it.
func numberSent(literal string) any {
	if _, err := strconv.ParseFloat(literal, 64); err != nil || len(literal) > fault.MaxReceived {
		return fault.Cut(literal, fault.MaxReceived)
	}
	return json.RawMessage(literal)
}

// valuesSent are the values of a parameter as an answer repeats them.
func valuesSent(values []string) any {
	if len(values) == 1 {
		return textSent(values[0])
	}
	left := fault.MaxReceived
	sent := make([]any, 0, len(values))
	for _, value := range values {
		if left <= 0 {
			return append(sent, "…")
		}
		sent = append(sent, textSent(value))
		left -= len(value) + 3
	}
	return sent
}

// sent is the value of a node as an answer repeats it: without the secrets in
// it, and as text where it is cut. It is nil where all of it may be a secret.
func (c *check) sent(r *rule, i int32) any {
	if c.quiet > 0 || c.secret {
		return nil
	}
	switch n := c.tape.nodes[i]; n.kind {
	case kindString:
		if r.kinds&kindString == 0 && r.holdsSecret(map[*rule]bool{}) {
			return nil // such as a URL with its password in the place of an object
		}
		return textSent(string(c.tape.str(i)))
	case kindNumber:
		return numberSent(string(c.tape.raw(i)))
	case kindArray, kindObject:
		if r.kinds != 0 && r.kinds&n.kind == 0 && r.holdsSecret(map[*rule]bool{}) {
			return nil // nothing says which part of it is which
		}
		e := repeater{check: c}
		e.value(r, i)
		if text := e.out.String(); len(text) > fault.MaxReceived {
			if cut := fault.Cut(text, fault.MaxReceived); cut != text {
				return cut
			}
		}
		return json.RawMessage(e.out.String())
	}
	return json.RawMessage(slices.Clone(c.tape.raw(i)))
}

// unknown is the value of an unknown member as an answer repeats it. Beside a
// secret it is not repeated: it may be that secret under a misspelt name.
func (c *check) unknown(r *rule, i int32) any {
	for _, p := range r.object.props {
		if p.secret {
			return nil
		}
	}
	if c.namesSecret(string(c.tape.key(i))) {
		return nil
	}
	return c.sent(&anything, i)
}

// memberSent is the value of a member, whatever its rule, as an answer repeats
// it.
func (c *check) memberSent(object int32, name string) any {
	if c.quiet > 0 || c.namesSecret(name) {
		return nil
	}
	for i := object + 1; i < c.tape.nodes[object].next; i = c.tape.nodes[i].next {
		if string(c.tape.key(i)) == name && !c.tape.nodes[i].absent {
			return c.sent(&anything, i)
		}
	}
	return nil
}

// namesSecret tells whether what has that name is not to be repeated: the
// document says that it is a secret, or the name does.
func (c *check) namesSecret(name string) bool {
	return c.secrets[name] || fault.NamesSecret(name)
}

// repeater writes a value as JSON without the secrets in it, and stops soon after
// the limit.
type repeater struct {
	check *check
	out   strings.Builder
}

// full tells that what follows would be cut off: a character has four bytes at
// most.
func (e *repeater) full() bool { return e.out.Len() > 4*fault.MaxReceived }

func (e *repeater) value(r *rule, i int32) {
	t := &e.check.tape
	switch n := t.nodes[i]; n.kind {
	case kindString:
		e.text(fault.WithoutSecrets(string(t.str(i))))
	case kindNumber:
		if literal := string(t.raw(i)); len(literal) <= fault.MaxReceived && isFloat(literal) {
			e.out.WriteString(literal)
		} else {
			e.text(fault.Cut(literal, fault.MaxReceived))
		}
	case kindArray:
		e.out.WriteByte('[')
		for item, first := i+1, true; item < n.next && !e.full(); item = t.nodes[item].next {
			if items := itemsOf(r); !hidden(items) {
				e.comma(&first)
				e.value(items, item)
			}
		}
		e.out.WriteByte(']')
	case kindObject:
		e.out.WriteByte('{')
		for member, first := i+1, true; member < n.next && !e.full(); member = t.nodes[member].next {
			name := string(t.key(member))
			property, known := propertyOf(r, name)
			if hidden(property) || (!known && (hasSecret(r) || e.check.namesSecret(name))) {
				continue
			}
			e.comma(&first)
			e.text(clipName(name))
			e.out.WriteByte(':')
			e.value(property, member)
		}
		e.out.WriteByte('}')
	default:
		e.out.Write(t.raw(i))
	}
}

func (e *repeater) comma(first *bool) {
	if !*first {
		e.out.WriteByte(',')
	}
	*first = false
}

// text writes a string. One that is not Unicode is repaired by the encoder.
func (e *repeater) text(s string) {
	encoded, err := json.Marshal(s)
	if err != nil { // no string fails
		encoded = []byte("null")
	}
	e.out.Write(encoded)
}

func isFloat(literal string) bool {
	_, err := strconv.ParseFloat(literal, 64)
	return err == nil
}

func hidden(r *rule) bool { return r != nil && r.secret }

// parts are a rule and what it is composed of, as far as they describe the same
// value.
func (r *rule) parts(yield func(*rule) bool) bool {
	if r == nil {
		return true
	}
	if !yield(r) {
		return false
	}
	inner := slices.Clone(r.allOf)
	for _, u := range []*union{r.oneOf, r.anyOf} {
		if u != nil {
			inner = append(inner, u.branches...)
		}
	}
	for _, part := range inner {
		if !part.parts(yield) {
			return false
		}
	}
	return true
}

// propertyOf is the rule of a member. Where several parts describe it, a secret
// one goes first.
func propertyOf(r *rule, name string) (found *rule, known bool) {
	r.parts(func(part *rule) bool {
		if p, has := part.object.props[name]; has {
			found, known = p, true
		}
		return !hidden(found)
	})
	return found, known
}

func itemsOf(r *rule) (found *rule) {
	r.parts(func(part *rule) bool {
		if part.array.items != nil {
			found = part.array.items
		}
		return !hidden(found)
	})
	return found
}

// hasSecret tells whether a member of the object is a secret.
func hasSecret(r *rule) (secret bool) {
	r.parts(func(part *rule) bool {
		for _, p := range part.object.props {
			secret = secret || hidden(p)
		}
		return !secret
	})
	return secret
}
