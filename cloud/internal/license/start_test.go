package license_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// leaseSeconds returns the remaining lease of the session's slot.
func (h *fixture) leaseSeconds(session uuid.UUID) int {
	h.t.Helper()
	return query[int](h, `SELECT round(extract(epoch FROM lease_until - now()) / 60) FROM license_slots WHERE session_id = $1`, session)
}

func TestStart_ConsumesReservation(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	if got := h.leaseSeconds(session); got != 2 {
		t.Errorf("the reservation is held for %d minutes, want 2", got)
	}
	h.age(session, 2*time.Minute)
	report := h.startReport(session)
	report.StartedAt = time.Now().Add(-time.Minute).Truncate(time.Microsecond).UTC()
	got := h.mustStart(report)
	if got.SessionID != session || got.SlotID == nil || !got.StartedAt.Equal(report.StartedAt) || got.EndedAt != nil || got.Status != nil {
		t.Errorf("got %+v", got)
	}
	if h.state(session) != "running" || h.inUse() != 1 || h.leaseSeconds(session) != 359 { // six hours from the start, a minute ago
		t.Errorf("%s, %d counted, held for %d minutes", h.state(session), h.inUse(), h.leaseSeconds(session))
	}
}

func TestStart_ConsumesExpiredReservationUntilReclaimed(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	h.age(session, time.Hour)
	h.mustStart(h.startReport(session))
	if released := h.mustReclaim().Released; released != 0 || h.state(session) != "running" {
		t.Errorf("%d released; the session is %s", released, h.state(session))
	}
}

// TestStart_LaterReportReplacesLabels reports the start of a session again: only a report that is later than
// those before changes the labels.
func TestStart_LaterReportReplacesLabels(t *testing.T) {
	h := newFixture(t, 1)
	first := h.startReport(h.authorize())
	first.Labels.Name = "a"
	later := first
	later.Seq, later.Labels.Name = h.seq.Add(1), "b"
	for _, step := range []struct {
		report license.StartReport
		name   string
		starts int
	}{{first, "a", 1}, {first, "a", 1}, {later, "b", 2}, {first, "b", 2}, {later, "b", 2}} {
		h.mustStart(step.report)
		name := query[string](h, `SELECT name FROM feed WHERE session_id = $1`, first.SessionID)
		if entry := h.feedEntry(first.SessionID); name != step.name || entry.Starts != step.starts || h.inUse() != 1 {
			t.Errorf("got %q after %d starts, %d counted; want %q after %d", name, entry.Starts, h.inUse(), step.name, step.starts)
		}
	}
	if beat := h.mustHeartbeat(h.heartbeat(first.SessionID)); len(beat.Released) != 0 || h.state(first.SessionID) != "running" {
		t.Errorf("released %v", beat.Released)
	}
	h.mustEnd(first.SessionID)
	later.Seq = h.seq.Add(1)
	if _, err := h.Start(t.Context(), later); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the end: %v", err)
	}
}

func TestStart_AfterReclaimTakesSlotAgain(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	h.age(session, time.Hour)
	h.mustReclaim()
	h.mustStart(h.startReport(session))
	if h.state(session) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
}

func TestStart_WithoutAuthorizeTakesSlot(t *testing.T) {
	h := newFixture(t, 1)
	session := id()
	if got := h.mustStart(h.startReport(session)); got.SlotID == nil {
		t.Errorf("got %+v", got)
	}
	if h.state(session) != "running" || h.inUse() != 1 || h.leaseSeconds(session) != 360 {
		t.Errorf("%s, %d counted, held for %d minutes", h.state(session), h.inUse(), h.leaseSeconds(session))
	}
}

func TestStart_WithoutSlotIsRefusedAtLimit(t *testing.T) {
	for name, arrange := range map[string]func(*fixture) uuid.UUID{
		"never authorized": func(*fixture) uuid.UUID { return id() },
		"expired": func(h *fixture) uuid.UUID {
			session := h.authorize()
			h.age(session, time.Hour)
			h.mustReclaim()
			return session
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 1)
			session := arrange(h)
			h.start()
			_, err := h.Start(t.Context(), h.startReport(session))
			wantFault(t, err, fault.PaymentRequired)
			limit := 1
			want := []fault.Detail{{
				Field: "profileId", Code: fault.Custom, Message: "concurrency_limit",
				Constraint: map[string]any{"reason": license.ConcurrencyLimit, "current": 1, "limit": &limit},
			}}
			if diff := cmp.Diff(want, fault.From(err).Details); diff != "" {
				t.Error(diff)
			}
			if n := query[int](h, `SELECT count(*) FROM feed WHERE session_id = $1 AND starts > 0`, session); n != 0 {
				t.Error("the observer was called for a refused start")
			}
		})
	}
}

