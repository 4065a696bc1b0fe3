package proof_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/retention"
	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

// speedup is the ratio of simulated to real time: a simulated minute takes a second.
const speedup = 60

// fastClock is the simulated clock; the database uses the same time.
type fastClock struct{ began time.Time }

// Now implements clock.Clock.
func (c fastClock) Now() time.Time {
	return c.began.Add(speedup * time.Since(c.began)).UTC().Truncate(time.Microsecond)
}

// speedUp converts a simulated duration to a real one.
func speedUp(d time.Duration) time.Duration { return d / speedup }

// fastTimeSQL overrides PostgreSQL's time functions for connections whose search_path
// begins with fast_clock. Event ids keep real time, like slot ids, because retention uses
// them.
const fastTimeSQL = `
CREATE SCHEMA fast_clock;
GRANT USAGE ON SCHEMA fast_clock TO PUBLIC;
CREATE FUNCTION fast_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
	SELECT timestamptz '%[1]s' + %[2]d * (pg_catalog.clock_timestamp() - timestamptz '%[1]s') $$;
CREATE FUNCTION fast_clock.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT timestamptz '%[1]s' + %[2]d * (pg_catalog.now() - timestamptz '%[1]s') $$;
CREATE FUNCTION fast_clock.license_event_id(timestamptz) RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
	SELECT public.license_event_id(pg_catalog.clock_timestamp()) $$;
ALTER TABLE public.license_events ALTER COLUMN id SET DEFAULT fast_clock.license_event_id(NULL),
	ALTER COLUMN at SET DEFAULT fast_clock.clock_timestamp(), ALTER COLUMN last_at SET DEFAULT fast_clock.clock_timestamp()`

// soak is a cloud of three replicas with a simulated fleet, in simulated time, on a
// durable server.
type soak struct {
	t        *testing.T
	clock    fastClock
	admin    *sqlx.DB // reads the statistics
	pools    []*sqlx.DB
	replicas []*license.Service
	orgs     []uuid.UUID
	limits   []int
	hosts    []*soakHost
	calm     int // average number of heartbeats of a host between restarts
	counted  soakCounts
	warnings *warningCollector
}

// warningCollector counts the warnings and errors in the service's log.
type warningCollector struct {
	slog.Handler
	mu    sync.Mutex
	texts map[string]int
}

// Enabled implements slog.Handler.
func (a *warningCollector) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (a *warningCollector) Handle(_ context.Context, r slog.Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := r.Message
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "error" {
			text += ": " + attr.Value.String()
		}
		return true
	})
	a.texts[text]++
	return nil
}

