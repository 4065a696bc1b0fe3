// Package pageapi converts between the pages of the documents and those of
// package page.
package pageapi

import (
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
)

// What a list does when the request does not say (the document's defaults).
const (
	defaultPage  = 1
	defaultLimit = 20
)

// Request is which page of a list the parameters ask for. The document has
// bounded the numbers and sortBy already.
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

// Pagination is where in its list a page stands.
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
