package pageapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
)

func TestRequest_Defaults(t *testing.T) {
	for _, test := range []struct {
		name          string
		number, limit *int32
		order         *sharedapi.SortDirection
		want          page.Request
	}{
		{"nothing said", nil, nil, nil, page.Request{Page: 1, Limit: 20, SortBy: "name", Desc: true}},
		{"all said", new(int32(3)), new(int32(7)), new(sharedapi.Asc), page.Request{Page: 3, Limit: 7, SortBy: "name"}},
		{"descending", nil, nil, new(sharedapi.Desc), page.Request{Page: 1, Limit: 20, SortBy: "name", Desc: true}},
	} {
		if diff := cmp.Diff(test.want, Request(test.number, test.limit, "name", test.order)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestPagination(t *testing.T) {
	got := Pagination(page.Page[string]{Request: page.Request{Page: 2, Limit: 10}, Total: 21})
	want := sharedapi.Pagination{Page: 2, Limit: 10, Total: 21, TotalPages: 3, HasNext: true, HasPrev: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