func TestStart_WithoutSlotReclaimsExpiredOne(t *testing.T) {
	h := newFixture(t, 1)
	gone := h.start()
	h.age(gone, 7*time.Hour)
	session := id()
	h.mustStart(h.startReport(session))
	if h.state(gone) != "released lapsed" || h.state(session) != "running" {
		t.Errorf("%s, %s", h.state(gone), h.state(session))
	}
}

func TestStart_EndedSessionIsConflict(t *testing.T) {
	for name, finish := range map[string]func(*fixture, uuid.UUID){
		"ended":                  func(h *fixture, session uuid.UUID) { h.mustEnd(session) },
		"omitted by a heartbeat": func(h *fixture, _ uuid.UUID) { h.mustHeartbeat(h.heartbeat()) },
		"expired and then ended": func(h *fixture, session uuid.UUID) { h.age(session, 7*time.Hour); h.mustReclaim(); h.mustEnd(session) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			report := h.startReport(h.authorize())
			h.mustStart(report)
			finish(h, report.SessionID)
			_, err := h.Start(t.Context(), report)
			wantFault(t, err, fault.Conflict)
			if h.inUse() != 0 {
				t.Errorf("%d counted, want none", h.inUse())
			}
		})
	}
}

func TestStart_MismatchWithReservationIsConflict(t *testing.T) {
	for name, change := range map[string]func(*license.StartReport){
		"profile": func(r *license.StartReport) { r.ProfileID = id() },
		"machine": func(r *license.StartReport) { r.MachineID = "worker-2" },
		"boot":    func(r *license.StartReport) { r.BootID = id() },
		"slot":    func(r *license.StartReport) { other := id(); r.SlotID = &other },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			report := h.startReport(h.authorize())
			change(&report)
			_, err := h.Start(t.Context(), report)
			wantFault(t, err, fault.Conflict)
			if h.state(report.SessionID) != "reserved" {
				t.Errorf("the reservation is %s", h.state(report.SessionID))
			}
		})
	}
}

func TestStart_ReservationWithoutProfileAcceptsAny(t *testing.T) {
	h := newFixture(t, 1)
	req := h.request(id())
	req.ProfileID = nil
	if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.mustStart(h.startReport(req.SessionID))
	held, err := h.HeldByProfile(t.Context(), h.db, h.org, h.profile)
	if err != nil || held < 1 {
		t.Errorf("%d slots held for the profile, %v", held, err)
	}
	live, err := h.LiveByProfile(t.Context(), h.db, h.org, []uuid.UUID{h.profile, id()})
	if diff := cmp.Diff(map[uuid.UUID]int{h.profile: 1}, live); err != nil || diff != "" {
		t.Error(diff, err)
	}
}

func TestStart_ClampsStartedAtToNow(t *testing.T) {
	h := newFixture(t, 1)
	report := h.startReport(h.authorize())
	report.StartedAt = time.Now().Add(24 * time.Hour)
	if got := h.mustStart(report); got.StartedAt.After(time.Now().Add(time.Minute)) || h.leaseSeconds(report.SessionID) != 360 {
		t.Errorf("started at %v, held for %d minutes", got.StartedAt, h.leaseSeconds(report.SessionID))
	}
}

func TestStart_KeepsStartedAtOfLateReport(t *testing.T) {
	h := newFixture(t, 1)
	report := h.startReport(id()) // never authorized
	report.StartedAt = time.Now().Add(-50 * time.Minute).Truncate(time.Microsecond).UTC()
	if got := h.mustStart(report); !got.StartedAt.Equal(report.StartedAt) || h.leaseSeconds(report.SessionID) != 310 {
		t.Errorf("started at %v, held for %d minutes", got.StartedAt, h.leaseSeconds(report.SessionID))
	}
}

