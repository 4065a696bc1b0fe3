package activity

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// FuzzCursor: the position of a valid cursor is encoded to the same cursor. Other texts
// are refused.
func FuzzCursor(f *testing.F) {
	last := Session{StartedAt: time.Date(2026, 1, 31, 12, 0, 0, 5000, time.UTC), ID: uuid.MustParse("0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f")}
	for _, text := range []string{
		cursorAfter(last), cursorAfter(Session{}), "", "AAAA", "f_________8AAAAAAAAAAAAAAAAAAAAA", "gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "_v___wAAAAAAAAAAAAAAAAAAAAAAAAAA", cursorAfter(last)[:31] + "\n" + cursorAfter(last)[31:],
	} {
		f.Add(text, int64(1769860800), true)
		f.Add(text, int64(-62135596800), false)
	}
	f.Fuzz(func(t *testing.T, text string, second int64, byTheStart bool) {
		req := page.Request{SortBy: byStart}
		if !byTheStart {
			req.SortBy = "endedAt"
		}
		got, err := parseCursor(text, req)
		switch {
		case err != nil && (!fault.Is(err, fault.Validation) || fault.From(err).Details[0].Field != "cursor"):
			t.Errorf("%q: %v", text, err)
		case err == nil && !byTheStart:
			t.Errorf("%q is accepted for another order", text)
		case err == nil && (cursorAfter(got) != text || got.StartedAt.Year() < 0 || got.StartedAt.Year() > 9999):
			t.Errorf("%q is parsed to %v, whose cursor is %q", text, got.StartedAt, cursorAfter(got))
		}
		session := Session{StartedAt: time.Unix(second, 123_456_000).UTC(), ID: uuid.NewSHA1(uuid.Nil, []byte(text))}
		if session.StartedAt.Year() < 1 || session.StartedAt.Year() > 9999 {
			return
		}
		back, err := parseCursor(cursorAfter(session), page.Request{SortBy: byStart})
		if err != nil || !back.StartedAt.Equal(session.StartedAt) || back.ID != session.ID {
			t.Errorf("%v was decoded as %v: %v", session.StartedAt, back.StartedAt, err)
		}
	})
}
