package license

import (
	"github.com/google/uuid"
	"github.com/lib/pq"
)

// uuidArray is a uuid[] as PostgreSQL reads it.
func uuidArray(ids []uuid.UUID) string {
	text := make([]byte, 0, 2+37*len(ids))
	text = append(text, '{')
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, id.String()...)
	}
	return string(append(text, '}'))
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

// distinct keeps the first of each id.
func distinct(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	once := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
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
