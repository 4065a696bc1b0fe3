package pg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/db/pg"
)

func TestWhere_AddsSetFilters(t *testing.T) {
	w := pg.NewWhere("organization_id = $1", "o")
	pg.And(w, "name = ?", (*string)(nil))
	pg.And(w, "(name ILIKE ? OR notes ILIKE ?)", new("%x%"))
	pg.And(w, "major = ?", new(156))
	clause, args := w.SQL()
	if want := " WHERE organization_id = $1 AND (name ILIKE $2 OR notes ILIKE $2) AND major = $3"; clause != want {
		t.Errorf("%q, want %q", clause, want)
	}
	if diff := cmp.Diff([]any{"o", "%x%", 156}, args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}
