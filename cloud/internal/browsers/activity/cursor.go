package activity

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// A cursor is the start, in microseconds like the database, and the id of the last
// session of the page.
const cursorSize = 8 + 16

func cursorAfter(s Session) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(s.StartedAt.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(raw, s.ID[:]...))
}

// parseCursor returns the position of the cursor, or a Validation error.
func parseCursor(text string, req page.Request) (Session, error) {
	after, ok := readCursor(text)
	if !ok {
		return Session{}, fault.Invalid(fault.Detail{Field: "cursor", Code: fault.InvalidFormat,
			Message: "is not a nextCursor of this list", Received: text})
	}
	if req.SortBy != byStart {
		return Session{}, fault.Field("cursor", "requires sortBy=startedAt")
	}
	return after, nil
}

// readCursor decodes a cursor. It accepts only times that the API and the database can
// represent.
func readCursor(text string) (after Session, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != cursorSize || len(text) != base64.RawURLEncoding.EncodedLen(cursorSize) {
		return Session{}, false
	}
	startedAt := time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC()
	return Session{StartedAt: startedAt, ID: uuid.UUID(raw[8:])}, startedAt.Year() >= 0 && startedAt.Year() <= 9999
}
