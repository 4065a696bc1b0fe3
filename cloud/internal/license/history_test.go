package license_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// pastSlot inserts a slot that was reserved, started and released at the given times.
// A nil time has not happened.
func (h *fixture) pastSlot(reserved time.Time, started, released *time.Time) {
	h.t.Helper()
	state := "reserved"
	var reason, status, endReason *string
	if started != nil {
		state = "running"
	}
	if released != nil {
		state, reason, status, endReason = "released", new("ended"), new("exited"), new("unknown")
	}
	h.exec(`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		VALUES (gen_random_uuid(), $1, gen_random_uuid(), $1, 'worker-1', $1, $2::license_slot_state, $1, 156, $3, $4, now() + interval '1 hour',
			$5, $6::license_release_reason, $5, $7::license_end_status, $8)`, h.org, state, reserved, started, released, reason, status, endReason)
	if released == nil {
		h.exec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, h.org)
		h.exec(`INSERT INTO feed (session_id, running, ran) SELECT session_id, state = 'running', true FROM license_slots
			WHERE organization_id = $1 AND released_at IS NULL ON CONFLICT DO NOTHING`, h.org)
	}
}

func (h *fixture) history(req license.HistoryRequest) license.History {
	h.t.Helper()
	found, err := h.History(h.t.Context(), h.org, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// formatPoints formats each point as running+reserved, maximum/limit and refused.
func formatPoints(history license.History) (all []string) {
	for _, p := range history.Points {
		limit := "∞"
		if p.Limit != nil {
			limit = fmt.Sprint(*p.Limit)
		}
		all = append(all, fmt.Sprintf("%s %d+%d max %d/%s refused %d", p.At.Format("15:04"), p.Running, p.Reserved, p.Maximum, limit, p.Refused))
	}
	return all
}

// noonOfYesterday is the start of all kinds of steps up to 12 hours.
func noonOfYesterday() time.Time {
	return time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
}

func TestHistory_CountsSlotsOfEachStep(t *testing.T) {
	h := newFixture(t, 7)
	noon := noonOfYesterday()
	minutesFromNoon := func(minute int) *time.Time { return new(noon.Add(time.Duration(minute) * time.Minute)) }
	h.pastSlot(*minutesFromNoon(-60), minutesFromNoon(-60), minutesFromNoon(0))    // ends as the series begins
	h.pastSlot(*minutesFromNoon(-60), minutesFromNoon(-50), minutesFromNoon(10))   // across the first step
	h.pastSlot(*minutesFromNoon(-60), minutesFromNoon(-50), minutesFromNoon(1000)) // across all
	h.pastSlot(*minutesFromNoon(0), minutesFromNoon(5), minutesFromNoon(20))       // starts with the series
	h.pastSlot(*minutesFromNoon(21), nil, minutesFromNoon(23))                     // never starts
	h.pastSlot(*minutesFromNoon(25), minutesFromNoon(25), minutesFromNoon(26))     // within one step
	h.pastSlot(*minutesFromNoon(27), minutesFromNoon(90), minutesFromNoon(30))     // the worker's clock was ahead
	h.pastSlot(*minutesFromNoon(30), minutesFromNoon(31), minutesFromNoon(60))     // takes over
	h.pastSlot(*minutesFromNoon(44), minutesFromNoon(46), minutesFromNoon(50))     // starts in the next step
	h.pastSlot(*minutesFromNoon(60), minutesFromNoon(60), minutesFromNoon(61))     // after the end
	other := h.org
	h.newOrganization(1)
	h.pastSlot(*minutesFromNoon(0), minutesFromNoon(0), minutesFromNoon(60)) // of another organization
	h.org = other
	for _, e := range []struct {
		minute, count int
	}{{0, 2}, {14, 1}, {45, 40}, {60, 5}, {-1, 5}} {
		h.exec(`INSERT INTO license_events (organization_id, kind, at, count) VALUES ($1, 'refused', $2, $3)`, h.org, minutesFromNoon(e.minute), e.count)
	}
	for _, e := range []struct {
		minute        int
		previous, now *int
	}{{-100, new(1), new(2)}, {15, new(2), nil}, {29, nil, new(5)}, {45, new(5), new(6)}, {100, new(6), new(7)}} {
		h.exec(`INSERT INTO license_events (organization_id, kind, at, previous, max_slots) VALUES ($1, 'limitChanged', $2, $3, $4)`, h.org, minutesFromNoon(e.minute), e.previous, e.now)
	}
	got := h.history(license.HistoryRequest{From: minutesFromNoon(3), To: minutesFromNoon(60)})
	want := []string{
		"12:00 2+0 max 3/2 refused 3",
		"12:15 1+1 max 2/5 refused 0",
		"12:30 2+1 max 3/5 refused 0",
		"12:45 2+0 max 3/6 refused 40",
	}
	if diff := cmp.Diff(want, formatPoints(got)); diff != "" {
		t.Error(diff)
	}
	if got.Step != 15*time.Minute || got.DataFrom != nil || got.Current != 0 || *got.Limit != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestHistory_EndsWithCurrentValues(t *testing.T) {
	h := newFixture(t, -1)
	h.start()
	h.authorize()
	h.mustEnd(h.start())
	got := h.history(license.HistoryRequest{})
	if n := len(got.Points); n != 97 && n != 96 {
		t.Fatalf("%d points, want those of 24 hours", n)
	}
	last := got.Points[len(got.Points)-1]
	if got.Running != 1 || got.Reserved != 1 || got.Current != 2 || got.Limit != nil || last.Running+last.Reserved != 2 || last.Running != 1 || last.Limit != nil {
		t.Errorf("now %+v, last step %+v", got.Usage, last)
	}
	maximum := 0
	for _, p := range got.Points {
		maximum = max(maximum, p.Maximum)
	}
	if maximum != 3 && maximum != 2 { // the third slot was freed, maybe in an earlier step
		t.Errorf("maximum %d", maximum)
	}
	later := h.history(license.HistoryRequest{From: new(time.Now().Add(time.Hour)), To: new(time.Now().Add(2 * time.Hour))})
	if len(later.Points) != 0 {
		t.Errorf("%d points in the future", len(later.Points))
	}
}

// TestHistory_LeavesOutGapsBeforeAdoption: a slot that was released without a report
// and adopted later was not in use in between.
func TestHistory_LeavesOutGapsBeforeAdoption(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.mustHeartbeat(h.heartbeat(session))
	h.mustHeartbeat(h.heartbeat())        // omits it
	h.mustHeartbeat(h.heartbeat(session)) // adopts it
	noon := noonOfYesterday()
	h.exec(`UPDATE license_slots SET reserved_at = $1, started_at = $1`, noon.Add(-time.Hour))
	h.exec(`UPDATE license_events SET at = $1 WHERE kind = 'omitted'`, noon.Add(5*time.Minute))
	h.exec(`UPDATE license_events SET at = $1 WHERE kind = 'adopted'`, noon.Add(35*time.Minute))
	got := h.history(license.HistoryRequest{From: &noon, To: new(noon.Add(time.Hour))})
	want := []string{
		"12:00 0+0 max 1/5 refused 0",
		"12:15 0+0 max 0/5 refused 0",
		"12:30 1+0 max 1/5 refused 0",
		"12:45 1+0 max 1/5 refused 0",
	}
	if diff := cmp.Diff(want, formatPoints(got)); diff != "" {
		t.Error(diff)
	}
	if got := h.history(license.HistoryRequest{From: new(noon.Add(15 * time.Minute)), To: new(noon.Add(time.Hour))}); formatPoints(got)[0] != want[1] {
		t.Errorf("from within the gap: %v", formatPoints(got))
	}
}

func TestHistory_LeavesOutStepsBeforeRetention(t *testing.T) {
	h := newFixture(t, 5)
	s, err := license.New(t.Context(), h.db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{Retention: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.History(t.Context(), h.org, license.HistoryRequest{From: new(time.Now().Add(-10 * 24 * time.Hour)), Step: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	first := got.Points[0].At
	if !got.DataFrom.Equal(got.At.Add(-24*time.Hour)) || first.Before(*got.DataFrom) || first.Sub(*got.DataFrom) >= time.Hour || len(got.Points) != 24 {
		t.Errorf("%d points from %s, data from %s", len(got.Points), first, got.DataFrom)
	}
	old := license.HistoryRequest{From: new(time.Now().Add(-10 * 24 * time.Hour)), To: new(time.Now().Add(-9 * 24 * time.Hour))}
	if got, err := s.History(t.Context(), h.org, old); err != nil || len(got.Points) != 0 {
		t.Errorf("before the retention: %d points, %v", len(got.Points), err)
	}
}

func TestHistory_RefusesTooManyStepsAndEmptyRanges(t *testing.T) {
	h := newFixture(t, 5)
	now := time.Now()
	for name, req := range map[string]license.HistoryRequest{
		"too many":    {From: new(now.Add(-1001 * time.Minute)), Step: time.Minute},
		"year zero":   {From: new(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), Step: 24 * time.Hour},
		"reversed":    {From: &now, To: new(now.Add(-time.Hour))},
		"empty":       {From: &now, To: &now},
		"from future": {From: new(now.Add(time.Hour))},
	} {
		if _, err := h.History(t.Context(), h.org, req); !fault.Is(err, fault.Validation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := h.History(t.Context(), id(), license.HistoryRequest{})
	wantFault(t, err, fault.NotFound)
}

// TestHistory_ReadsNoHistoryOutsideRange: with 10,000 sessions in the range and ten
// times as many before it, the statement reads only those of the range, and takes less
// than 100 ms on an idle machine.
func TestHistory_ReadsNoHistoryOutsideRange(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	org := id()
	db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, org)
	db.MustExec(`INSERT INTO license_org (organization_id, max_slots, in_use) VALUES ($1, 100, 0)`, org)
	db.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), $1, 'worker-1', $1, 'released', $1, 156, at, at + interval '1 second', at,
			at + interval '10 minutes', 'ended', at, 'exited', 'unknown'
		FROM (SELECT now() - interval '8.64 seconds' * i AS at FROM generate_series(1, 110000) AS i) t`, org)
	db.MustExec(`INSERT INTO license_events (organization_id, kind, at, count) SELECT $1, 'refused', now() - interval '86.4 seconds' * i, 1
		FROM generate_series(1, 11000) AS i`, org)
	db.MustExec(`ANALYZE license_slots, license_events`)
	s, err := license.New(t.Context(), db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	best := time.Hour
	for range 5 {
		start := time.Now()
		got, err := s.History(t.Context(), org, license.HistoryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
		if p := got.Points[50]; p.Running != 69 && p.Running != 70 || p.Refused < 9 {
			t.Fatalf("got %+v", p)
		}
	}
	t.Logf("24 hours with 10,000 sessions: %s", best)
	if best > time.Second {
		t.Errorf("takes %s", best)
	}
}
