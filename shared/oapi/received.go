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

func clipName(name string) string {
	return fault.Truncate(strings.ToValidUTF8(name, "\uFFFD"), maxName)
}

// receivedText is a text as an answer repeats it.
func receivedText(value string) any {
	return fault.Truncate(fault.MaskSecrets(strings.ToValidUTF8(value, "\uFFFD")), fault.MaxReceived)
}

// receivedNumber is a number as it was sent, digit for digit; as text when few
// decoders could read it.
func receivedNumber(literal string) any {
	if len(literal) > fault.MaxReceived || !isFloat(literal) {
		return fault.Truncate(literal, fault.MaxReceived)
	}
	return json.RawMessage(literal)
}

// receivedValues are the values of a parameter as an answer repeats them.
func receivedValues(values []string) any {
	if len(values) == 1 {
		return receivedText(values[0])
	}
	left := fault.MaxReceived
	sent := make([]any, 0, len(values))
	for _, value := range values {
		if left <= 0 {
			return append(sent, "…")
		}
		sent = append(sent, receivedText(value))
		left -= len(value) + 3
	}
	return sent
}

// received is the value of a node as an answer repeats it: without the secrets in
// it, and as text where it is cut. It is nil where all of it may be a secret.
func (c *checker) received(r *rule, i int32) any {
	if c.quiet > 0 || c.secret {
		return nil
	}
	switch n := c.tape.nodes[i]; n.kind {
	case kindString:
		if r.kinds&kindString == 0 && r.holdsSecret(map[*rule]bool{}) {
			return nil // such as a URL with its password in the place of an object
		}
		return receivedText(string(c.tape.str(i)))
	case kindNumber:
		return receivedNumber(string(c.tape.raw(i)))
	case kindArray, kindObject:
		if r.kinds != 0 && r.kinds&n.kind == 0 && r.holdsSecret(map[*rule]bool{}) {
			return nil // nothing says which part belongs to which rule
		}
		e := redactedEncoder{check: c}
		e.value(r, i)
		if text := e.out.String(); len(text) > fault.MaxReceived {
			if cut := fault.Truncate(text, fault.MaxReceived); cut != text {
				return cut
			}
		}
		return json.RawMessage(e.out.String())
	}
	return json.RawMessage(slices.Clone(c.tape.raw(i)))
}

// receivedUnknown is the value of an unknown member as an answer repeats it. Beside a
// secret it is not repeated: it may be that secret under a misspelt name.
func (c *checker) receivedUnknown(r *rule, i int32) any {
	for _, p := range r.object.props {
		if p.secret {
			return nil
		}
	}
	if c.namesSecret(string(c.tape.key(i))) {
		return nil
	}
	return c.received(&anyValue, i)
}

// receivedMember is the value of a member, whatever its rule, as an answer repeats
// it.
func (c *checker) receivedMember(object int32, name string) any {
	if c.quiet > 0 || c.namesSecret(name) {
		return nil
	}
	for i := object + 1; i < c.tape.nodes[object].next; i = c.tape.nodes[i].next {
		if string(c.tape.key(i)) == name && !c.tape.nodes[i].absent {
			return c.received(&anyValue, i)
		}
	}
	return nil
}

// namesSecret tells whether what has that name is not to be repeated: the
// document says that it is a secret, or the name does.
func (c *checker) namesSecret(name string) bool {
	return c.secrets[name] || fault.IsSecretName(name)
}

// redactedEncoder writes a value as JSON without the secrets in it, and stops soon after
// the limit.
type redactedEncoder struct {
	check *checker
	out   strings.Builder
}

// full tells that what follows would be cut off: a character has four bytes at
// most.
func (e *redactedEncoder) full() bool { return e.out.Len() > 4*fault.MaxReceived }

func (e *redactedEncoder) value(r *rule, i int32) {
	t := &e.check.tape
	switch n := t.nodes[i]; n.kind {
	case kindString:
		e.text(fault.MaskSecrets(string(t.str(i))))
	case kindNumber:
		if literal := string(t.raw(i)); len(literal) <= fault.MaxReceived && isFloat(literal) {
			e.out.WriteString(literal)
		} else {
			e.text(fault.Truncate(literal, fault.MaxReceived))
		}
	case kindArray:
		e.out.WriteByte('[')
		for item, first := i+1, true; item < n.next && !e.full(); item = t.nodes[item].next {
			if items := itemsOf(r); !isSecret(items) {
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
			if isSecret(property) || (!known && (hasSecret(r) || e.check.namesSecret(name))) {
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

func (e *redactedEncoder) comma(first *bool) {
	if !*first {
		e.out.WriteByte(',')
	}
	*first = false
}

// text writes a string. One that is not Unicode is repaired by the encoder.
func (e *redactedEncoder) text(s string) {
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

func isSecret(r *rule) bool { return r != nil && r.secret }

// visitParts are a rule and what it is composed of, as far as they describe the same
// value.
func (r *rule) visitParts(yield func(*rule) bool) bool {
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
		if !part.visitParts(yield) {
			return false
		}
	}
	return true
}

// propertyOf is the rule of a member. Where several parts describe it, a secret
// one goes first.
func propertyOf(r *rule, name string) (found *rule, known bool) {
	r.visitParts(func(part *rule) bool {
		if p, has := part.object.props[name]; has {
			found, known = p, true
		}
		return !isSecret(found)
	})
	return found, known
}

func itemsOf(r *rule) (found *rule) {
	r.visitParts(func(part *rule) bool {
		if part.array.items != nil {
			found = part.array.items
		}
		return !isSecret(found)
	})
	return found
}

// hasSecret tells whether a member of the object is a secret.
func hasSecret(r *rule) (secret bool) {
	r.visitParts(func(part *rule) bool {
		for _, p := range part.object.props {
			secret = secret || isSecret(p)
		}
		return !secret
	})
	return secret
}
