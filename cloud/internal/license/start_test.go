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

// lease is how long the session's slot is still held, in whole minutes.
func (h *house) lease(session uuid.UUID) int {
	h.t.Helper()
	return query[int](h, `SELECT round(extract(epoch FROM lease_until - now()) / 60) FROM license_slots WHERE session_id = $1`, session)
}

func TestAStartConsumesTheReservation(t *testing.T) {
	h := open(t, 1)
	session := h.authorize()
	if got := h.lease(session); got != 2 {
		t.Errorf("the reservation is held for %d minutes, want 2", got)
	}
	h.age(session, 2*time.Minute)
	report := h.report(session)
	report.StartedAt = time.Now().Add(-time.Minute).Truncate(time.Microsecond).UTC()
	got := h.mustStart(report)
	if got.SessionID != session || got.SlotID == nil || !got.StartedAt.Equal(report.StartedAt) || got.EndedAt != nil || got.Status != nil {
		t.Errorf("got %+v", got)
	}
	if h.state(session) != "running" || h.inUse() != 1 || h.lease(session) != 359 { // six hours from the start, a minute ago
		t.Errorf("%s, %d counted, held for %d minutes", h.state(session), h.inUse(), h.lease(session))
	}
}

func TestAnExpiredReservationIsConsumedUntilItIsReclaimed(t *testing.T) {
	h := open(t, 1)
	session := h.authorize()
	h.age(session, time.Hour)
	h.mustStart(h.report(session))
	if released := h.mustReclaim().Released; released != 0 || h.state(session) != "running" {
		t.Errorf("%d released; the session is %s", released, h.state(session))
	}
}

func TestAStartAfterItsReservationLapsedTakesASlotAgain(t *testing.T) {
	h := open(t, 1)
	session := h.authorize()
	h.age(session, time.Hour)
	h.mustReclaim()
	h.mustStart(h.report(session))
	if h.state(session) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
}

func TestAStartWithoutAnAuthorizeTakesASlot(t *testing.T) {
	h := open(t, 1)
	session := id()
	if got := h.mustStart(h.report(session)); got.SlotID == nil {
		t.Errorf("got %+v", got)
	}
	if h.state(session) != "running" || h.inUse() != 1 || h.lease(session) != 360 {
		t.Errorf("%s, %d counted, held for %d minutes", h.state(session), h.inUse(), h.lease(session))
	}
}

func TestAStartWithoutASlotIsRefusedWhenAllAreTaken(t *testing.T) {
	for name, arrange := range map[string]func(*house) uuid.UUID{
		"never authorized": func(*house) uuid.UUID { return id() },
		"lapsed": func(h *house) uuid.UUID {
			session := h.authorize()
			h.age(session, time.Hour)
			h.mustReclaim()
			return session
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 1)
			session := arrange(h)
			h.start()
			_, err := h.Start(t.Context(), h.report(session))
			wantFault(t, err, fault.PaymentRequired)
			one := 1
			want := []fault.Detail{{
				Field: "profileId", Code: fault.Custom, Message: "concurrency_limit",
				Constraint: map[string]any{"current": 1, "limit": &one},
			}}
			if diff := cmp.Diff(want, fault.From(err).Details); diff != "" {
				t.Error(diff)
			}
			if n := query[int](h, `SELECT count(*) FROM feed WHERE session_id = $1 AND starts > 0`, session); n != 0 {
				t.Error("the feed heard of a start that was refused")
			}
		})
	}
}

func TestAStartWithoutASlotTakesTheOneThatHasLapsed(t *testing.T) {
	h := open(t, 1)
	gone := h.start()
	h.age(gone, 7*time.Hour)
	session := id()
	h.mustStart(h.report(session))
	if h.state(gone) != "released lapsed" || h.state(session) != "running" {
		t.Errorf("%s, %s", h.state(gone), h.state(session))
	}
}

func TestAStartNeverResurrectsWhatIsOver(t *testing.T) {
	for name, finish := range map[string]func(*house, uuid.UUID){
		"ended":                       func(h *house, session uuid.UUID) { h.mustEnd(session) },
		"omitted by a heartbeat":      func(h *house, _ uuid.UUID) { h.mustBeat(h.beat()) },
		"lapsed and ended after that": func(h *house, session uuid.UUID) { h.age(session, 7*time.Hour); h.mustReclaim(); h.mustEnd(session) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 5)
			report := h.report(h.authorize())
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

func TestAStartThatContradictsItsReservationIsAConflict(t *testing.T) {
	for name, change := range map[string]func(*license.StartReport){
		"profile": func(r *license.StartReport) { r.ProfileID = id() },
		"machine": func(r *license.StartReport) { r.MachineID = "worker-2" },
		"boot":    func(r *license.StartReport) { r.BootID = id() },
		"slot":    func(r *license.StartReport) { other := id(); r.SlotID = &other },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 5)
			report := h.report(h.authorize())
			change(&report)
			_, err := h.Start(t.Context(), report)
			wantFault(t, err, fault.Conflict)
			if h.state(report.SessionID) != "reserved" {
				t.Errorf("the reservation is %s", h.state(report.SessionID))
			}
		})
	}
}

