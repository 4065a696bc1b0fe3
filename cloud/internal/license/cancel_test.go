package license_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// wasObserved reports whether the observer was called for the session.
func (h *fixture) wasObserved(session uuid.UUID) bool {
	h.t.Helper()
	return query[bool](h, `SELECT EXISTS (SELECT FROM feed WHERE session_id = $1)`, session)
}

func TestEnd_OfFailedLaunchIsOneStatement(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	if got := h.mustEnd(session); got.StartedAt != nil || *got.Status != license.Exited || got.SlotID == nil {
		t.Errorf("got %+v", got)
	}
	if h.inUse() != 0 || h.state(session) != "released ended" || h.wasObserved(session) {
		t.Errorf("%d counted, %s; observed: %t", h.inUse(), h.state(session), h.wasObserved(session))
	}
}

// A replica's memory of a reservation may be outdated: another replica may have received its start.
func TestEnd_OfSessionStartedElsewhereIsObserved(t *testing.T) {
	h := newFixture(t, 10)
	other := h.replica(h.db)
	sessions := []uuid.UUID{h.authorize(), h.authorize(), h.authorize(), h.authorize()}
	for _, session := range sessions[:2] {
		if _, err := other.Start(t.Context(), h.startReport(session)); err != nil {
			t.Fatal(err)
		}
	}
	h.mustEnd(sessions[0])
	unknown := h.authorizeAt(other)
	release := h.lockCounter()
	var group sync.WaitGroup
	group.Go(func() { h.mustEnd(unknown) }) // holds the line
	h.awaitBlocked(1)
	for i, session := range sessions[1:] {
		group.Go(func() { h.mustEnd(session) })
		h.awaitEnds(i + 2)
	}
	release()
	group.Wait()
	for i, session := range sessions {
		if h.state(session) != "released ended" || i < 2 && !h.feedEntry(session).Ran {
			t.Errorf("number %d is %s", i, h.state(session))
		}
	}
	if h.inUse() != 0 {
		t.Errorf("%d counted", h.inUse())
	}
}

func TestEnd_BatchOfFailedLaunchesIsOneStatement(t *testing.T) {
	h := newFixture(t, 10)
	sessions := []uuid.UUID{h.authorize(), h.authorize(), h.authorize(), h.authorize()}
	release := h.lockCounter()
	var group sync.WaitGroup
	for i, session := range sessions {
		group.Go(func() { h.mustEnd(session) })
		h.awaitEnds(i + 1)
	}
	wrong := h.endReport(sessions[3])
	wrong.ProfileID = id()
	if _, err := h.End(t.Context(), wrong); !fault.Is(err, fault.NotFound) {
		t.Errorf("end of another profile's session during its own end: %v", err)
	}
	release()
	group.Wait()
	for _, session := range sessions {
		if h.state(session) != "released ended" {
			t.Errorf("a session is %s", h.state(session))
		}
	}
	if h.inUse() != 0 {
		t.Errorf("%d counted", h.inUse())
	}
}

// An authorize locks the counter before the slot, the end of a reservation after it.
// If both concern the same session, one of them fails and is retried.
func TestEnd_OfFailedLaunchYieldsToAuthorize(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	tx := h.db.MustBegin()
	defer tx.Rollback()
	tx.MustExec(`SET LOCAL deadlock_timeout = '1min'`) // it is the end that notices
	tx.MustExec(`SELECT FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE`, h.org)
	var group sync.WaitGroup
	group.Go(func() { h.mustEnd(session) })
	h.awaitBlocked(1)
	tx.MustExec(`SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`, session)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if h.inUse() != 0 || h.state(session) != "released ended" {
		t.Errorf("%d counted, %s", h.inUse(), h.state(session))
	}
}

// The profile that was created for a launch is deleted with it.
func TestEnd_OfFailedLaunchWithOwnProfileIsObserved(t *testing.T) {
	h := newFixture(t, 1)
	req := h.request(id())
	req.ProfileID = nil
	req.NewProfile = func(context.Context, *sqlx.Tx) (uuid.UUID, error) { return h.profile, nil }
	if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.mustEnd(req.SessionID)
	if !h.wasObserved(req.SessionID) || h.inUse() != 0 {
		t.Errorf("observed: %t, %d counted", h.wasObserved(req.SessionID), h.inUse())
	}
}

// Launches and ends of failed launches wait for the counter in the process, where they
// form a batch, not in the database.
func TestGrantsAndCancellationsAreSerialized(t *testing.T) {
	h := newFixture(t, 10)
	session := h.authorize()
	release := h.lockCounter()
	var group sync.WaitGroup
	group.Go(func() { h.mustEnd(session) })
	h.awaitBlocked(1)
	for range 3 {
		group.Go(func() { h.authorize() })
	}
	eventually(t, func() bool { return h.WaitingForGrants(h.org) == 3 })
	if n := h.countBlocked(); n != 1 {
		t.Errorf("%d statements wait for the counter", n)
	}
	release()
	group.Wait()
	if h.inUse() != 3 || h.state(session) != "released ended" {
		t.Errorf("%d counted, %s", h.inUse(), h.state(session))
	}
}
