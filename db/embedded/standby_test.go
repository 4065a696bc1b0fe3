package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// TestPool_WritesAfterPromotion performs a failover: the pool's connections were opened
// while the server was a standby.
func TestPool_WritesAfterPromotion(t *testing.T) {
	dir := dataDir(t)
	first := start(t, dir)
	exec(t, open(t, first.DSN()), `CREATE TABLE rows (n int)`)
	stop(t, first)
	if err := os.WriteFile(filepath.Join(dir, "cluster", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server := start(t, dir)
	db, admin := open(t, server.DSN()), open(t, server.AdminDSN())
	insert := func() error {
		return pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			_, err := tx.Exec(`INSERT INTO rows VALUES (1)`)
			return err
		})
	}
	if outage, is := pg.OutageOf(insert()); !is || outage.Message != "The database is read-only at the moment. Try again later." {
		t.Fatalf("a transaction on a standby: %+v, %v", outage, is)
	}
	var promoted bool
	if err := admin.GetContext(context.WithoutCancel(t.Context()), &promoted, `SELECT pg_promote()`); err != nil || !promoted {
		t.Fatalf("promote: %v, %v", promoted, err)
	}
	if err := insert(); err != nil {
		t.Errorf("a transaction after the promotion: %v", err)
	}
}
