package db_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

func files(t *testing.T) int {
	t.Helper()
	names, err := fs.Glob(db.Files(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("the migrations: %v, %v", names, err)
	}
	return len(names)
}

func TestReplicasThatMigrateAtOnceApplyEachMigrationOnce(t *testing.T) {
	t.Run("an empty database", func(t *testing.T) {
		migrateAtOnce(t, dbtest.NewEmptyDSN(t))
	})
	// Here nothing but the lock keeps the replicas apart: the first to make the
	// table of versions has no head start.
	t.Run("a database with a table of versions", func(t *testing.T) {
		dsn := dbtest.NewEmptyDSN(t)
		if _, _, err := db.Version(t.Context(), dbtest.Open(t, dsn, pg.Options{}).DB); err != nil {
			t.Fatal(err)
		}
		migrateAtOnce(t, dsn)
	})
}

func migrateAtOnce(t *testing.T, dsn string) {
	t.Helper()
	want := files(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil)) // serializes its writes
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		pool := dbtest.Open(t, dsn, pg.Options{MaxOpen: 2})
		wg.Go(func() {
			<-start
			if err := db.Migrate(t.Context(), pool.DB, logger); err != nil {
				t.Errorf("a replica: %v", err)
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
	if err != nil || versions != want || distinct != want {
		t.Errorf("recorded %d versions, %d distinct, %v; want %d", versions, distinct, err, want)
	}
	current, newest, err := db.Version(t.Context(), pool.DB)
	if err != nil || current != newest {
		t.Errorf("Version = %d of %d, %v", current, newest, err)
	}
}

func TestMigrateLeavesThePoolsTimeoutsAlone(t *testing.T) {
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

func TestVersionOfAnEmptyDatabaseIsZero(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewEmptyDSN(t), pg.Options{})
	current, newest, err := db.Version(t.Context(), pool.DB)
	if err != nil || current != 0 || newest == 0 {
		t.Errorf("Version = %d of %d, %v; want 0 of more", current, newest, err)
	}
}

// TestMigrate_WarnsOfANewerSchema: an older program on a newer schema says so in
// its log, and goes on.
func TestMigrate_WarnsOfANewerSchema(t *testing.T) {
	pool := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if err := db.Migrate(t.Context(), pool.DB, logger); err != nil || strings.Contains(log.String(), "newer than this program") {
		t.Fatalf("a schema of the same age: %v\n%s", err, &log)
	}
	if _, err := pool.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), pool.DB, logger); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`level=ERROR msg="database schema is newer than this program[^"]*" schemaVersion=99999 programVersion=\d+`).Match(log.Bytes()) {
		t.Errorf("the log:\n%s", &log)
	}
}
