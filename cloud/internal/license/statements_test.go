package license

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// TestStatements_SlotByIDIsScopedToOrganization runs the statements that find slots by
// id for another organization, on the pool that sees all organizations.
func TestStatements_SlotByIDIsScopedToOrganization(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AllRole})
	mine, other, slot := uuid.New(), uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{mine, other} {
		db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, id, id.String())
	}
	db.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
		SELECT $1, $2, $1, 'worker-1', $1, 'reserved', now, now + interval '120 s' FROM now() AS now`, slot, mine)
	some := uuid.New()
	for _, test := range []struct {
		name, sql string
		args      []any
	}{
		{"renew", renewSQL, []any{slot, 120}},
		{"run", startSlotSQL, []any{slot, some, 1, some, 156, "2026-11-21T10:15:00Z", 21600, nil}},
		{"relabel", relabelSQL, []any{slot, 2}},
		{"undo", undoSQL, []any{uuidArray([]uuid.UUID{slot}), 120}},
	} {
		for org, want := range map[uuid.UUID]int64{other: 0, mine: 1} {
			tx := db.MustBegin()
			result, err := tx.Exec(test.sql, append([]any{org}, test.args...)...)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if n, _ := result.RowsAffected(); n != want {
				t.Errorf("%s: %d rows, want %d", test.name, n, want)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
