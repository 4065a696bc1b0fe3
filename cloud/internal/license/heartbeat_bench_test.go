package license_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	schema "github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

// bareSQL is what a heartbeat costs at the least: the leases, and nothing else.
const bareSQL = `
UPDATE license_slots s SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + interval '5 minutes'
FROM unnest($2::uuid[]) AS l (session_id)
WHERE s.org_id = $1 AND s.session_id = l.session_id AND s.released_at IS NULL`

// fleet is one organization with n running sessions on one machine.
type fleet struct {
	org, boot uuid.UUID
	sessions  []uuid.UUID
}

func newFleet(b testing.TB, db *sqlx.DB, n int) *fleet {
	b.Helper()
	f := &fleet{org: id(), boot: id()}
	for range n {
		f.sessions = append(f.sessions, id())
	}
	for _, statement := range []string{
		`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1::uuid, 'Test', $1::uuid::text, now())`,
		`INSERT INTO license_org (org_id) VALUES ($1)`,
	} {
		db.MustExec(statement, f.org)
	}
	db.MustExec(`
		INSERT INTO license_slots (id, org_id, session_id, profile_id, machine_id, boot_id, state, reserved_at, lease_until)
		SELECT gen_random_uuid(), $1, session_id, gen_random_uuid(), 'worker-1', $2, 'reserved', now(), now() + interval '5 minutes'
		FROM unnest($3::uuid[]) AS session_id`, f.org, f.boot, pq.Array(f.sessions))
	db.MustExec(`
		UPDATE license_slots SET state = 'running', launch_id = gen_random_uuid(), browser_version = 156, started_at = now()
		WHERE org_id = $1`, f.org)
	return f
}

// BenchmarkHeartbeat runs heartbeats of one machine and the bare statement in
// turn, and reports the medians, their ratio, and how many row versions of the
// heartbeats stayed on their page.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db := durable(b)
			s, err := license.New(b.Context(), db, feed{}, slog.New(slog.DiscardHandler), license.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ours, theirs := newFleet(b, db, n), newFleet(b, db, n)
			bare, err := db.Preparex(bareSQL)
			if err != nil {
				b.Fatal(err)
			}
			var seq int64
			beat := func() {
				seq++
				result, err := s.Heartbeat(b.Context(), license.HeartbeatReport{
					OrgID: ours.org, MachineID: "worker-1", BootID: ours.boot, Seq: seq, Sessions: ours.sessions,
				})
				if err != nil || len(result.Accepted) != n {
					b.Fatalf("%d accepted, %v", len(result.Accepted), err)
				}
			}
			update := func() { bare.MustExec(theirs.org, pq.Array(theirs.sessions)) }
			for range 10 { // the plans settle
				beat()
				update()
			}
			var beats, updates []time.Duration
			for b.Loop() {
				beats = append(beats, timed(beat))
				updates = append(updates, timed(update))
			}
			b.ReportMetric(median(beats).Seconds()*1000, "heartbeat-ms")
			b.ReportMetric(median(updates).Seconds()*1000, "bare-ms")
			b.ReportMetric(median(beats).Seconds()/median(updates).Seconds(), "ratio")
		})
	}
}

// durable is a database of the cloud's own server, which writes what it commits
// to the disk; that of other tests doesn't.
func durable(b *testing.B) *sqlx.DB {
	b.Helper()
	parent := b.TempDir()
	if err := os.Chmod(filepath.Dir(parent), 0o755); err != nil { // the server runs as another user
		b.Fatal(err)
	}
	server, err := embedded.Start(b.Context(), embedded.Options{DataDir: filepath.Join(parent, "data")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Stop(context.Background()) })
	owner := dbtest.Open(b, server.DSN(), pg.Options{})
	if err := schema.Migrate(b.Context(), owner.DB, slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	return dbtest.Open(b, server.DSN(), pg.Options{Role: pg.AppRole, AllOrganizations: true})
}

func timed(fn func()) time.Duration {
	began := time.Now()
	fn()
	return time.Since(began)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// TestHeartbeatsStayOnTheirPage holds the share of heap-only updates.
func TestHeartbeatsStayOnTheirPage(t *testing.T) {
	for _, n := range []int{100, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AppRole, AllOrganizations: true})
			s, err := license.New(t.Context(), db, feed{}, slog.New(slog.DiscardHandler), license.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f := newFleet(t, db, n)
			before := updatesOf(t, db)
			const beats = 40
			for seq := range int64(beats) {
				if _, err := s.Heartbeat(t.Context(), license.HeartbeatReport{
					OrgID: f.org, MachineID: "worker-1", BootID: f.boot, Seq: seq, Sessions: f.sessions,
				}); err != nil {
					t.Fatal(err)
				}
			}
			var after updates
			eventually(t, func() bool {
				after = updatesOf(t, db)
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

// updates are how many rows of license_slots were updated.
type updates struct {
	All      int `db:"n_tup_upd"`
	HeapOnly int `db:"n_tup_hot_upd"`
}

func updatesOf(t *testing.T, db *sqlx.DB) (u updates) {
	t.Helper()
	if err := db.Get(&u, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'license_slots'`); err != nil {
		t.Fatal(err)
	}
	return u
}
