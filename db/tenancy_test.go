package db_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// unprotectedTables returns the tables with rows of organizations whose row-level
// security differs from that of enable_tenant_rls, with the difference.
func unprotectedTables(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	var tables []struct{ Table, Column, Policies string }
	err := db.SelectContext(t.Context(), &tables, `
		SELECT c.oid::regclass::text AS "table", a.attname AS "column", concat_ws(E'\n',
			CASE WHEN c.relrowsecurity AND c.relforcerowsecurity THEN 'on' ELSE 'off' END,
			(SELECT string_agg(concat_ws(' ', p.polname, p.polcmd, p.polpermissive, p.polroles::regrole[],
				pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid)), E'\n' ORDER BY p.polname)
			FROM pg_policy p WHERE p.polrelid = c.oid)) AS policies
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			AND (a.attname = 'organization_id' OR c.relname = 'organizations' AND a.attname = 'id')
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) == 0 {
		t.Fatal("no table belongs to an organization")
	}
	var open []string
	for _, table := range tables {
		want := "on\n" +
			"all_organizations * t {svc_all} true\n" +
			"one_organization * t {-} (" + table.Column +
			" = ( SELECT (NULLIF(current_setting('svc.organization'::text, true), ''::text))::uuid AS \"nullif\"))"
		if table.Policies != want {
			open = append(open, table.Table+" by "+table.Column+": "+table.Policies)
		}
	}
	return open
}

// TestTenantTables_HaveRowLevelSecurity finds tables for which a migration did
// not enable row-level security.
func TestTenantTables_HaveRowLevelSecurity(t *testing.T) {
	for _, open := range unprotectedTables(t, dbtest.New(t)) {
		t.Errorf("not under row-level security: %s\nCALL enable_tenant_rls('<table>', '<column>') in its migration", open)
	}
}

// TestUnprotectedTables_FindsWrongPolicies creates tables whose policies are
// missing, too open or not forced.
func TestUnprotectedTables_FindsWrongPolicies(t *testing.T) {
	for name, setup := range map[string]string{
		"none":            ``,
		"open policies":   `ALTER TABLE leaky ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY one_organization ON leaky USING (true); CREATE POLICY all_organizations ON leaky USING (true)`,
		"another column":  `CALL enable_tenant_rls('leaky', 'other_id')`,
		"one policy more": `CALL enable_tenant_rls('leaky', 'organization_id'); CREATE POLICY third ON leaky USING (true)`,
		"an open check":   `CALL enable_tenant_rls('leaky', 'organization_id'); ALTER POLICY one_organization ON leaky WITH CHECK (true)`,
		"not its owner":   `CALL enable_tenant_rls('leaky', 'organization_id'); ALTER TABLE leaky NO FORCE ROW LEVEL SECURITY`,
	} {
		db := dbtest.New(t)
		db.MustExecContext(t.Context(), `CREATE TABLE leaky (organization_id uuid, other_id uuid); `+setup)
		if open := unprotectedTables(t, db); len(open) != 1 || !strings.HasPrefix(open[0], "leaky by organization_id") {
			t.Errorf("%s: found %q", name, open)
		}
	}
}

// TestRowLevelSecurity_HidesOtherOrganizations runs statements without a condition on
// the organization.
func TestRowLevelSecurity_HidesOtherOrganizations(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	all := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	pool := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})
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
		t.Errorf("svc_all sees %d profiles, want 2", n)
	}
	if n := count(pool); n != 0 {
		t.Errorf("svc_app without an organization sees %d profiles, want 0", n)
	}
	err := pg.InOrg(t.Context(), pool, mine, func(tx *sqlx.Tx) error {
		if n := count(tx); n != 1 {
			t.Errorf("an organization sees %d profiles, want 1", n)
		}
		for _, statement := range []string{`UPDATE profiles SET name = 'stolen'`, `DELETE FROM profiles`} {
			result, err := tx.ExecContext(t.Context(), statement)
			if err != nil {
				return err
			}
			if n, _ := result.RowsAffected(); n != 1 {
				t.Errorf("%s: %d rows, want 1", statement, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(pool); n != 0 {
		t.Errorf("after the transaction the connection sees %d profiles, want 0", n)
	}
	err = pg.InOrg(t.Context(), pool, mine, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at) VALUES ($1, $2, 'p', 156, now(), now())`, uuid.New(), other)
		return err
	})
	if err == nil {
		t.Error("a profile was inserted into another organization")
	}
	for _, statement := range []string{`SELECT count(*) FROM goose_db_version`, `DROP TABLE profiles`, `ALTER TABLE profiles DISABLE ROW LEVEL SECURITY`} {
		if _, err := pool.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s is allowed", statement)
		}
	}
}
