package license_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// fleet is an organization with n running sessions on one machine.
type fleet struct {
	org, boot uuid.UUID
	sessions  []uuid.UUID
}

func newFleet(t *testing.T, db *sqlx.DB, n int) *fleet {
	t.Helper()
	f := &fleet{org: id(), boot: id()}
	for range n {
		f.sessions = append(f.sessions, id())
	}
	for _, statement := range []string{
		`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1::uuid, 'Test', $1::uuid::text, now())`,
		`INSERT INTO license_org (organization_id) VALUES ($1)`,
	} {
		db.MustExec(statement, f.org)
	}
	db.MustExec(`
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, reserved_at, lease_until)
		SELECT gen_random_uuid(), $1, session_id, gen_random_uuid(), 'worker-1', $2, 'reserved', now(), now() + interval '5 minutes'
		FROM unnest($3::uuid[]) AS session_id`, f.org, f.boot, pq.Array(f.sessions))
	db.MustExec(`
		UPDATE license_slots SET state = 'running', launch_id = gen_random_uuid(), browser_version = 156, started_at = now()
		WHERE organization_id = $1`, f.org)
	return f
}

// TestHeartbeat_UpdatesAreHeapOnly checks the share of heap-only updates.
func TestHeartbeat_UpdatesAreHeapOnly(t *testing.T) {
	for _, n := range []int{100, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AllRole})
			s, err := license.New(t.Context(), db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f := newFleet(t, db, n)
			before := readUpdateCounts(t, db)
			const beats = 40
			for seq := range int64(beats) {
				if _, err := s.Heartbeat(t.Context(), license.HeartbeatReport{
					OrgID: f.org, MachineID: "worker-1", BootID: f.boot, Seq: seq, Sessions: f.sessions,
				}); err != nil {
					t.Fatal(err)
				}
			}
			var after updateCounts
			eventually(t, func() bool {
				after = readUpdateCounts(t, db)
				return after.All-before.All >= beats*n
			})
			share := float64(after.HeapOnly-before.HeapOnly) / float64(after.All-before.All)
			t.Logf("%.1f%% of %d updates", 100*share, after.All-before.All)
			if share < 0.95 {
				t.Errorf("%.1f%% of the updates stayed on their page, want 95%%", 100*share)
			}
		})
	}
}

// updateCounts are the numbers of updated rows of license_slots.
type updateCounts struct {
	All      int `db:"n_tup_upd"`
	HeapOnly int `db:"n_tup_hot_upd"`
}

func readUpdateCounts(t *testing.T, db *sqlx.DB) (u updateCounts) {
	t.Helper()
	if err := db.Get(&u, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'license_slots'`); err != nil {
		t.Fatal(err)
	}
	return u
}
