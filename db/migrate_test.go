package db_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// nextMigration is a migration of a later release.
const nextMigration = `-- +goose Up
ALTER TABLE organizations ADD COLUMN motto text NOT NULL DEFAULT 'none';
CREATE TABLE badges (organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE, label text NOT NULL);
INSERT INTO badges SELECT id, 'migrated' FROM organizations;
CALL enable_tenant_rls('badges', 'organization_id');
`

// withNextMigration returns the migrations with one more, and their number.
func withNextMigration(t *testing.T) (files fs.FS, count int) {
	t.Helper()
	names, err := fs.Glob(db.Files(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("the migrations: %v, %v", names, err)
	}
	next := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(db.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		next[name] = &fstest.MapFile{Data: text}
	}
	var newest int
	if _, err := fmt.Sscanf(names[len(names)-1], "%d_", &newest); err != nil {
		t.Fatal(err)
	}
	next[fmt.Sprintf("%05d_next.sql", newest+1)] = &fstest.MapFile{Data: []byte(nextMigration)}
	return next, len(next)
}

func TestMigrate_ConcurrentReplicasApplyEachMigrationOnce(t *testing.T) {
	t.Run("empty database", func(t *testing.T) {
		_, count := withNextMigration(t)
		migrateConcurrently(t, dbtest.NewEmptyDSN(t), count)
	})
	// Only the lock separates the replicas: the table of versions exists, so no replica
	// has a head start.
	t.Run("database with a table of versions", func(t *testing.T) {
		dsn := dbtest.NewEmptyDSN(t)
		if _, _, err := db.Version(t.Context(), dbtest.Open(t, dsn, pg.Options{}).DB); err != nil {
			t.Fatal(err)
		}
		_, count := withNextMigration(t)
		migrateConcurrently(t, dsn, count)
	})
	t.Run("database of the previous release", func(t *testing.T) {
		migrateConcurrently(t, dbtest.NewDSN(t), 1)
	})
}

// TestMigrate_KeepsDataOfPreviousRelease migrates a database with rows, then applies
// one more migration and reads the rows as the service does.
func TestMigrate_KeepsDataOfPreviousRelease(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	all := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	mine, other := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{mine, other} {
		all.MustExecContext(t.Context(), `INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, id, id.String())
	}
	files, _ := withNextMigration(t)
	owner := dbtest.Open(t, dsn, pg.Options{})
	for run, want := range []int{1, 0} {
		var log bytes.Buffer
		if err := db.MigrateFiles(t.Context(), owner.DB, files, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "migration applied"); got != want {
			t.Errorf("run %d applied %d migrations, want %d:\n%s", run+1, got, want, &log)
		}
	}
	current, newest, err := db.Version(t.Context(), owner.DB)
	if err != nil || current != newest+1 {
		t.Errorf("Version = %d of %d, %v; want the next one", current, newest, err)
	}
	var rows []string
	if err := all.SelectContext(t.Context(), &rows, `SELECT o.motto || ' ' || b.label FROM organizations o JOIN badges b ON b.organization_id = o.id`); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows, []string{"none migrated", "none migrated"}) {
		t.Errorf("rows after the migration: %q", rows)
	}
	pool := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})
	err = pg.InOrg(t.Context(), pool, mine, func(tx *sqlx.Tx) error {
		var visible int
		err := tx.GetContext(t.Context(), &visible, `SELECT count(*) FROM badges`)
		if err == nil && visible != 1 {
			t.Errorf("an organization sees %d rows of the new table, want 1", visible)
		}
		return err
	})
	if err != nil {
		t.Errorf("read the new table as %s: %v", pg.AppRole, err)
	}
}

// migrateConcurrently migrates one database from four replicas. Together they
// must apply want migrations.
func migrateConcurrently(t *testing.T, dsn string, want int) {
	t.Helper()
	files, count := withNextMigration(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil)) // serializes its writes
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		pool := dbtest.Open(t, dsn, pg.Options{MaxOpen: 2})
		wg.Go(func() {
			<-start
			if err := db.MigrateFiles(t.Context(), pool.DB, files, logger); err != nil {
				t.Errorf("replica: %v", err)
			}
		})
	}
	began := time.Now()
	close(start)
	wg.Wait()
	t.Logf("4 replicas, %d migrations: %v", want, time.Since(began).Round(time.Millisecond))

	if got := strings.Count(log.String(), "migration applied"); got != want {
		t.Errorf("%d migrations logged as applied, want %d:\n%s", got, want, log.String())
	}
	pool := dbtest.Open(t, dsn, pg.Options{})
	var versions, distinct int
	err := pool.QueryRow(`SELECT count(*), count(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0`).Scan(&versions, &distinct)
	if err != nil || versions != count || distinct != count {
		t.Errorf("recorded %d versions, %d distinct, %v; want %d", versions, distinct, err, count)
	}
}

func TestMigrate_KeepsPoolTimeouts(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{MaxOpen: 1, Statement: 7 * time.Second, Lock: 3 * time.Second})
	if err := db.Migrate(t.Context(), pool.DB, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	var statement, lock string
	if err := pool.QueryRow(`SELECT current_setting('statement_timeout'), current_setting('lock_timeout')`).Scan(&statement, &lock); err != nil {
		t.Fatal(err)
	}
	if statement != "7s" || lock != "3s" {
		t.Errorf("statement_timeout %s, lock_timeout %s after Migrate, want 7s and 3s", statement, lock)
	}
}

// TestMigrations_ValidateConstraintsLater: a migration that adds a constraint to a table and
// validates it in the same transaction would keep the table locked while it is read.
func TestMigrations_ValidateConstraintsLater(t *testing.T) {
	names, err := fs.Glob(db.Files(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[1:] { // the first one creates all of its tables
		text, err := fs.ReadFile(db.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		if added, later := strings.Count(string(text), "ADD CONSTRAINT"), strings.Count(string(text), "NOT VALID"); added != later {
			t.Errorf("%s adds %d constraints, %d of them with NOT VALID", name, added, later)
		}
	}
	var invalid []string
	if err := sqlx.Select(dbtest.New(t), &invalid, `SELECT conname FROM pg_constraint WHERE NOT convalidated`); err != nil || len(invalid) > 0 {
		t.Errorf("not validated: %q, %v", invalid, err)
	}
}

func TestVersion_ReturnsZeroForEmptyDatabase(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	current, newest, err := db.Version(t.Context(), pool.DB)
	if err != nil || current != 0 || newest == 0 {
		t.Errorf("Version = %d of %d, %v; want 0 of more", current, newest, err)
	}
}

// TestMigrate_RunsOnCompatibleNewerSchemaOnly runs an older program on newer schemas.
func TestMigrate_RunsOnCompatibleNewerSchemaOnly(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if err := db.Migrate(t.Context(), pool.DB, logger); err != nil || strings.Contains(log.String(), "newer than this program") {
		t.Fatalf("a schema of the same version: %v\n%s", err, &log)
	}
	if _, err := pool.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), pool.DB, logger); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`level=WARN msg="database schema is newer than this program, but compatible" schemaVersion=99999 programVersion=\d+`).Match(log.Bytes()) {
		t.Errorf("the log:\n%s", &log)
	}
	if _, err := pool.Exec(`UPDATE schema_compatibility SET oldest_version = 99998`); err != nil {
		t.Fatal(err)
	}
	err := db.Migrate(t.Context(), pool.DB, logger)
	if err == nil || !strings.Contains(err.Error(), "the schema has version 99999, which needs a program of version 99998 or later") {
		t.Errorf("an incompatible schema: %v", err)
	}
}

func TestReadSchema_ChangesNothingAndNamesTheRemedy(t *testing.T) {
	empty := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	migrated := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	for _, test := range []struct {
		pool  *sqlx.DB
		setup string
		want  string // in the error; none if empty
	}{
		{empty, `SELECT`, "the database has no schema"},
		{migrated, `SELECT`, ""},
		{migrated, `DELETE FROM goose_db_version WHERE version_id > 1`, "run svc-cloud migrate"},
		{migrated, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`, ""},
		{migrated, `UPDATE schema_compatibility SET oldest_version = 99998`, "run a newer release"},
	} {
		test.pool.MustExecContext(t.Context(), test.setup)
		schema, err := db.ReadSchema(t.Context(), test.pool.DB)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("after %s: %+v: %v, want %q", test.setup, schema, err, test.want)
		}
	}
	var tables int
	if err := empty.GetContext(t.Context(), &tables, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`); err != nil || tables != 0 {
		t.Errorf("the empty database has %d tables, %v", tables, err)
	}
}