func TestAReservationWithoutAProfileServesAny(t *testing.T) {
	h := open(t, 1)
	req := h.request(id())
	req.ProfileID = nil
	if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.mustStart(h.report(req.SessionID))
	held, err := h.HeldByProfile(t.Context(), h.db, h.org, h.profile)
	if err != nil || held < 1 {
		t.Errorf("%d slots held for the profile, %v", held, err)
	}
	live, err := h.LiveByProfile(t.Context(), h.db, h.org, []uuid.UUID{h.profile, id()})
	if diff := cmp.Diff(map[uuid.UUID]int{h.profile: 1}, live); err != nil || diff != "" {
		t.Error(diff, err)
	}
}

func TestAWorkersClockThatIsAheadDoesNotReachTheFuture(t *testing.T) {
	h := open(t, 1)
	report := h.report(h.authorize())
	report.StartedAt = time.Now().Add(24 * time.Hour)
	if got := h.mustStart(report); got.StartedAt.After(time.Now().Add(time.Minute)) || h.lease(report.SessionID) != 360 {
		t.Errorf("started at %v, held for %d minutes", got.StartedAt, h.lease(report.SessionID))
	}
}

func TestAWorkersClockThatIsBehindDoesNotReachBeforeTheReservation(t *testing.T) {
	h := open(t, 1)
	for name, reserve := range map[string]func() uuid.UUID{"authorized": h.authorize, "never authorized": id} {
		session, before := reserve(), time.Now().Add(-time.Second)
		report := h.report(session)
		report.StartedAt = time.Unix(0, 0) // a machine without a battery
		got := h.mustStart(report)
		if got.StartedAt.Before(before) || h.lease(session) != 360 {
			t.Errorf("%s: started at %v, held for %d minutes", name, got.StartedAt, h.lease(session))
		}
		if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed || h.mustReclaim().Released != 0 {
			t.Errorf("%s: its slot is granted again: %+v, %v", name, grant, err)
		}
		h.mustEnd(session)
	}
}

func TestAFailingObserverUndoesTheStart(t *testing.T) {
	h := open(t, 1)
	session := h.authorize()
	h.exec(`ALTER TABLE feed RENAME TO away`)
	_, err := h.Start(t.Context(), h.report(session))
	h.exec(`ALTER TABLE away RENAME TO feed`)
	var faulty *fault.Error
	if err == nil || errors.As(err, &faulty) {
		t.Errorf("got %v, want an internal error", err)
	}
	if h.state(session) != "reserved" {
		t.Errorf("the session is %s", h.state(session))
	}
}

func TestAStartThatWaitsForALimitChangeObeysTheNewLimit(t *testing.T) {
	h := open(t, 2)
	h.start()
	one := 1
	commit := h.hold(func(tx *sqlx.Tx) {
		if err := h.SetLimit(t.Context(), tx, h.org, &one); err != nil {
			t.Fatal(err)
		}
	})
	failed := make(chan error, 1)
	go func() {
		_, err := h.Start(t.Context(), h.report(id()))
		failed <- err
	}()
	h.awaitBlocked(1)
	commit()
	wantFault(t, <-failed, fault.PaymentRequired)
}

func TestASessionThatNeverReportedIsStaleSixHoursAfterItsStart(t *testing.T) {
	h := open(t, 5)
	for _, tc := range []struct {
		age   time.Duration
		stale bool
	}{{license.UnreportedTTL - time.Minute, false}, {license.UnreportedTTL + time.Minute, true}} {
		report := h.report(h.authorize())
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

func TestAnUnauthorizedStartOfAnUnknownProfileTakesNoSlot(t *testing.T) {
	h := open(t, 5)
	report := h.report(id())
	report.KnowProfile = func(context.Context, *sqlx.Tx) error { return fault.Missing("profile") }
	if _, err := h.Start(t.Context(), report); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	if h.inUse() != 0 {
		t.Errorf("%d slots are taken", h.inUse())
	}
	authorized := h.report(h.authorize())
	authorized.KnowProfile = report.KnowProfile
	h.mustStart(authorized)
}

func TestASlotThatServesAnyProfileServesNoneThatIsUnknown(t *testing.T) {
	for name, arrange := range map[string]func(h *house, session uuid.UUID){
		"reserved": func(*house, uuid.UUID) {},
		"lapsed":   func(h *house, session uuid.UUID) { h.age(session, time.Hour); h.mustReclaim() },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 5)
			req := h.request(id())
			req.ProfileID = nil
			if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
				t.Fatalf("got %+v, %v", grant, err)
			}
			arrange(h, req.SessionID)
			before := h.state(req.SessionID)
			report := h.report(req.SessionID)
			report.KnowProfile = func(context.Context, *sqlx.Tx) error { return fault.Missing("profile") }
			_, err := h.Start(t.Context(), report)
			wantFault(t, err, fault.NotFound)
			if state := h.state(req.SessionID); state != before {
				t.Errorf("the session was %s and is %s", before, state)
			}
			report.KnowProfile = func(context.Context, *sqlx.Tx) error { return nil }
			h.mustStart(report)
		})
	}
}
