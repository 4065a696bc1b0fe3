package page

import (
	"strings"
	"testing"
)

// FuzzPages reads a list page by page: each row must be on exactly one page, and
// HasNext and HasPrev must be correct.
func FuzzPages(f *testing.F) {
	f.Add(uint16(0), uint8(20), int32(1), "createdAt", true)
	f.Add(uint16(41), uint8(20), int32(3), "name; DROP TABLE profiles", false)
	f.Add(uint16(1), uint8(100), int32(1_000_000), "", true)
	columns := map[string]string{"createdAt": "created_at", "name": "name"}
	f.Fuzz(func(t *testing.T, total uint16, size uint8, number int32, sortBy string, desc bool) {
		total %= 2000
		limit := 1 + int(size)%100
		rows := 0
		for n := 1; ; n++ {
			p := Page[int]{Request: Request{Page: n, Limit: limit}, Total: int(total)}
			here := max(0, min(limit, int(total)-p.Request.Offset()))
			if p.Request.Offset() != min(rows, (n-1)*limit) || p.HasPrev() != (n > 1 && total > 0) || p.HasNext() != (rows+here < int(total)) {
				t.Fatalf("page %d of %d rows by %d: from %d on, next %v, prev %v", n, total, limit, p.Request.Offset(), p.HasNext(), p.HasPrev())
			}
			rows += here
			if !p.HasNext() {
				if total > 0 && p.TotalPages() != n || rows != int(total) {
					t.Fatalf("got %d pages of %d with %d of %d rows", n, p.TotalPages(), rows, total)
				}
				break
			}
		}
		r := Request{Page: max(1, int(number)), Limit: limit, SortBy: sortBy, Desc: desc}
		if r.Offset() < 0 || (Page[int]{Request: r, Total: int(total)}).HasNext() && r.Offset() >= int(total) {
			t.Errorf("page %d begins at %d", r.Page, r.Offset())
		}
		rest, direction := strings.TrimPrefix(r.OrderBy(columns), " ORDER BY "), " ASC"
		if desc {
			direction = " DESC"
		}
		want := "id" + direction
		if column := columns[sortBy]; column != "" {
			want = column + direction + ", " + want
		}
		if rest != want {
			t.Errorf("sorted by %q, want %q", rest, want)
		}
	})
}
