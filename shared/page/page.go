// Package page has the types of paginated lists (specification 2.1).
package page

// Request selects a page of a list. Page starts at 1. The OpenAPI document limits
// Page and Limit.
type Request struct {
	Page   int
	Limit  int
	SortBy string // a sort field of the list
	Desc   bool
}

// Offset returns the number of rows before the page.
func (r Request) Offset() int { return (r.Page - 1) * r.Limit }

// OrderBy returns the ORDER BY clause of the page: the column of SortBy, then id.
// It orders by id alone if columns has no such SortBy, so the caller's text never
// becomes part of the SQL.
func (r Request) OrderBy(columns map[string]string) string {
	direction := " ASC"
	if r.Desc {
		direction = " DESC"
	}
	column, ok := columns[r.SortBy]
	if !ok {
		return " ORDER BY id" + direction
	}
	return " ORDER BY " + column + direction + ", id" + direction
}

// Page is one page of a list. Total is the number of rows of the whole list.
type Page[T any] struct {
	Request Request
	Items   []T
	Total   int
}

// TotalPages returns the number of pages of the whole list; 0 if it is empty.
func (p Page[T]) TotalPages() int {
	if p.Request.Limit <= 0 {
		return 0
	}
	return (p.Total + p.Request.Limit - 1) / p.Request.Limit
}

// HasNext reports whether there is a next page.
func (p Page[T]) HasNext() bool { return p.Request.Page < p.TotalPages() }

// HasPrev reports whether there is a previous page.
func (p Page[T]) HasPrev() bool { return p.Request.Page > 1 && p.Total > 0 }
