package oapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// maxName is the maximum length of a client's name in an answer, in characters.
const maxName = 200

func clipName(name string) string {
	return fault.Truncate(strings.ToValidUTF8(name, "\uFFFD"), maxName)
}

// receivedText returns a text for an answer.
func receivedText(value string) any {
	return fault.Truncate(fault.MaskSecrets(strings.ToValidUTF8(value, "\uFFFD")), fault.MaxReceived)
}

// receivedNumber returns a number for an answer, with the digits that were sent. It
// returns a text if the number is too long or out of the range of a float64.
func receivedNumber(literal string) any {
	if len(literal) > fault.MaxReceived || !isFloat(literal) {
		return fault.Truncate(literal, fault.MaxReceived)
	}
	return json.RawMessage(literal)
}

// receivedValues returns the values of a parameter for an answer.
func receivedValues(values []string) any {
	if len(values) == 1 {
		return receivedText(values[0])
	}
	remaining := fault.MaxReceived
	list := make([]any, 0, len(values))
	for _, value := range values {
		if remaining <= 0 {
			return append(list, "…")
		}
		list = append(list, receivedText(value))
		remaining -= len(value) + 3
	}
	return list
}

// received returns the value of a node for an answer, without secrets, and as text if
// it is truncated. It returns nil if the whole value may be a secret.
func (c *checker) received(r *rule, i int32) any {
	if c.quiet > 0 || c.secret {
		return nil
	}
	switch n := c.tape.nodes[i]; n.kind {
	case kindString:
		text := string(c.tape.str(i))
		if i == 0 && mentionsSecret(text) || i > 0 && r.kinds&kindString == 0 && r.holdsSecret(map[*rule]bool{}) {
			return nil // such as a URL with a password instead of an object
		}
		return receivedText(text)
	case kindNumber:
		return receivedNumber(string(c.tape.raw(i)))
	case kindArray, kindObject:
		if r.excludesSecret(n.kind) {
			if i > 0 || n.kind != kindArray {
				return nil // the parts cannot be assigned to rules
			}
			r = &rule{array: arrayRule{items: r}} // a list instead of the one body
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

// receivedUnknown returns the value of an unknown member for an answer. If the object
// has a secret member, the value is omitted, because it may be that secret under a
// misspelled name.
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

// receivedMember returns the value of a member for an answer, regardless of its rule.
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

// namesSecret reports whether the document declares a secret with this name, or the
// name suggests one.
func (c *checker) namesSecret(name string) bool {
	return c.secrets[name] || fault.IsSecretName(name)
}

// mentionsSecret reports whether a text may be an encoded body with a secret, such as JSON
// that was encoded twice.
func mentionsSecret(text string) bool {
	return strings.Contains(text, "{") || fault.IsSecretName(text)
}

// excludesSecret reports whether a value of this kind is refused by a rule with secrets. Its
// parts may be secrets, because they cannot be assigned to rules.
func (r *rule) excludesSecret(kind kind) bool {
	return r.kinds != 0 && r.kinds&kind == 0 && r.holdsSecret(map[*rule]bool{})
}

// redactedEncoder writes a value as JSON without its secrets. It stops soon after the
// maximum length.
type redactedEncoder struct {
	check *checker
	out   strings.Builder
}

// full reports whether further output would be truncated. A character has at most four
// bytes.
func (e *redactedEncoder) full() bool { return e.out.Len() > 4*fault.MaxReceived }

func (e *redactedEncoder) value(r *rule, i int32) {
	t := &e.check.tape
	n := t.nodes[i]
	if n.kind&(kindString|kindArray) != 0 && r != nil && r.excludesSecret(n.kind) {
		e.text("***")
		return
	}
	switch n.kind {
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
			property, ok := propertyOf(r, name)
			if isSecret(property) || (!ok && (hasSecret(r) || e.check.namesSecret(name))) {
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

// text writes a string. The encoder replaces invalid Unicode.
func (e *redactedEncoder) text(s string) {
	encoded, err := json.Marshal(s)
	if err != nil { // strings can always be encoded
		encoded = []byte("null")
	}
	e.out.Write(encoded)
}

func isFloat(literal string) bool {
	_, err := strconv.ParseFloat(literal, 64)
	return err == nil
}

func isSecret(r *rule) bool { return r != nil && r.secret }

// visitParts calls yield for a rule and the rules of which it is composed, if they
// describe the same value.
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

// propertyOf returns the rule of a member. If several parts describe it, a secret one
// takes precedence.
func propertyOf(r *rule, name string) (found *rule, ok bool) {
	r.visitParts(func(part *rule) bool {
		if p, has := part.object.props[name]; has {
			found, ok = p, true
		}
		return !isSecret(found)
	})
	return found, ok
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

// hasSecret reports whether a member of the object is a secret.
func hasSecret(r *rule) (secret bool) {
	r.visitParts(func(part *rule) bool {
		for _, p := range part.object.props {
			secret = secret || isSecret(p)
		}
		return !secret
	})
	return secret
}
