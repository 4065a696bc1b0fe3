package license

import (
	"encoding/hex"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// array is an array as PostgreSQL reads it. add appends one element; one that it
// leaves out is null.
func array[T any](items []T, add func(text []byte, item T) []byte) string {
	text := make([]byte, 0, 2+33*len(items))
	text = append(text, '{')
	for i, item := range items {
		if i > 0 {
			text = append(text, ',')
		}
		before := len(text)
		if text = add(text, item); len(text) == before {
			text = append(text, "NULL"...)
		}
	}
	return string(append(text, '}'))
}

func uuidArray(ids []uuid.UUID) string { return array(ids, addUUID) }

func addUUID(text []byte, id uuid.UUID) []byte { return hex.AppendEncode(text, id[:]) }

func addOptional(text []byte, id *uuid.UUID) []byte {
	if id == nil {
		return text
	}
	return addUUID(text, *id)
}

// addText quotes a text, so that it may hold anything.
func addText(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

func addTime(text []byte, t *time.Time) []byte {
	if t == nil {
		return text
	}
	return append(t.UTC().AppendFormat(append(text, '"'), time.RFC3339Nano), '"')
}

// uuidList scans a uuid[].
type uuidList []uuid.UUID

// Scan implements sql.Scanner.
func (l *uuidList) Scan(src any) error { return pq.Array((*[]uuid.UUID)(l)).Scan(src) }

func sessionIDs(slots []slot) []uuid.UUID {
	ids := make([]uuid.UUID, len(slots))
	for i := range slots {
		ids[i] = slots[i].SessionID
	}
	return ids
}

// without returns the ids that are not among the others.
func without(ids, others []uuid.UUID) []uuid.UUID {
	skip := make(map[uuid.UUID]bool, len(others))
	for _, id := range others {
		skip[id] = true
	}
	var rest []uuid.UUID
	for _, id := range ids {
		if !skip[id] {
			rest = append(rest, id)
		}
	}
	return rest
}
