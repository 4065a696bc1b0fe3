package page

import "testing"

func TestPage_Navigation(t *testing.T) {
	for _, tc := range []struct {
		page, limit, total int
		pages              int
		next, prev         bool
	}{
		{1, 20, 0, 0, false, false},
		{1, 20, 20, 1, false, false},
		{1, 20, 21, 2, true, false},
		{2, 20, 21, 2, false, true},
		{5, 20, 21, 2, false, true},
	} {
		p := Page[int]{Request: Request{Page: tc.page, Limit: tc.limit}, Total: tc.total}
		if p.TotalPages() != tc.pages || p.HasNext() != tc.next || p.HasPrev() != tc.prev {
			t.Errorf("page %d of %d items by %d: %d pages, next %v, prev %v", tc.page, tc.total, tc.limit, p.TotalPages(), p.HasNext(), p.HasPrev())
		}
	}
	if got := (Request{Page: 3, Limit: 20}).Offset(); got != 40 {
		t.Errorf("offset %d, want 40", got)
	}
}

func TestOrderBy_IgnoresUnknownColumns(t *testing.T) {
	columns := map[string]string{"createdAt": "created_at"}
	for _, tc := range []struct {
		request Request
		want    string
	}{
		{Request{SortBy: "createdAt", Desc: true}, " ORDER BY created_at DESC, id DESC"},
		{Request{SortBy: "createdAt"}, " ORDER BY created_at ASC, id ASC"},
		{Request{SortBy: "1; DROP TABLE users", Desc: true}, " ORDER BY id DESC"},
	} {
		if got := tc.request.OrderBy(columns); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.request, got, tc.want)
		}
	}
}
