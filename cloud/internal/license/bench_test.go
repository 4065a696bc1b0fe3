package license_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

// rounds is how often each side of a comparison is measured, turn about, and
// turn how long at a time.
const (
	rounds = 15
	turn   = 300 * time.Millisecond
)

// stage is a server that keeps what it commits, unlike that of the tests, with
// the pool that the service has in production.
type stage struct {
	b     *testing.B
	admin *sqlx.DB // of another database
	owner *sqlx.DB
	db    *sqlx.DB
}

func newStage(b *testing.B) *stage {
	b.Helper()
	dir := b.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		b.Fatal(err)
	}
	server, err := embedded.Start(b.Context(), embedded.Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop(context.Background()) })
	owner := dbtest.Open(b, server.DSN(), pg.Options{Statement: 10 * time.Minute})
	if err := db.Migrate(b.Context(), owner.DB, slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	return &stage{
		b: b, owner: owner, admin: dbtest.Open(b, server.AdminDSN(), pg.Options{Statement: 10 * time.Minute}),
		db: dbtest.Open(b, server.DSN(), pg.Options{Role: pg.AppRole, AllOrganizations: true, Statement: 10 * time.Minute}),
	}
}

func (s *stage) service(opts license.Options) *license.Service {
	s.b.Helper()
	service, err := license.New(s.b.Context(), s.db, deaf{}, slog.New(slog.DiscardHandler), opts)
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { service.Close() })
	return service
}

