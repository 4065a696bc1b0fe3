// Package pageapi converts between the pagination types of the API and package
// page. It is separate because domain packages must not import generated code.
package pageapi

import (
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
)

// The defaults in the OpenAPI document.
const (
	defaultPage  = 1
	defaultLimit = 20
)

// Request returns the page request for the query parameters, which are already
// validated.
func Request(number, limit *int32, sortBy string, order *sharedapi.SortDirection) page.Request {
	r := page.Request{Page: defaultPage, Limit: defaultLimit, SortBy: sortBy, Desc: order == nil || *order == sharedapi.Desc}
	if number != nil {
		r.Page = int(*number)
	}
	if limit != nil {
		r.Limit = int(*limit)
	}
	return r
}

// Pagination returns the pagination metadata of a page.
func Pagination[T any](p page.Page[T]) sharedapi.Pagination {
	return sharedapi.Pagination{
		Page:       int32(p.Request.Page),
		Limit:      int32(p.Request.Limit),
		Total:      int64(p.Total),
		TotalPages: int64(p.TotalPages()),
		HasNext:    p.HasNext(),
		HasPrev:    p.HasPrev(),
	}
}
