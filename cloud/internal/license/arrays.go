package license

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// binaryArray encodes an array in PostgreSQL's binary format, which the server parses
// much faster than text. add appends an element; nil is null.
func binaryArray[T any](element elementType, items []T, add func(raw []byte, item T) []byte) []byte {
	header := []uint32{1, 1, uint32(element), uint32(len(items)), 1} // dimensions, whether nulls may occur, element type; length, first index
	if len(items) == 0 {
		header = []uint32{0, 0, uint32(element)}
	}
	raw := make([]byte, 0, 4*len(header)+20*len(items))
	for _, n := range header {
		raw = binary.BigEndian.AppendUint32(raw, n)
	}
	for _, item := range items {
		start := len(raw)
		raw = binary.BigEndian.AppendUint32(raw, nullLength)
		if next := add(raw, item); next != nil {
			raw = next
			binary.BigEndian.PutUint32(raw[start:], uint32(len(raw)-start-4))
		}
	}
	return raw
}

// elementType is the OID of the element type.
type elementType uint32

const (
	uuidElement elementType = 2950
	textElement elementType = 25
	timeElement elementType = 1184 // timestamptz
)

const nullLength = math.MaxUint32 // length of a null element

func uuidArray(ids []uuid.UUID) []byte { return binaryArray(uuidElement, ids, appendUUID) }

func appendUUID(raw []byte, id uuid.UUID) []byte { return append(raw, id[:]...) }

func appendOptionalUUID(raw []byte, id *uuid.UUID) []byte {
	if id == nil {
		return nil
	}
	return appendUUID(raw, *id)
}

func appendText(raw []byte, s string) []byte { return append(raw, s...) }

// postgresEpoch is 2000-01-01 in Unix seconds.
const postgresEpoch = 946684800

func appendTime(raw []byte, t *time.Time) []byte {
	if t == nil {
		return nil
	}
	rounded := t.Round(time.Microsecond)
	microseconds := (rounded.Unix()-postgresEpoch)*1e6 + int64(rounded.Nanosecond()/1e3)
	return binary.BigEndian.AppendUint64(raw, uint64(microseconds))
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

// difference returns the ids that are not among the others.
func difference(ids, others []uuid.UUID) []uuid.UUID {
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
