package profiledata

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/profilekey"
)

// TestDeleted_OnlyAfterEndOfOrganization deletes one of two organizations.
func TestDeleted_OnlyAfterEndOfOrganization(t *testing.T) {
	f := newFixture(t)
	f.System = dbtest.Open(t, f.dsn, pg.Options{Role: pg.AllRole})
	directory := func() string {
		name, err := profilekey.Directory(f.acquire(f.session("machine")).Key)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	kept := directory()
	f.org, f.profile = f.tenant()
	gone := directory()
	assertDeleted := func(name string, want bool) {
		t.Helper()
		if got, err := f.Deleted(t.Context(), name); err != nil || got != want {
			t.Errorf("deleted: %t, want %t: %v", got, want, err)
		}
	}
	assertDeleted(gone, false)
	err := pg.InOrg(t.Context(), f.DB, f.org, func(tx *sqlx.Tx) error {
		if err := f.EndOrganization(t.Context(), tx, f.org); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), `DELETE FROM organizations WHERE id = $1`, f.org)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	assertDeleted(gone, true)
	assertDeleted(kept, false)
	f.org, _ = f.tenant() // has no key
	if err := pg.InOrg(t.Context(), f.DB, f.org, func(tx *sqlx.Tx) error { return f.EndOrganization(t.Context(), tx, f.org) }); err != nil {
		t.Errorf("an organization without data: %v", err)
	}
}
