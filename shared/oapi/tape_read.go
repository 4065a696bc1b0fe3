package oapi

import (
	"bytes"
	"encoding/json"
)

// raw returns the text of the value as it was sent.
func (t *tape) raw(i int32) []byte { return t.text[t.nodes[i].raw.start:t.nodes[i].raw.end] }

// str returns the decoded string. The bytes may be part of the text.
func (t *tape) str(i int32) []byte {
	raw := t.raw(i)
	if t.nodes[i].escaped {
		return unescape(raw)
	}
	return raw[1 : len(raw)-1]
}

// key returns the name of a member.
func (t *tape) key(i int32) []byte {
	n := &t.nodes[i]
	if n.keyEscaped {
		return unescape(t.text[n.key.start-1 : n.key.end+1])
	}
	return t.text[n.key.start:n.key.end]
}

// unescape decodes a well-formed quoted string.
func unescape(quoted []byte) []byte {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return quoted
	}
	return []byte(s)
}

// fewMembers is the size up to which comparing all pairs is faster than a map.
const fewMembers = 16

// findDuplicates records the members of an object whose name occurred before.
func (t *tape) findDuplicates(object int32) {
	n := t.nodes[object]
	if n.size < 2 {
		return
	}
	end := int32(len(t.nodes))
	if n.size > fewMembers {
		names := make(map[string]bool, n.size)
		for i := object + 1; i < end; i = t.nodes[i].next {
			key := t.key(i)
			if names[string(key)] {
				t.duplicates = append(t.duplicates, i)
			}
			names[string(key)] = true
		}
		return
	}
	for i := t.nodes[object+1].next; i < end; i = t.nodes[i].next {
		key := t.key(i)
		for j := object + 1; j < i; j = t.nodes[j].next {
			if bytes.Equal(t.key(j), key) {
				t.duplicates = append(t.duplicates, i)
				break
			}
		}
	}
}