func TestStart_ClampsStartedAtToReservation(t *testing.T) {
	h := newFixture(t, 1)
	for name, reserve := range map[string]func() uuid.UUID{"authorized": h.authorize, "never authorized": id} {
		session, before := reserve(), time.Now().Add(-time.Second)
		report := h.startReport(session)
		report.StartedAt = time.Unix(0, 0) // a machine without a clock battery
		got := h.mustStart(report)
		if got.StartedAt.Before(before) || h.leaseSeconds(session) != 360 {
			t.Errorf("%s: started at %v, held for %d minutes", name, got.StartedAt, h.leaseSeconds(session))
		}
		if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed || h.mustReclaim().Released != 0 {
			t.Errorf("%s: its slot is granted again: %+v, %v", name, grant, err)
		}
		h.mustEnd(session)
	}
}

func TestStart_ObserverFailureRollsBack(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	h.exec(`ALTER TABLE feed RENAME TO away`)
	_, err := h.Start(t.Context(), h.startReport(session))
	h.exec(`ALTER TABLE away RENAME TO feed`)
	var faulty *fault.Error
	if err == nil || errors.As(err, &faulty) {
		t.Errorf("got %v, want an internal error", err)
	}
	if h.state(session) != "reserved" {
		t.Errorf("the session is %s", h.state(session))
	}
}

func TestStart_WaitingForLimitChangeUsesNewLimit(t *testing.T) {
	h := newFixture(t, 2)
	h.start()
	limit := 1
	commit := h.holdLocks(func(tx *sqlx.Tx) {
		if err := h.SetLimit(t.Context(), tx, h.org, &limit); err != nil {
			t.Fatal(err)
		}
	})
	failed := make(chan error, 1)
	go func() {
		_, err := h.Start(t.Context(), h.startReport(id()))
		failed <- err
	}()
	h.awaitBlocked(1)
	commit()
	wantFault(t, <-failed, fault.PaymentRequired)
}

func TestStart_UnreportedSessionIsStaleAfterSixHours(t *testing.T) {
	h := newFixture(t, 5)
	for _, tc := range []struct {
		age   time.Duration
		stale bool
	}{{license.UnreportedTTL - time.Minute, false}, {license.UnreportedTTL + time.Minute, true}} {
		report := h.startReport(h.authorize())
		h.age(report.SessionID, tc.age)
		report.StartedAt = time.Now().Add(-tc.age)
		h.mustStart(report)
		overview, err := h.Sessions(t.Context(), h.org)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range overview.Sessions {
			if s.SessionID == report.SessionID && s.Stale != tc.stale {
				t.Errorf("started %s ago: stale %v, want %v", tc.age, s.Stale, tc.stale)
			}
		}
	}
}

func TestStart_UnauthorizedWithUnknownProfileTakesNoSlot(t *testing.T) {
	h := newFixture(t, 5)
	report := h.startReport(id())
	report.RequireProfile = func(context.Context, *sqlx.Tx) error { return fault.Missing("profile") }
	if _, err := h.Start(t.Context(), report); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	if h.inUse() != 0 {
		t.Errorf("%d slots are taken", h.inUse())
	}
	authorized := h.startReport(h.authorize())
	authorized.RequireProfile = report.RequireProfile
	h.mustStart(authorized)
}

func TestStart_ReservationWithoutProfileRefusesUnknownProfile(t *testing.T) {
	for name, arrange := range map[string]func(h *fixture, session uuid.UUID){
		"reserved": func(*fixture, uuid.UUID) {},
		"expired":  func(h *fixture, session uuid.UUID) { h.age(session, time.Hour); h.mustReclaim() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			req := h.request(id())
			req.ProfileID = nil
			if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
				t.Fatalf("got %+v, %v", grant, err)
			}
			arrange(h, req.SessionID)
			before := h.state(req.SessionID)
			report := h.startReport(req.SessionID)
			report.RequireProfile = func(context.Context, *sqlx.Tx) error { return fault.Missing("profile") }
			_, err := h.Start(t.Context(), report)
			wantFault(t, err, fault.NotFound)
			if state := h.state(req.SessionID); state != before {
				t.Errorf("the session was %s and is %s", before, state)
			}
			report.RequireProfile = func(context.Context, *sqlx.Tx) error { return nil }
			h.mustStart(report)
		})
	}
}
