package license_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// feedEntry is the feed's row of a session.
type feedEntry struct {
	Running bool    `db:"running"`
	Ran     bool    `db:"ran"`
	Status  *string `db:"status"`
	Reason  *string `db:"reason"`
	Starts  int     `db:"starts"`
	Ends    int     `db:"ends"`
}

func (h *fixture) feedEntry(session uuid.UUID) feedEntry {
	h.t.Helper()
	return query[feedEntry](h, `SELECT running, ran, status, reason, starts, ends FROM feed WHERE session_id = $1`, session)
}

func TestEnd_FirstReportStands(t *testing.T) {
	h := newFixture(t, 1)
	report := h.startReport(h.authorize())
	h.age(report.SessionID, time.Hour)
	report.StartedAt = time.Now().Add(-time.Hour)
	h.mustStart(report)
	ending := h.endReport(report.SessionID)
	endedAt := time.Now().Add(-time.Minute).Truncate(time.Microsecond).UTC()
	ending.Status, ending.EndReason, ending.EndedAt = license.Exited, license.Crash, &endedAt
	first, err := h.End(t.Context(), ending)
	if err != nil || *first.Status != license.Exited || *first.EndReason != license.Crash || !first.EndedAt.Equal(endedAt) || first.SlotID == nil {
		t.Errorf("got %+v, %v", first, err)
	}
	if second := h.mustEnd(report.SessionID); *second.EndReason != license.Crash || !second.EndedAt.Equal(endedAt) {
		t.Errorf("the second report answers %+v", second)
	}
}

func TestEnd_DerivesMissingFields(t *testing.T) {
	for _, test := range []struct {
		status, wantStatus license.Status
		reason, wantReason license.EndReason
	}{
		{"", license.Exited, "", license.Unknown},
		{license.Killed, license.Killed, "", license.KilledReason},
		{license.Exited, license.Exited, "", license.Unknown},
		{"", license.Killed, license.Idle, license.Idle},
		{"", license.Exited, license.Crash, license.Crash},
		{"", license.Killed, license.Unresponsive, license.Unresponsive},
		{license.Exited, license.Exited, license.ClientClose, license.ClientClose},
	} {
		h := newFixture(t, 1)
		ending := h.endReport(h.start())
		ending.Status, ending.EndReason = test.status, test.reason
		got, err := h.End(t.Context(), ending)
		if err != nil || *got.Status != test.wantStatus || *got.EndReason != test.wantReason {
			t.Errorf("%q %q became %q %q, %v", test.status, test.reason, *got.Status, *got.EndReason, err)
		}
	}
}

func TestEnd_ClampsEndedAt(t *testing.T) {
	for name, by := range map[string]time.Duration{"before the start": -time.Hour, "in the future": time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 1)
			session := h.authorize()
			started := h.mustStart(h.startReport(session)).StartedAt
			ending := h.endReport(session)
			endedAt := time.Now().Add(by)
			ending.EndedAt = &endedAt
			got, err := h.End(t.Context(), ending)
			if err != nil || got.EndedAt.Before(*started) || got.EndedAt.After(time.Now().Add(time.Minute)) {
				t.Errorf("started at %v, ended at %v, %v", started, got.EndedAt, err)
			}
		})
	}
}

func TestEnd_OfForeignSessionIsNotFound(t *testing.T) {
	h := newFixture(t, 1)
	session := h.start()
	ending := h.endReport(session)
	ending.ProfileID = id()
	_, err := h.End(t.Context(), ending)
	wantFault(t, err, fault.NotFound)

	ending = h.endReport(session)
	ending.OrgID = id()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', $2, now())`, ending.OrgID, ending.OrgID.String())
	h.exec(`INSERT INTO license_org (organization_id) VALUES ($1)`, ending.OrgID)
	if _, err := h.End(t.Context(), ending); err != nil {
		t.Error(err)
	}
	if h.state(session) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
}

func TestEnd_OfExpiredSessionRecordsReasonWithoutCounting(t *testing.T) {
	h := newFixture(t, 5)
	h.start()
	session := h.start()
	h.age(session, 7*time.Hour)
	h.mustReclaim()
	if got := h.feedEntry(session); got.Running || *got.Status != "exited" || *got.Reason != "unknown" {
		t.Errorf("after the expiry: %+v", got)
	}
	ending := h.endReport(session)
	ending.EndReason = license.MaxDuration
	if _, err := h.End(t.Context(), ending); err != nil {
		t.Error(err)
	}
	if got := h.feedEntry(session); *got.Status != "killed" || *got.Reason != "max_duration" {
		t.Errorf("after the report: %+v", got)
	}
	if h.inUse() != 1 || h.state(session) != "released ended" {
		t.Errorf("%d counted, %s", h.inUse(), h.state(session))
	}
}

// The end of a session waits for its authorize and then releases the slot.
func TestEnd_WaitsForAuthorizeInProgress(t *testing.T) {
	h := newFixture(t, 1)
	session := id()
	commit := h.holdLocks(func(tx *sqlx.Tx) {
		tx.MustExec(`UPDATE license_org SET in_use = 1 WHERE organization_id = $1`, h.org)
		tx.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, reserved_at, lease_until)
			VALUES ($1, $2, $3, $4, $5, $6, 'reserved', now(), now() + interval '2 minutes')`, id(), h.org, session, h.profile, h.machine, h.boot)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := h.End(t.Context(), h.endReport(session))
		ended <- err
	}()
	h.awaitBlocked(1)
	commit()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if h.state(session) != "released ended" || h.inUse() != 0 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
}

func TestConcurrentCallsOfOneSessionLeakNoSlot(t *testing.T) {
	h := newFixture(t, 3)
	for range 20 {
		session := id()
		report := h.startReport(session)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if _, err := h.Authorize(t.Context(), h.request(session)); err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
			group.Go(func() {
				if _, err := h.Start(t.Context(), report); err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
			group.Go(func() {
				if _, err := h.End(t.Context(), h.endReport(session)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		h.checkInvariants()
		if h.state(session) != "released ended" || h.inUse() != 0 {
			t.Fatalf("%s, %d counted", h.state(session), h.inUse())
		}
	}
}
