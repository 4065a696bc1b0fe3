package license_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/testenv"
)

var latestFirst = page.Request{Page: 1, Limit: 100, SortBy: "at", Desc: true}

func (h *fixture) events(filter license.EventFilter) []license.Event {
	h.t.Helper()
	found, err := h.Events(h.t.Context(), h.org, filter, latestFirst)
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

func refusalAtLimit(limit int) license.Grant {
	return license.Grant{Reason: license.ConcurrencyLimit, Current: limit, Limit: &limit}
}

func TestEvents_RefusalAppearsWithinSeconds(t *testing.T) {
	h := newFixture(t, 3)
	req := h.request(id())
	const age = time.Hour // far longer than a write takes, on a busy machine too
	h.clock.Advance(-age) // the replica's clock is wrong: the database's counts
	before := query[time.Time](h, `SELECT clock_timestamp()`)
	h.RecordRefusal(req, refusalAtLimit(3))
	h.clock.Advance(age) // before the write, which must not become the time of the event
	eventually(t, func() bool { return len(h.events(license.EventFilter{})) == 1 })
	got := h.events(license.EventFilter{})[0]
	after := query[time.Time](h, `SELECT clock_timestamp()`)
	if got.ID.Version() != 7 || got.At.Before(before.Add(-age)) || got.At.After(after.Add(-age)) || !got.LastAt.Equal(got.At) {
		t.Errorf("event %s from %s to %s, want between %s and %s", got.ID, got.At, got.LastAt, before.Add(-age), after.Add(-age))
	}
	got.ID, got.At, got.LastAt = uuid.Nil, time.Time{}, time.Time{}
	reason := license.ConcurrencyLimit
	want := license.Event{
		OrgID: h.org, Kind: license.Refused, Count: 1, Reason: &reason, MachineID: &req.MachineID, BootID: &req.BootID,
		SessionID: &req.SessionID, ProfileID: req.ProfileID, KeyID: &req.KeyID, Current: new(3), Limit: new(3),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEvents_RecordsRefusedLaunch(t *testing.T) {
	h := newFixture(t, 1)
	h.start()
	req := h.request(id())
	if grant, err := h.Authorize(t.Context(), req); grant.Allowed || err != nil {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.Close()
	got := h.events(license.EventFilter{SessionID: &req.SessionID})
	if len(got) != 1 || got[0].Kind != license.Refused || *got[0].Reason != license.ConcurrencyLimit || *got[0].KeyID != req.KeyID || *got[0].Current != 1 || *got[0].Limit != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestEvents_RecordsStartWithoutSlot(t *testing.T) {
	h := newFixture(t, 0)
	report := h.startReport(id())
	if _, err := h.Start(t.Context(), report); err == nil {
		t.Fatal("the start succeeded")
	}
	h.Close()
	got := h.events(license.EventFilter{SessionID: &report.SessionID})
	if len(got) != 1 || got[0].Kind != license.Refused || *got[0].Reason != license.ConcurrencyLimit || *got[0].ProfileID != h.profile || *got[0].Limit != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestEvents_RefusalDoesNotWaitForWrite(t *testing.T) {
	h := newFixture(t, 1)
	defer h.lockCounter()()
	h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`LOCK TABLE license_events`) })
	began := time.Now()
	for range 1000 {
		h.RecordRefusal(h.request(id()), refusalAtLimit(1))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestEvents_CoalescesRefusalsByMachineAndReason(t *testing.T) {
	h := newFixture(t, 1)
	var group sync.WaitGroup
	for _, machine := range []string{"worker-1", "worker-2"} {
		group.Go(func() {
			for range 500 {
				req := h.request(id())
				req.MachineID = machine
				h.RecordRefusal(req, refusalAtLimit(1))
			}
		})
	}
	group.Wait()
	h.Close() // writes what waits
	total, machines := 0, map[string]int{}
	found := h.events(license.EventFilter{})
	for _, e := range found {
		total += e.Count
		machines[*e.MachineID] += e.Count
		if e.LastAt.Before(e.At) || e.SessionID == nil {
			t.Errorf("an event from %s to %s of session %v", e.At, e.LastAt, e.SessionID)
		}
	}
	if total != 1000 || machines["worker-1"] != 500 || machines["worker-2"] != 500 || len(found) > 30 {
		t.Errorf("%d refusals in %d events, by machine %v", total, len(found), machines)
	}
}

func TestEvents_BoundsRefusalsPerOrganization(t *testing.T) {
	h := newFixture(t, 1)
	other := id()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', 'other', now())`, other)
	const many = 20_000
	for range many {
		req := h.request(id())
		req.MachineID = req.SessionID.String()
		h.RecordRefusal(req, refusalAtLimit(1))
	}
	late := h.request(id())
	late.OrgID = other
	h.RecordRefusal(late, refusalAtLimit(1))
	h.Close()
	total, unnamed := 0, 0
	found := h.events(license.EventFilter{})
	for _, e := range found {
		total += e.Count
		if e.MachineID == nil {
			unnamed += e.Count
		}
	}
	if total != many || unnamed < many*9/10 || len(found) > 200 {
		t.Errorf("%d refusals in %d events, %d without a machine", total, len(found), unnamed)
	}
	if n := query[int](h, `SELECT count(*) FROM license_events WHERE organization_id = $1 AND session_id = $2`, other, late.SessionID); n != 1 {
		t.Errorf("%d events of the other organization, want 1", n)
	}
}

func TestEvents_RefusalsOfRemovedOrganizationDoNotBlockOthers(t *testing.T) {
	h := newFixture(t, 1)
	gone := h.request(id())
	gone.OrgID = id()
	h.RecordRefusal(gone, refusalAtLimit(1))
	h.RecordRefusal(h.request(id()), refusalAtLimit(1))
	h.Close()
	if n := len(h.events(license.EventFilter{})); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestEvents_RetriesFailedRefusalWrites(t *testing.T) {
	h := newFixture(t, 1)
	var log testenv.Log
	broken := dbtest.Open(t, h.dsn, pg.Options{Lock: 10 * time.Millisecond})
	s, err := license.New(t.Context(), broken, feedObserver{}, slog.New(slog.NewTextHandler(&log, nil)), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unlock := h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`LOCK TABLE license_events`) })
	refused := 0
	eventually(t, func() bool { // the first attempt ran into the lock, while more came
		for range 100 {
			req := h.request(id())
			req.MachineID = req.SessionID.String()
			s.RecordRefusal(req, refusalAtLimit(1))
			refused++
		}
		return strings.Contains(log.String(), "failed to write refusal events")
	})
	unlock()
	eventually(t, func() bool {
		return query[int](h, `SELECT COALESCE(sum(count), 0) FROM license_events WHERE organization_id = $1`, h.org) == refused
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestEvents_RecordsReleaseAndAdoptionInTransaction(t *testing.T) {
	h := newFixture(t, 3)
	session := h.start()
	h.mustHeartbeat(h.heartbeat())
	h.mustHeartbeat(h.heartbeat(session))
	h.age(session, time.Hour)
	h.mustReclaim()
	if diff := cmp.Diff([]license.EventKind{license.OmittedSlot, license.AdoptedSlot, license.LapsedSlot}, h.kinds()); diff != "" {
		t.Error(diff)
	}
	for _, e := range h.events(license.EventFilter{}) {
		if e.ID.Version() != 7 || *e.SessionID != session || *e.MachineID != h.machine || *e.BootID != h.boot || *e.ProfileID != h.profile || e.SlotID == nil || e.KeyID == nil {
			t.Errorf("got %+v", e)
		}
	}
	if n := query[int](h, `SELECT count(*) FROM license_slots s JOIN license_events e ON e.slot_id = s.id AND e.kind = s.release_reason::text AND e.at = s.released_at`); n != 1 {
		t.Error("the last event is not of the moment of the release")
	}
}

func TestEvents_OrdinaryHeartbeatRecordsNothing(t *testing.T) {
	h := newFixture(t, 3)
	session := h.start()
	for range 3 {
		h.mustHeartbeat(h.heartbeat(session))
	}
	h.mustEnd(session)
	if got := h.kinds(); len(got) != 0 {
		t.Errorf("recorded %v", got)
	}
}

func TestEvents_RecordsLimitChange(t *testing.T) {
	h := newFixture(t, 3)
	h.start()
	h.setLimit(3)
	h.setLimit(5)
	h.setLimit(-1)
	undone := errors.New("undone")
	_ = pg.InTx(t.Context(), h.db, func(tx *sqlx.Tx) error {
		return errors.Join(h.SetLimit(t.Context(), tx, h.org, new(9)), undone)
	})
	var got []string
	for _, e := range h.events(license.EventFilter{Kind: new(license.LimitChanged)}) {
		got = append(got, formatLimit(e.Previous)+" to "+formatLimit(e.Limit)+" with "+formatLimit(e.Current))
	}
	if diff := cmp.Diff([]string{"5 to none with 1", "3 to 5 with 1"}, got); diff != "" {
		t.Error(diff)
	}
}

func formatLimit(n *int) string {
	if n == nil {
		return "none"
	}
	return string(rune('0' + *n))
}

func TestEvents_FiltersWithinOrganization(t *testing.T) {
	h := newFixture(t, 3)
	session := id()
	for i, kind := range []string{"refused", "lapsed", "refused"} {
		h.exec(`INSERT INTO license_events (organization_id, kind, at, machine_id, session_id) VALUES ($1, $2, $3::timestamptz, $4, $5)`,
			h.org, kind, time.Date(2026, 11, 21, 14, i, 0, 0, time.UTC), "worker-"+string(rune('1'+i)), session)
		session = id()
	}
	other := id()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', 'other', now())`, other)
	h.exec(`INSERT INTO license_events (organization_id, kind) VALUES ($1, 'refused')`, other)
	all := h.events(license.EventFilter{})
	moment := time.Date(2026, 11, 21, 14, 1, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		filter license.EventFilter
		want   []license.Event
	}{
		"all":      {license.EventFilter{}, all},
		"kind":     {license.EventFilter{Kind: new(license.LapsedSlot)}, all[1:2]},
		"machine":  {license.EventFilter{MachineID: new("worker-3")}, all[:1]},
		"session":  {license.EventFilter{SessionID: all[2].SessionID}, all[2:]},
		"from":     {license.EventFilter{From: &moment}, all[:2]},
		"to":       {license.EventFilter{To: &moment}, all[2:]},
		"together": {license.EventFilter{Kind: new(license.Refused), From: &moment}, all[:1]},
	} {
		if diff := cmp.Diff(test.want, h.events(test.filter)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d events, want 3", len(all))
	}
}
