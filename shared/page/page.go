// Package page is what every paginated list has in common: what was asked for
// and what comes back (specification 2.1).
package page

// Request is which page of a list to return. Page counts from 1; the document
// bounds both numbers before a Request is made.
type Request struct {
	Page   int
	Limit  int
	SortBy string // a name from the list's own allow-list
	Desc   bool
}

// Offset is how many rows come before the page.
func (r Request) Offset() int { return (r.Page - 1) * r.Limit }

// OrderBy is the ORDER BY clause of the page: the column that columns maps SortBy
// to, ties broken by id. A SortBy that columns does not know sorts by id alone,
// so no caller's text ever reaches SQL.
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

// Page is one page of a list, with how many rows the whole list has.
type Page[T any] struct {
	Request Request
	Items   []T
	Total   int
}

// TotalPages is how many pages the whole list has; 0 when it is empty.
func (p Page[T]) TotalPages() int {
	if p.Request.Limit <= 0 {
		return 0
	}
	return (p.Total + p.Request.Limit - 1) / p.Request.Limit
}

// HasNext reports whether a page follows.
func (p Page[T]) HasNext() bool { return p.Request.Page < p.TotalPages() }

// HasPrev reports whether a page comes before.
func (p Page[T]) HasPrev() bool { return p.Request.Page > 1 && p.Total > 0 }
