package license_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// BenchmarkHeartbeat compares heartbeats of 100 sessions without a report of the
// machine, as most are, with those that contain an unchanged report. They alternate.
func BenchmarkHeartbeat(b *testing.B) {
	db := dbtest.Open(b, dbtest.NewDSN(b), pg.Options{Role: pg.AllRole})
	service, err := license.New(b.Context(), db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = service.Close() })
	org, sessions := benchMachine(b, db)
	beat := license.HeartbeatReport{OrgID: org, MachineID: "worker-1", BootID: org, Sessions: sessions}
	reports := []*license.MachineReport{nil, {KeyID: id(), HostName: "browsers-1", Version: "1.0.0"}}
	var took [2][]time.Duration
	for b.Loop() {
		for i, report := range reports {
			beat.Seq++
			beat.Machine = report
			began := time.Now()
			if result, err := service.Heartbeat(b.Context(), beat); err != nil || len(result.Accepted) != len(sessions) {
				b.Fatalf("%+v, %v", result, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, unit := range []string{"µs-without", "µs-with"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), unit)
	}
}

// benchMachine creates an organization with a machine and 100 sessions.
func benchMachine(b *testing.B, db *sqlx.DB) (org uuid.UUID, sessions []uuid.UUID) {
	b.Helper()
	org = id()
	db.MustExecContext(b.Context(), `INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, org)
	db.MustExecContext(b.Context(), `INSERT INTO license_org (organization_id, in_use) VALUES ($1, 100)`, org)
	err := db.SelectContext(b.Context(), &sessions, `
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), $1, 'worker-1', $1, 'running', gen_random_uuid(), 156, now(), now(), now() + interval '6 hours'
		FROM generate_series(1, 100) RETURNING session_id`, org)
	if err != nil {
		b.Fatal(err)
	}
	return org, sessions
}
