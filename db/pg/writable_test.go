package pg_test

import (
	"errors"
	"testing"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

func TestWritable(t *testing.T) {
	dsn := dbtest.NewEmptyDSN(t)
	db := dbtest.Open(t, dsn, pg.Options{})
	if err := pg.Writable(t.Context(), db); err != nil {
		t.Errorf("writable database: %v", err)
	}
	owner := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	var name string
	if err := owner.Get(&name, `SELECT quote_ident(current_database())`); err != nil {
		t.Fatal(err)
	}
	exec(t, owner, `ALTER DATABASE `+name+` SET default_transaction_read_only = on`)
	reading := dbtest.Open(t, dsn, pg.Options{})
	if err := pg.Writable(t.Context(), reading); !errors.Is(err, pg.ErrReadOnly) {
		t.Errorf("read-only database: %v", err)
	}
	exec(t, owner, `ALTER DATABASE `+name+` RESET default_transaction_read_only`)
	if err := pg.Writable(t.Context(), reading); err != nil {
		t.Errorf("database that is writable again: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pg.Writable(t.Context(), db); err == nil || errors.Is(err, pg.ErrReadOnly) {
		t.Errorf("removed database: %v", err)
	}
}
