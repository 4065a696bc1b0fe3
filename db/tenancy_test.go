package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// TestEveryTableOfAnOrganizationIsSecluded finds tables that a later migration
// forgot to put under row-level security.
func TestEveryTableOfAnOrganizationIsSecluded(t *testing.T) {
	db := dbtest.New(t)
	var open []string
	err := db.SelectContext(t.Context(), &open, `
		SELECT c.oid::regclass::text FROM pg_class c
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
			AND (c.relname = 'organizations' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('organization_id', 'org_id')))
			AND NOT (c.relrowsecurity AND c.relforcerowsecurity
				AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polwithcheck IS NULL) = 2)`)
	if err != nil {
		t.Fatal(err)
	}
	if len(open) > 0 {
		t.Errorf("not under row-level security: %q; CALL seclude('<table>', '<column>') in its migration", open)
	}
}

// TestTheSecondWallHoldsWithoutTheFirst asks without naming an organization.
func TestTheSecondWallHoldsWithoutTheFirst(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	all := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole, AllOrganizations: true})
	one := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})
	mine, other := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{mine, other} {
		all.MustExecContext(t.Context(), `INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, id, id.String())
		all.MustExecContext(t.Context(), `INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at) VALUES ($1, $2, 'p', 156, now(), now())`, uuid.New(), id)
	}
	count := func(q sqlx.QueryerContext) (n int) {
		t.Helper()
		if err := sqlx.GetContext(t.Context(), q, &n, `SELECT count(*) FROM profiles`); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(all); n != 2 {
		t.Errorf("the service sees %d profiles, want 2", n)
	}
	if n := count(one); n != 0 {
		t.Errorf("nobody sees %d profiles, want 0", n)
	}
	err := pg.InOrg(t.Context(), one, mine, func(tx *sqlx.Tx) error {
		if n := count(tx); n != 1 {
			t.Errorf("an organization sees %d profiles, want its own", n)
		}
		for _, statement := range []string{`UPDATE profiles SET name = 'stolen'`, `DELETE FROM profiles`} {
			result, err := tx.ExecContext(t.Context(), statement)
			if err != nil {
				return err
			}
			if n, _ := result.RowsAffected(); n != 1 {
				t.Errorf("%s: %d rows, want its own", statement, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(one); n != 0 {
		t.Errorf("afterwards the connection sees %d profiles, want 0", n)
	}
	err = pg.InOrg(t.Context(), one, mine, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at) VALUES ($1, $2, 'p', 156, now(), now())`, uuid.New(), other)
		return err
	})
	if err == nil {
		t.Error("a profile was planted in another organization")
	}
	for _, statement := range []string{`SELECT count(*) FROM goose_db_version`, `DROP TABLE profiles`, `ALTER TABLE profiles DISABLE ROW LEVEL SECURITY`} {
		if _, err := one.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s is allowed", statement)
		}
	}
}
