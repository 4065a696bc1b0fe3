package rest

import (
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
)

// What a list does when the request does not say (the document's defaults).
const (
	defaultPage  = 1
	defaultLimit = 20
)

// pageRequest is which page of a list the parameters ask for. The document has
// bounded the numbers and sortBy already.
func pageRequest(number, limit *int32, sortBy string, order *sharedapi.SortDirection) page.Request {
	return page.Request{
		Page:   int(valueOr(number, defaultPage)),
		Limit:  int(valueOr(limit, defaultLimit)),
		SortBy: sortBy,
		Desc:   valueOr(order, sharedapi.Desc) == sharedapi.Desc,
	}
}

// pagination is where in its list a page stands.
func pagination[T any](p page.Page[T]) sharedapi.Pagination {
	return sharedapi.Pagination{
		Page:       int32(p.Request.Page),
		Limit:      int32(p.Request.Limit),
		Total:      int64(p.Total),
		TotalPages: int64(p.TotalPages()),
		HasNext:    p.HasNext(),
		HasPrev:    p.HasPrev(),
	}
}

// valueOr is what the pointer points to, or the fallback when it is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