// newSoak starts the server and the replicas, with full connection pools.
func newSoak(t *testing.T, hosts, calm int) *soak {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(dir, "data"), Settings: map[string]string{
		"autovacuum_naptime": strconv.Itoa(int(speedUp(time.Minute).Seconds())), // the default of one minute, in simulated time
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	s := &soak{
		t: t, calm: calm, clock: fastClock{time.Now()}, warnings: &warningCollector{Handler: slog.DiscardHandler, texts: map[string]int{}},
		admin: dbtest.Open(t, server.DSN(), pg.Options{MaxOpen: 1, ApplicationName: "observer"}),
	}
	if err := db.Migrate(t.Context(), s.admin.DB, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	s.admin.MustExec(fmt.Sprintf(fastTimeSQL, s.clock.began.UTC().Format(time.RFC3339Nano), speedup))
	for range replicas {
		pool := dbtest.Open(t, server.DSN()+"&search_path=fast_clock,pg_catalog,public", pg.Options{Role: pg.AllRole, MaxOpen: 6})
		service, err := license.New(t.Context(), pool, noObserver{}, slog.New(s.warnings), license.Options{
			Clock: s.clock, ReapGrace: speedUp(90 * time.Second), AuditEvery: time.Minute, ReclaimEvery: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { service.Close() })
		s.pools, s.replicas = append(s.pools, pool), append(s.replicas, service)
	}
	s.populate(hosts)
	return s
}

// populate creates ten organizations and their hosts. Every second organization has
// fewer slots than its hosts would use.
func (s *soak) populate(hosts int) {
	for range 10 {
		s.orgs, s.limits = append(s.orgs, uuid.Must(uuid.NewV7())), append(s.limits, 0)
	}
	for i := range hosts {
		h := &soakHost{soak: s, org: i % 10, name: fmt.Sprint("worker-", i), wants: 5 + rand.IntN(16), cloud: s.replicas[i%replicas]}
		s.limits[h.org] += h.wants
		s.hosts = append(s.hosts, h)
	}
	for i, org := range s.orgs {
		if i%2 == 1 {
			s.limits[i] = s.limits[i] * 9 / 10
		}
		s.admin.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, org, org.String())
		s.admin.MustExec(`INSERT INTO license_org (organization_id, max_slots) VALUES ($1, $2)`, org, s.limits[i])
	}
}

// maintain runs the reaper and the auditor of every replica and the retention of half
// an hour, until the returned function is called.
func (s *soak) maintain() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for i, service := range s.replicas {
		group.Go(func() { service.RunReaper(ctx, speedUp(30*time.Second)) })
		old := &retention.Service{DB: s.pools[i], Logger: slog.New(s.warnings),
			Options: retention.Options{Every: speedUp(5 * time.Minute), Pause: time.Millisecond, Records: speedUp(30 * time.Minute)}}
		group.Go(func() { old.Run(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// live runs the fleet for that simulated duration.
func (s *soak) live(d time.Duration) {
	until := s.clock.Now().Add(d)
	var group sync.WaitGroup
	for _, host := range s.hosts {
		group.Go(func() { host.work(until) })
	}
	group.Wait()
}

// settle boots every host, lets it send a heartbeat, and compares the tables with the
// sessions, once the slots of cancelled callers are released.
func (s *soak) settle() {
	s.t.Helper()
	held := make([]int, len(s.orgs))
	for _, host := range s.hosts {
		host.comeUp()
		host.beat()
		held[host.org] += len(host.sessions)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var rows []struct {
			Org   uuid.UUID `db:"organization_id"`
			InUse int       `db:"in_use"`
			Live  int       `db:"live"`
		}
		err := s.admin.Select(&rows, `SELECT o.organization_id, o.in_use, count(l.id) AS live FROM license_org o
			LEFT JOIN license_slots l ON l.organization_id = o.organization_id AND l.released_at IS NULL GROUP BY 1, 2`)
		if err != nil {
			s.t.Fatal(err)
		}
		wrong := ""
		for _, row := range rows {
			for i, org := range s.orgs {
				if org == row.Org && (row.InUse != held[i] || row.Live != held[i]) {
					wrong += fmt.Sprintf("organization %d: %d counted, %d live, the hosts run %d\n", i, row.InUse, row.Live, held[i])
				}
			}
		}
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(wrong)
		}
	}
}

// TestSoak_LeavesNoResources runs for SOAK_MINUTES of simulated time, which is sixty
// times as fast as real time.
func TestSoak_LeavesNoResources(t *testing.T) {
	minutes, warmUp, hosts, calm := 2, time.Minute/2, 40, 10
	if text := os.Getenv("SOAK_MINUTES"); text != "" {
		var err error
		if minutes, err = strconv.Atoi(text); err != nil {
			t.Fatalf("SOAK_MINUTES: %v", err)
		}
		warmUp, hosts, calm = 10*time.Minute, 200, 240 // two simulated hours
	}
	s := newSoak(t, hosts, calm)
	stop := s.maintain()
	s.live(warmUp)
	s.settle()
	before := s.measure()
	s.live(time.Duration(minutes) * time.Minute)
	s.settle()
	after := s.measure()
	stop()
	t.Logf("%d minutes of a time %d times as fast as ours, %d hosts in %d organizations over %d replicas\n%s\n%s",
		minutes, speedup, len(s.hosts), len(s.orgs), replicas, s.counted.String(), table(before, after))
	s.judge(before, after)
}