// organizations makes that many, with that limit; a negative one is none.
func (s *stage) organizations(n, limit int) []uuid.UUID {
	s.b.Helper()
	all := make([]uuid.UUID, n)
	for i := range all {
		all[i] = id()
		s.db.MustExecContext(s.b.Context(), `INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, all[i], all[i].String())
		s.db.MustExecContext(s.b.Context(), `INSERT INTO license_org (org_id, max_slots) VALUES ($1, NULLIF($2, -1))`, all[i], limit)
	}
	return all
}

// deaf is an observer with nothing to do.
type deaf struct{}

func (deaf) SessionsStarted(context.Context, *sqlx.Tx, []license.Started) error { return nil }
func (deaf) SessionsEnded(context.Context, *sqlx.Tx, []license.Ended) error     { return nil }

// pair reserves a slot and gives it back.
func pair(ctx context.Context, s *license.Service, org, profile uuid.UUID) error {
	session := id()
	grant, err := s.Authorize(ctx, license.Request{
		OrgID: org, KeyID: org, MachineID: "worker-1", BootID: org, SessionID: session, ProfileID: &profile,
	})
	if err != nil {
		return err
	}
	if !grant.Allowed {
		return fmt.Errorf("refused at %d", grant.Current)
	}
	_, err = s.End(ctx, license.EndReport{OrgID: org, ProfileID: profile, SessionID: session})
	return err
}

// load is what clients in a closed loop got done.
type load struct {
	perSecond     float64
	p50, p99, max time.Duration
}

// drive lets clients do work for a turn, each as fast as it can.
func drive(b *testing.B, clients int, work func(client, i int) error) load {
	b.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var failed atomic.Bool
	var group sync.WaitGroup
	began := time.Now()
	for client := range clients {
		group.Go(func() {
			var own []time.Duration
			for i := 0; time.Since(began) < turn && !failed.Load(); i++ {
				at := time.Now()
				if err := work(client, i); err != nil {
					failed.Store(true)
					b.Error(err)
				}
				own = append(own, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	group.Wait()
	elapsed := time.Since(began)
	slices.Sort(took)
	return load{
		perSecond: float64(len(took)) / elapsed.Seconds(),
		p50:       took[len(took)/2], p99: took[len(took)*99/100], max: took[len(took)-1],
	}
}

// compare measures a and b turn about and reports the median of each and the
// ratio of a to b.
func compare(b *testing.B, aName, bName string, measureA, measureB func() load) {
	b.Helper()
	measureA() // warms connections, plans and pages
	measureB()
	for b.Loop() {
		var as, bs []load
		for range rounds {
			as = append(as, measureA())
			bs = append(bs, measureB())
		}
		rate := func(l load) float64 { return l.perSecond }
		latest := func(l load) float64 { return ms(l.p99) }
		b.ReportMetric(medianOf(as, rate), aName+"/s")
		b.ReportMetric(medianOf(bs, rate), bName+"/s")
		b.ReportMetric(medianOf(as, latest), aName+"-p99-ms")
		b.ReportMetric(medianOf(bs, latest), bName+"-p99-ms")
		b.ReportMetric(medianOf(as, rate)/medianOf(bs, rate), "ratio")
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func medianOf(loads []load, of func(load) float64) float64 {
	values := make([]float64, len(loads))
	for i, l := range loads {
		values[i] = of(l)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkHotOrganization reserves and releases in one organization, with the
// combiner and without.
func BenchmarkHotOrganization(b *testing.B) {
	s := newStage(b)
	combined, plain := s.service(license.Options{}), s.service(license.Options{Uncombined: true})
	for _, clients := range []int{32, 128} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			profile := id()
			with := func(service *license.Service) func() load {
				org := s.organizations(1, 1000)[0]
				return func() load {
					return drive(b, clients, func(int, int) error { return pair(b.Context(), service, org, profile) })
				}
			}
			compare(b, "combined", "plain", with(combined), with(plain))
		})
	}
}

// BenchmarkUncontended is one client of one organization against the floor of a
// durable pair: a slot row inserted and deleted, with no check at all.
func BenchmarkUncontended(b *testing.B) {
	s := newStage(b)
	service := s.service(license.Options{})
	org, bare := s.organizations(1, 1000)[0], s.organizations(1, 1000)[0]
	profile := id()
	insert, err := s.db.PreparexContext(b.Context(), `INSERT INTO license_slots (id, org_id, session_id, profile_id, key_id, machine_id, boot_id,
		state, reserved_at, lease_until) VALUES ($1, $2, $3, $4, $2, 'worker-1', $2, 'reserved', now(), now() + interval '2 minutes')`)
	if err != nil {
		b.Fatal(err)
	}
	remove, err := s.db.PreparexContext(b.Context(), `DELETE FROM license_slots WHERE org_id = $1 AND session_id = $2`)
	if err != nil {
		b.Fatal(err)
	}
	compare(b, "licensed", "bare",
		func() load {
			return drive(b, 1, func(int, int) error { return pair(b.Context(), service, org, profile) })
		},
		func() load {
			return drive(b, 1, func(int, int) error {
				session := id()
				if _, err := insert.ExecContext(b.Context(), id(), bare, session, profile); err != nil {
					return err
				}
				_, err := remove.ExecContext(b.Context(), bare, session)
				return err
			})
		})
}

// BenchmarkManyOrganizations has so many that a combiner can only be in the way.
func BenchmarkManyOrganizations(b *testing.B) {
	s := newStage(b)
	combined, plain := s.service(license.Options{}), s.service(license.Options{Uncombined: true})
	orgs := s.organizations(1000, 1000)
	for _, clients := range []int{8, 32} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			profile := id()
			with := func(service *license.Service) func() load {
				return func() load {
					return drive(b, clients, func(client, i int) error {
						return pair(b.Context(), service, orgs[(client*7919+i*31)%len(orgs)], profile)
					})
				}
			}
			compare(b, "combined", "plain", with(combined), with(plain))
		})
	}
}

// BenchmarkRefusals asks for slots of a full organization, against the bare
// reading of its counter.
func BenchmarkRefusals(b *testing.B) {
	s := newStage(b)
	service := s.service(license.Options{})
	org := s.organizations(1, 0)[0]
	read, err := s.db.PreparexContext(b.Context(), `SELECT in_use, max_slots FROM license_org WHERE org_id = $1`)
	if err != nil {
		b.Fatal(err)
	}
	for _, clients := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			profile := id()
			compare(b, "refused", "read",
				func() load {
					return drive(b, clients, func(int, int) error {
						grant, err := service.Authorize(b.Context(), license.Request{
							OrgID: org, KeyID: org, MachineID: "worker-1", BootID: org, SessionID: id(), ProfileID: &profile,
						})
						if err == nil && grant.Allowed {
							err = fmt.Errorf("granted")
						}
						return err
					})
				},
				func() load {
					return drive(b, clients, func(int, int) error {
						var usage license.Usage
						return read.GetContext(b.Context(), &usage, org)
					})
				})
		})
	}
}

// BenchmarkHistory authorizes in a database with 100,000 live slots and a
// million ended ones, against one without any.
func BenchmarkHistory(b *testing.B) {
	long, empty := newStage(b), newStage(b)
	org := long.organizations(1, -1)[0]
	others := long.organizations(100, -1)
	long.fill(append(others, org), 100_000, 1_000_000)
	authorize := func(s *stage, org uuid.UUID) func() load {
		service, profile := s.service(license.Options{}), id()
		return func() load {
			return drive(b, 1, func(int, int) error {
				grant, err := service.Authorize(b.Context(), license.Request{
					OrgID: org, KeyID: org, MachineID: "worker-1", BootID: org, SessionID: id(), ProfileID: &profile,
				})
				if err == nil && !grant.Allowed {
					err = fmt.Errorf("refused at %d", grant.Current)
				}
				return err
			})
		}
	}
	inLong, inEmpty := authorize(long, org), authorize(empty, empty.organizations(1, -1)[0])
	inLong()
	inEmpty()
	for b.Loop() {
		var as, bs []load
		for range rounds {
			as, bs = append(as, inLong()), append(bs, inEmpty())
		}
		p50 := func(l load) float64 { return ms(l.p50) }
		b.ReportMetric(medianOf(as, p50), "long-p50-ms")
		b.ReportMetric(medianOf(bs, p50), "empty-p50-ms")
		b.ReportMetric(medianOf(as, p50)/medianOf(bs, p50), "ratio")
	}
}

// fill spreads slots over organizations.
func (s *stage) fill(orgs []uuid.UUID, live, ended int) {
	s.b.Helper()
	for text, n := range map[string]int{
		`INSERT INTO license_slots (id, org_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + i % $2], gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 1000, gen_random_uuid(),
			'running', gen_random_uuid(), 156, now(), now(), now() + interval '1 hour' FROM generate_series(1, $3) AS i`: live,
		`INSERT INTO license_slots (id, org_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + i % $2], gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 1000, gen_random_uuid(),
			'released', gen_random_uuid(), 156, now(), now(), now(), now(), 'ended', now(), 'exited', 'unknown'
		FROM generate_series(1, $3) AS i`: ended,
	} {
		s.db.MustExecContext(s.b.Context(), text, pq.Array(orgs), len(orgs), n)
	}
	s.db.MustExecContext(s.b.Context(), `UPDATE license_org o SET in_use = (
		SELECT count(*) FROM license_slots s WHERE s.org_id = o.org_id AND released_at IS NULL)`)
	s.owner.MustExecContext(s.b.Context(), `VACUUM ANALYZE license_slots`)
	s.admin.MustExecContext(s.b.Context(), `CHECKPOINT`)
}
