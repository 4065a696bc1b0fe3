package license_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// fillSlots inserts n running sessions and counts them; later ones started later.
func (h *fixture) fillSlots(n int) {
	h.t.Helper()
	h.exec(`
		WITH made AS (
			INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, seq, state, launch_id,
				browser_version, reserved_at, started_at, lease_until)
			SELECT gen_random_uuid(), $1, gen_random_uuid(), $2, 'worker-' || i % 10, gen_random_uuid(), i, 'running',
				gen_random_uuid(), 156, now(), now() + i * interval '1 millisecond', now() + interval '6 hours'
			FROM generate_series(1, $3::int) AS i RETURNING session_id
		), heard AS (
			INSERT INTO feed (session_id, running, ran, starts) SELECT session_id, true, true, 1 FROM made
		)
		UPDATE license_org SET in_use = in_use + (SELECT count(*) FROM made) WHERE organization_id = $1`, h.org, h.profile, n)
}

func TestReclaim_EndsExactlyStaleSessions(t *testing.T) {
	h := newFixture(t, 20)
	unreported := map[time.Duration]bool{5*time.Hour + 59*time.Minute: false, 6 * time.Hour: true}
	reported := map[time.Duration]bool{4*time.Minute + 50*time.Second: false, 5 * time.Minute: true}
	want := map[uuid.UUID]bool{}
	var beating []uuid.UUID
	for range reported {
		beating = append(beating, h.start())
	}
	h.mustHeartbeat(h.heartbeat(beating...))
	for age, stale := range reported {
		h.age(beating[0], age)
		want[beating[0]], beating = stale, beating[1:]
	}
	for age, stale := range unreported {
		session := h.start()
		h.age(session, age)
		want[session] = stale
	}
	overview, err := h.Sessions(t.Context(), h.org)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uuid.UUID]bool{}
	for _, row := range overview.Sessions {
		got[row.SessionID] = row.Stale
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flagged: %s", diff)
	}
	result := h.mustReclaim()
	if result.Released != 2 || result.Current != 2 || *result.Limit != 20 {
		t.Errorf("got %+v", result)
	}
	for session, stale := range want {
		if (h.state(session) == "released lapsed") != stale {
			t.Errorf("stale %v, but %s", stale, h.state(session))
		}
	}
}

func TestReclaim_ReleasesExpiredReservations(t *testing.T) {
	h := newFixture(t, 5)
	expired, held := h.authorize(), h.authorize()
	h.age(expired, 2*time.Minute)
	h.age(held, time.Minute)
	if result := h.mustReclaim(); result.Released != 1 || result.Current != 1 {
		t.Errorf("got %+v", result)
	}
	if h.state(held) != "reserved" || h.feedEntry(expired).Ran {
		t.Errorf("%s; heard %+v", h.state(held), h.feedEntry(expired))
	}
}

func TestReaper_RunsUntilContextEnds(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour)
	h.exec(`UPDATE license_org SET in_use = 4 WHERE organization_id = $1`, h.org)
	h.clock.Advance(-time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.RunReaper(ctx, 2*time.Millisecond)
	}()
	eventually(t, func() bool { return h.state(session) == "released lapsed" })
	if h.inUse() != 3 {
		t.Errorf("%d counted before the audit, want 3", h.inUse())
	}
	h.clock.Advance(time.Hour)
	eventually(t, func() bool { return h.inUse() == 0 })
	cancel()
	<-done
}

func TestAudit_RepairsDriftedCounter(t *testing.T) {
	h := newFixture(t, 10)
	h.start()
	h.authorize()
	if n, err := h.Audit(t.Context()); n != 0 || err != nil {
		t.Errorf("found %d differences without drift, %v", n, err)
	}
	h.exec(`UPDATE license_org SET in_use = 7 WHERE organization_id = $1`, h.org)
	if n, err := h.Audit(t.Context()); n != 1 || err != nil {
		t.Errorf("found %d differences, %v", n, err)
	}
	if h.inUse() != 2 {
		t.Errorf("%d counted, want 2", h.inUse())
	}
}

func TestAudit_FindsNoDriftDuringTraffic(t *testing.T) {
	h := newFixture(t, 5)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				session := id()
				if grant, err := h.Authorize(t.Context(), h.request(session)); err != nil {
					t.Error(err)
				} else if grant.Allowed {
					h.mustEnd(session)
				}
			}
		})
	}
	for range 10 {
		if n, err := h.Audit(t.Context()); n != 0 || err != nil {
			t.Errorf("found %d differences, %v", n, err)
		}
	}
	group.Wait()
}

func TestSessions_SplitsCountAndListsAtMost500(t *testing.T) {
	h := newFixture(t, -1)
	h.fillSlots(510)
	h.authorize()
	overview, err := h.Sessions(t.Context(), h.org)
	if err != nil {
		t.Fatal(err)
	}
	if overview.Current != 511 || overview.Limit != nil || overview.Running != 510 || overview.Reserved != 1 || len(overview.Sessions) != 500 {
		t.Errorf("%d current, %d running, %d reserved, %d listed", overview.Current, overview.Running, overview.Reserved, len(overview.Sessions))
	}
	for i, row := range overview.Sessions[1:] {
		if row.StartedAt.Before(overview.Sessions[i].StartedAt) {
			t.Fatal("the longest running session is not first")
		}
	}
}

func TestSessions_IdleOrganizationIsEmpty(t *testing.T) {
	h := newFixture(t, 3)
	h.mustEnd(h.start())
	overview, err := h.Sessions(t.Context(), h.org)
	if err != nil || overview.Current != 0 || *overview.Limit != 3 || overview.Running != 0 || len(overview.Sessions) != 0 {
		t.Errorf("got %+v, %v", overview, err)
	}
}

func TestLiveByProfile_CountsRunningSessionsOnly(t *testing.T) {
	h := newFixture(t, 5)
	h.start()
	h.start()
	h.mustEnd(h.start())
	first := h.profile
	h.profile = id()
	h.authorize()
	live, err := h.LiveByProfile(t.Context(), h.db, h.org, []uuid.UUID{first, h.profile})
	if diff := cmp.Diff(map[uuid.UUID]int{first: 2}, live); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if n, err := h.LiveProfiles(t.Context(), h.db, h.org); n != 1 || err != nil {
		t.Errorf("%d live profiles, %v; want 1", n, err)
	}
}
