package usage

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
)

// fixture is a database with one organization that replicas count for.
type fixture struct {
	t     *testing.T
	dsn   string
	all   *sqlx.DB
	clock *clock.Fake
	org   uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dsn: dbtest.NewDSN(t), clock: clock.NewFake(time.Date(2026, 11, 21, 12, 30, 10, 0, time.UTC))}
	f.all = dbtest.Open(t, f.dsn, pg.Options{Role: pg.AllRole})
	f.org = f.organization()
	return f
}

func (f *fixture) organization() uuid.UUID {
	id := uuid.New()
	f.all.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, id, id.String())
	return id
}

// limits are the limits of every organization.
type limits struct{ perMinute, perHour *int }

func (l limits) RequestLimits(context.Context, sqlx.QueryerContext, uuid.UUID) (perMinute, perHour *int, err error) {
	return l.perMinute, l.perHour, nil
}

// replica counts with a limit of ten requests per minute and none per hour.
func (f *fixture) replica(most int) *Service {
	f.t.Helper()
	ten := 10
	return New(Options{
		DB: dbtest.Open(f.t, f.dsn, pg.Options{Role: pg.AppRole}), System: f.all, Limits: limits{perMinute: &ten},
		Clock: f.clock, Logger: slog.New(slog.DiscardHandler), MaxOrganizations: most,
	})
}

func (f *fixture) write(s *Service) {
	f.t.Helper()
	if err := s.write(f.t.Context(), f.clock.Now()); err != nil {
		f.t.Fatal(err)
	}
}

// want fails unless these requests are counted for the minute and the hour.
func (f *fixture) want(what string, minute, hour int64, read func(context.Context, uuid.UUID) (Usage, error)) {
	f.t.Helper()
	got, err := read(f.t.Context(), f.org)
	if err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
	if got.Minute.Used != minute || got.Hour.Used != hour {
		f.t.Errorf("%s: %d in the minute and %d in the hour, want %d and %d", what, got.Minute.Used, got.Hour.Used, minute, hour)
	}
}

func count(s *Service, orgID uuid.UUID, n int) {
	for range n {
		s.Count(orgID)
	}
}

func TestRead_SumsTheReplicas(t *testing.T) {
	f := newFixture(t)
	first, second := f.replica(0), f.replica(0)
	f.want("nothing counted", 0, 0, first.Read)
	count(first, f.org, 3)
	count(second, f.org, 4)
	f.want("not written, its own", 3, 3, first.Read)
	f.write(second)
	f.want("written by the other", 7, 7, first.Read)
	f.write(first)
	f.write(first)
	f.want("written by both", 7, 7, second.Read)
	count(first, f.organization(), 5)
	f.write(first)
	f.want("beside another organization", 7, 7, second.Read)

	f.clock.Advance(time.Minute)
	f.want("in the next minute", 0, 7, first.Read)
	count(first, f.org, 2)
	f.write(first)
	f.want("in the next minute", 2, 9, second.Read)
	f.clock.Advance(30 * time.Minute)
	f.want("in the next hour", 0, 0, first.Read)
}

func TestRead_ReportsRemaining(t *testing.T) {
	f := newFixture(t)
	s := f.replica(0)
	count(s, f.org, 4)
	got, err := s.Read(t.Context(), f.org)
	ten := 10
	want := Usage{
		Minute: Window{Limit: &ten, Used: 4, Ends: time.Date(2026, 11, 21, 12, 31, 0, 0, time.UTC)},
		Hour:   Window{Used: 4, Ends: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if left := got.Minute.Remaining(); left == nil || *left != 6 || got.Hour.Remaining() != nil {
		t.Errorf("remaining: got %v, want 6 for the minute and nil for the hour", left)
	}
	count(s, f.org, 20)
	if got, err = s.Read(t.Context(), f.org); err != nil || *got.Minute.Remaining() != 0 {
		t.Errorf("remaining: got %d, %v; want 0", *got.Minute.Remaining(), err)
	}
}

func TestRecent_ReadsTheDatabaseOnceInAnInterval(t *testing.T) {
	f := newFixture(t)
	first, second := f.replica(0), f.replica(0)
	count(first, f.org, 1)
	f.want("first", 1, 1, first.Recent)
	count(second, f.org, 5)
	f.write(second)
	count(first, f.org, 1)
	f.want("the other's are not known yet", 2, 2, first.Recent)
	f.clock.Advance(Interval)
	f.want("an interval later", 7, 7, first.Recent)
	f.write(first)
	f.want("written", 7, 7, first.Recent)
}

// Counts that another replica writes for the previous minute are not added to this
// one.
func TestWrite_CountsInWindowOfRequest(t *testing.T) {
	f := newFixture(t)
	first, second := f.replica(0), f.replica(0)
	count(first, f.org, 3)
	before := f.clock.Now()
	f.clock.Advance(time.Minute)
	count(second, f.org, 2)
	f.write(second)
	if err := first.write(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	f.want("after the late write", 2, 5, second.Read)
}

func TestWrite_KeepsCountsOnFailure(t *testing.T) {
	f := newFixture(t)
	s := f.replica(0)
	count(s, f.org, 3)
	gone := f.organization()
	count(s, gone, 3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.write(ended, f.clock.Now()); err == nil {
		t.Fatal("written without a connection")
	}
	f.want("not written", 3, 3, s.Read)
	f.all.MustExec(`DELETE FROM organizations WHERE id = $1`, gone)
	f.write(s)
	f.want("written, without the organization that is gone", 3, 3, s.Read)
	if left := s.shards[gone[15]].all()[gone]; left != nil && left.pending.Load() != 0 {
		t.Error("the requests of a removed organization are still pending")
	}
}

func TestClose_WritesPendingCounts(t *testing.T) {
	f := newFixture(t)
	first, second := f.replica(0), f.replica(0)
	count(first, f.org, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f.want("closed", 3, 3, second.Read)
}

func TestRun_StopsWithContext(t *testing.T) {
	s := New(Options{Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
}

// Organizations beyond MaxOrganizations are not counted until idle ones are removed.
func TestCount_BoundsOrganizations(t *testing.T) {
	f := newFixture(t)
	s := f.replica(shardCount) // one in each shard
	other := f.organization()
	other[15] = f.org[15]
	s.Count(f.org)
	s.Count(other)
	if held := len(s.shards[f.org[15]].all()); held != 1 || s.dropped.Load() != 1 {
		t.Errorf("%d organizations, %d requests dropped; want 1 and 1", held, s.dropped.Load())
	}
	f.write(s)
	f.write(s) // no requests since
	s.Count(other)
	if s.shards[f.org[15]].all()[other] == nil {
		t.Error("an idle organization blocks another one")
	}
}

func TestCount_IsExactInParallel(t *testing.T) {
	f := newFixture(t)
	s := f.replica(0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { count(s, f.org, 1000) })
	}
	for range 5 {
		f.write(s)
	}
	group.Wait()
	f.write(s)
	f.want("in parallel with writes", 8000, 8000, s.Read)
}

func TestCount_DoesNotAllocate(t *testing.T) {
	s := New(Options{})
	orgID := uuid.New()
	s.Count(orgID)
	if n := testing.AllocsPerRun(1000, func() { s.Count(orgID) }); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func BenchmarkCount(b *testing.B) {
	s := New(Options{})
	orgID := uuid.New()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Count(orgID)
		}
	})
}
