package activity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/page"
)

const (
	few  = 1_000
	many = 1_000_000
)

// BenchmarkFeed reads the first page, the last page, and a middle page by cursor. The
// table contains an organization with a million ended sessions and one with a thousand.
// The benchmark reports the medians and their ratio; -v logs the plans.
func BenchmarkFeed(b *testing.B) {
	dsn := dbtest.NewDSN(b)
	all := dbtest.Open(b, dsn, pg.Options{Role: pg.AllRole, Statement: 10 * time.Minute})
	feed := &Feed{DB: dbtest.Open(b, dsn, pg.Options{Role: pg.AppRole}), Clock: clock.NewFake(noon)}
	small, large := fill(b, all, few), fill(b, all, many)
	dbtest.Open(b, dsn, pg.Options{Statement: 10 * time.Minute}).MustExecContext(b.Context(), `VACUUM ANALYZE activity_sessions`)

	request := func(n int) page.Request { return page.Request{Page: n, Limit: 20, SortBy: byStart, Desc: true} }
	middle := func(n int) string { return cursorAfter(Session{ID: uuid.Max, StartedAt: startOf(n / 2)}) }
	for _, c := range []struct {
		name string
		read func(org uuid.UUID, n int) (Listing, error)
	}{
		{"first page", func(org uuid.UUID, _ int) (Listing, error) {
			return feed.List(b.Context(), org, Filter{}, request(1))
		}},
		{"last page", func(org uuid.UUID, n int) (Listing, error) {
			return feed.List(b.Context(), org, Filter{}, request(n/20))
		}},
		{"cursor", func(org uuid.UUID, n int) (Listing, error) {
			return feed.ListAfter(b.Context(), org, Filter{}, request(1), middle(n))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, query := range []struct {
					org uuid.UUID
					n   int
				}{{small, few}, {large, many}} {
					began := time.Now()
					l, err := c.read(query.org, query.n)
					took[i] = append(took[i], time.Since(began))
					if err != nil || len(l.Items) != 20 {
						b.Fatalf("%d items, %v", len(l.Items), err)
					}
				}
			}
			a, z := median(took[0]), median(took[1])
			b.ReportMetric(float64(a.Microseconds()), "µs-of-1e3")
			b.ReportMetric(float64(z.Microseconds()), "µs-of-1e6")
			b.ReportMetric(float64(z)/float64(a), "ratio")
		})
	}
	showPlans(b, all, large)
}

func startOf(i int) time.Time { return noon.Add(-time.Duration(i) * time.Second) }

func fill(b *testing.B, db *sqlx.DB, n int) uuid.UUID {
	b.Helper()
	org := newID()
	db.MustExecContext(b.Context(), `INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, org, org.String())
	db.MustExecContext(b.Context(), `
		INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version,
			status, end_reason, started_at, ended_at)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), 'Checkout', 'worker-' || i % 50, gen_random_uuid(), 156,
			'exited', 'client_close', at, at + interval '90 s'
		FROM generate_series(0, $2 - 1) i, LATERAL (SELECT $3::timestamptz - i * interval '1 s' AS at) t`, org, n, noon)
	return org
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func showPlans(b *testing.B, db *sqlx.DB, org uuid.UUID) {
	b.Helper()
	for _, query := range []string{
		`SELECT count(*) FROM activity_sessions WHERE organization_id = $1`,
		`SELECT id FROM activity_sessions WHERE organization_id = $1 ORDER BY started_at DESC, id DESC LIMIT 20`,
		`SELECT id FROM activity_sessions WHERE organization_id = $1 ORDER BY started_at ASC, id ASC LIMIT 20`,
		`SELECT id FROM activity_sessions WHERE organization_id = $1 AND (started_at, id) < ('2026-11-15 12:00:00+00', 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY started_at DESC, id DESC LIMIT 21`,
	} {
		var lines []string
		if err := db.SelectContext(b.Context(), &lines, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+query, org); err != nil {
			b.Fatal(err)
		}
		b.Logf("%s\n%s", query, strings.Join(lines, "\n"))
	}
}
