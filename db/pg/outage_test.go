package pg_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// readOnly sets whether new sessions of the database are read-only.
func readOnly(t *testing.T, admin *sqlx.DB, on bool) {
	t.Helper()
	var name string
	if err := admin.Get(&name, `SELECT quote_ident(current_database())`); err != nil {
		t.Fatal(err)
	}
	exec(t, admin, fmt.Sprintf(`SET default_transaction_read_only = off; ALTER DATABASE %s SET default_transaction_read_only = %v`, name, on))
}

// TestPool_ReplacesReadOnlyConnections opens all connections of a pool while the
// database is read-only. Sessions keep that setting, so the pool would stay read-only
// after the database becomes writable.
func TestPool_ReplacesReadOnlyConnections(t *testing.T) {
	const size = 4
	dsn := dbtest.NewEmptyDSN(t)
	admin := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	exec(t, admin, `CREATE TABLE rows (n int)`)
	writes := map[string]func(*sqlx.DB) error{
		"a statement": func(db *sqlx.DB) error { _, err := db.Exec(`INSERT INTO rows VALUES (1)`); return err },
		"a query":     func(db *sqlx.DB) error { return db.Get(new(int), `INSERT INTO rows VALUES (1) RETURNING n`) },
		"a prepared statement": func(db *sqlx.DB) error {
			prepared, err := db.Preparex(`INSERT INTO rows VALUES ($1)`)
			if err != nil {
				return err
			}
			defer prepared.Close()
			_, err = prepared.Exec(1)
			return err
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			readOnly(t, admin, true)
			db := dbtest.Open(t, dsn, pg.Options{MaxOpen: size})
			for _, conn := range connections(t, db, size) {
				conn.Close()
			}
			readOnly(t, admin, false)
			outage, is := pg.OutageOf(write(db))
			if !is || outage.RetryAfter <= 0 || outage.Message != "The database is read-only at the moment. Try again later." {
				t.Fatalf("on a read-only connection: %+v, %v", outage, is)
			}
			for i, conn := range connections(t, db, size) {
				if _, err := conn.ExecContext(t.Context(), `INSERT INTO rows VALUES (2)`); err != nil {
					t.Errorf("connection %d of the writable database: %v", i, err)
				}
				conn.Close()
			}
		})
	}
}

// connections takes n connections of the pool at the same time.
func connections(t *testing.T, db *sqlx.DB, n int) []*sqlx.Conn {
	t.Helper()
	open := make([]*sqlx.Conn, n)
	for i := range open {
		var err error
		if open[i], err = db.Connx(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return open
}

func TestOutageOf(t *testing.T) {
	dsn := dbtest.NewEmptyDSN(t)
	db := dbtest.Open(t, dsn, pg.Options{MaxOpen: 2, Statement: 2 * time.Second, Lock: 20 * time.Millisecond})
	exec(t, db, `CREATE TABLE rows (n int)`)
	fails := func(query string) error {
		_, err := db.ExecContext(t.Context(), query)
		return err
	}
	raise := func(code string) error {
		return fails(fmt.Sprintf(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '%s'; END $$`, code))
	}
	locked := func() error {
		tx := db.MustBegin()
		defer tx.Rollback()
		tx.MustExec(`LOCK TABLE rows`)
		return fails(`INSERT INTO rows VALUES (1)`)
	}
	_, refused := pg.Open(t.Context(), "postgres:///a?host="+t.TempDir(), pg.Options{Wait: -1})
	for _, tc := range []struct {
		name, message string
		err           error
	}{
		{"no server", "The database cannot be reached. Try again later.", refused},
		{"a lost connection", "The database cannot be reached. Try again later.", fails(`SELECT pg_terminate_backend(pg_backend_pid())`)},
		{"a lock", "Another request holds a lock for too long. Try again later.", locked()},
		{"a slow statement", "The database did not answer in time. Try again later.", fails(`SELECT pg_sleep(60)`)},
		{"a full disk", "The database has no space left for new data. Try again later.", raise("53100")},
		{"no memory", "The database does not have enough memory for this request. Try again later.", raise("53200")},
		{"no connection left", "The database has no free connection. Try again later.", raise("53300")},
		{"starting up", "The database is starting up or shutting down. Try again later.", raise("57P03")},
		{"a broken disk", "The database cannot read or write its files. Try again later.", raise("58030")},
	} {
		outage, is := pg.OutageOf(fmt.Errorf("wrapped: %w", tc.err))
		if !is || outage.Message != tc.message || outage.RetryAfter <= 0 {
			t.Errorf("%s: %+v, %v (%v)", tc.name, outage, is, tc.err)
		}
	}
	for name, err := range map[string]error{
		"none": nil, "a wrong statement": fails(`SELECT 1/0`), "a violated rule": raise("23505"), "a caller who left": context.Canceled,
	} {
		if outage, is := pg.OutageOf(err); is {
			t.Errorf("%s: %+v", name, outage)
		}
	}
}
