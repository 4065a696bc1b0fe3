package oapi

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// maxDepth limits the nesting of arrays and objects.
const maxDepth = 64

type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// span is a part of the text: offsets in bytes.
type span struct{ start, end int32 }

// node is one JSON value. The nodes of a text are in one slice, ordered by their
// start, so the children of nodes[i] follow it; next is the index of the first
// node after them. Nodes have offsets into the text instead of copies, which keeps
// them at 32 bytes.
type node struct {
	raw           span // the value, strings with their quotes
	key           span // the member name without its quotes, for a member of an object
	next          int32
	size          int32 // members or items
	kind          kind
	escaped       bool // a string with escapes
	unstorable    bool // NUL or invalid Unicode, which databases do not store
	keyEscaped    bool
	keyUnstorable bool
	absent        bool // null for an optional member that is not nullable: treated as absent
}

// tape is a parsed JSON text: its nodes in the order of the text. It is reused across requests.
type tape struct {
	text       []byte
	nodes      []node
	pos        int
	duplicates []int32 // nodes whose key an earlier member of the same object has
}

// parse reads text, which must be one JSON value and nothing else. The text
// must be under 2 GiB and stay unchanged while the tape is in use.
func (t *tape) parse(text []byte) *syntaxError {
	t.text, t.nodes, t.pos, t.duplicates = text, t.nodes[:0], 0, t.duplicates[:0]
	t.space()
	if err := t.value(0); err != nil {
		return err
	}
	t.space()
	if t.pos < len(text) {
		return t.fail("unexpected text after the end of the value")
	}
	return nil
}

func (t *tape) fail(reason string) *syntaxError {
	if t.pos >= len(t.text) {
		return &syntaxError{len(t.text), "unexpected end"}
	}
	return &syntaxError{t.pos, reason}
}

// peek returns the next byte, or 0 at the end.
func (t *tape) peek() byte {
	if t.pos < len(t.text) {
		return t.text[t.pos]
	}
	return 0
}

func (t *tape) space() {
	for t.pos < len(t.text) {
		switch t.text[t.pos] {
		case ' ', '\n', '\t', '\r':
			t.pos++
		default:
			return
		}
	}
}

func (t *tape) value(depth int) *syntaxError {
	if depth > maxDepth {
		return t.fail(fmt.Sprintf("nested deeper than %d levels", maxDepth))
	}
	i, start := len(t.nodes), t.pos
	t.nodes = append(t.nodes, node{})
	var err *syntaxError
	switch c := t.peek(); c {
	case '{':
		err = t.object(i, depth)
	case '[':
		err = t.array(i, depth)
	case '"':
		n := &t.nodes[i]
		n.kind = kindString
		_, n.escaped, n.unstorable, err = t.string()
	case 't':
		err = t.literal(i, kindBool, "true")
	case 'f':
		err = t.literal(i, kindBool, "false")
	case 'n':
		err = t.literal(i, kindNull, "null")
	default:
		t.nodes[i].kind = kindNumber
		err = t.number()
	}
	if err != nil {
		return err
	}
	n := &t.nodes[i]
	n.raw = span{int32(start), int32(t.pos)}
	n.next = int32(len(t.nodes))
	return nil
}

func (t *tape) literal(i int, k kind, word string) *syntaxError {
	if !bytes.HasPrefix(t.text[t.pos:], []byte(word)) {
		return t.fail("unexpected character")
	}
	t.nodes[i].kind = k
	t.pos += len(word)
	return nil
}

func (t *tape) array(i, depth int) *syntaxError {
	t.pos++
	t.space()
	size := int32(0)
	for t.peek() != ']' || size > 0 {
		if err := t.value(depth + 1); err != nil {
			return err
		}
		size++
		t.space()
		if t.peek() == ']' {
			break
		}
		if t.peek() != ',' {
			return t.fail("expected a comma or ]")
		}
		t.pos++
		t.space()
	}
	t.pos++
	t.nodes[i].kind, t.nodes[i].size = kindArray, size
	return nil
}

func (t *tape) object(i, depth int) *syntaxError {
	t.pos++
	t.space()
	size := int32(0)
	for t.peek() != '}' || size > 0 {
		if err := t.member(depth); err != nil {
			return err
		}
		size++
		t.space()
		if t.peek() == '}' {
			break
		}
		if t.peek() != ',' {
			return t.fail("expected a comma or }")
		}
		t.pos++
		t.space()
	}
	t.pos++
	t.nodes[i].kind, t.nodes[i].size = kindObject, size
	t.findDuplicates(int32(i))
	return nil
}

func (t *tape) member(depth int) *syntaxError {
	if t.peek() != '"' {
		return t.fail("expected a member name in double quotes")
	}
	key, escaped, bad, err := t.string()
	if err != nil {
		return err
	}
	t.space()
	if t.peek() != ':' {
		return t.fail("expected a colon")
	}
	t.pos++
	t.space()
	i := len(t.nodes)
	if err := t.value(depth + 1); err != nil {
		return err
	}
	n := &t.nodes[i]
	n.key, n.keyEscaped, n.keyUnstorable = key, escaped, bad
	return nil
}

// string parses a string and returns the span between its quotes.
func (t *tape) string() (inner span, escaped, bad bool, err *syntaxError) {
	t.pos++
	start, ascii := t.pos, true
	for t.pos < len(t.text) {
		switch c := t.text[t.pos]; {
		case c == '"':
			inner = span{int32(start), int32(t.pos)}
			t.pos++
			raw := t.text[inner.start:inner.end]
			bad = bad || (!ascii && !utf8.Valid(raw)) || (escaped && brokenSurrogates(raw))
			return inner, escaped, bad, nil
		case c == '\\':
			escaped = true
			nul, err := t.escape()
			if err != nil {
				return inner, escaped, bad, err
			}
			bad = bad || nul
		case c < ' ':
			return inner, escaped, bad, t.fail("control character in a string")
		default:
			ascii = ascii && c < utf8.RuneSelf
			t.pos++
		}
	}
	return inner, escaped, bad, t.fail("")
}

// escape parses an escape and reports whether it is NUL.
func (t *tape) escape() (nul bool, err *syntaxError) {
	t.pos++
	switch t.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		t.pos++
		return false, nil
	case 'u':
		t.pos++
		code := rune(0)
		for range 4 {
			digit, ok := hexDigit(t.peek())
			if !ok {
				return false, t.fail("bad \\u escape")
			}
			code = code<<4 | digit
			t.pos++
		}
		return code == 0, nil
	}
	return false, t.fail("unknown escape")
}

func (t *tape) number() *syntaxError {
	if t.peek() == '-' {
		t.pos++
	}
	switch c := t.peek(); {
	case c == '0':
		t.pos++
	case c >= '1' && c <= '9':
		t.digits()
	default:
		return t.fail("unexpected character")
	}
	if t.peek() == '.' {
		t.pos++
		if t.digits() == 0 {
			return t.fail("expected a digit")
		}
	}
	if c := t.peek(); c == 'e' || c == 'E' {
		t.pos++
		if c := t.peek(); c == '+' || c == '-' {
			t.pos++
		}
		if t.digits() == 0 {
			return t.fail("expected a digit")
		}
	}
	return nil
}

func (t *tape) digits() (n int) {
	for c := t.peek(); c >= '0' && c <= '9'; c = t.peek() {
		t.pos++
		n++
	}
	return n
}
