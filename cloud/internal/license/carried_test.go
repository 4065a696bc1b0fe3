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

// requestWithEnds returns an authorize request of a new session that carries the ends
// of others.
func (h *fixture) requestWithEnds(ended ...uuid.UUID) license.Request {
	req := h.request(id())
	for _, session := range ended {
		end := h.endReport(session)
		end.EndReason = license.KilledReason
		req.Ends = append(req.Ends, end)
	}
	return req
}

func (h *fixture) mustBeGranted(req license.Request) {
	h.t.Helper()
	if grant, err := h.Authorize(h.t.Context(), req); err != nil || !grant.Allowed {
		h.t.Fatalf("authorize: %+v, %v", grant, err)
	}
}

func TestAuthorize_AppliesCarriedEndsFirst(t *testing.T) {
	h := newFixture(t, 1)
	for range 100 {
		session := h.start()
		if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed { // the organization is remembered as full
			t.Fatalf("at the limit: %+v, %v", grant, err)
		}
		req := h.requestWithEnds(session)
		h.mustBeGranted(req)
		if heard := h.feedEntry(session); heard.Running || *heard.Status != "killed" || *heard.Reason != "killed" || heard.Ends != 1 {
			t.Fatalf("the feed has %+v", heard)
		}
		h.mustEnd(session) // by itself again
		if h.state(session) != "released ended" || h.inUse() != 1 || h.feedEntry(session).Ends != 1 {
			t.Fatalf("%s, %d counted", h.state(session), h.inUse())
		}
		h.mustEnd(req.SessionID)
	}
}

func TestAuthorize_AppliesCarriedEndsOfReservations(t *testing.T) {
	h := newFixture(t, 1)
	h.mustBeGranted(h.requestWithEnds(h.authorize()))
	if h.inUse() != 1 {
		t.Errorf("%d counted", h.inUse())
	}
}

func TestAuthorize_AppliesCarriedEndsOnceFromManyCallers(t *testing.T) {
	const limit = 8
	h := newFixture(t, limit)
	for range 20 {
		var ended []uuid.UUID
		for range limit {
			ended = append(ended, h.start())
		}
		var callers sync.WaitGroup
		for i := range limit {
			callers.Go(func() { h.mustEnd(ended[i]) })
			callers.Go(func() { h.mustBeGranted(h.requestWithEnds(ended...)) })
		}
		callers.Wait()
		h.checkInvariants()
		if h.inUse() != limit {
			t.Fatalf("%d counted", h.inUse())
		}
		for _, session := range ended {
			if heard := h.feedEntry(session); heard.Ends != 1 {
				t.Errorf("the feed has %+v", heard)
			}
		}
		h.exec(`UPDATE license_slots SET lease_until = now() - interval '1 second' WHERE released_at IS NULL`)
		h.mustReclaim()
	}
}

func TestAuthorize_CarriedEndsFreeProfileOfSpec(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	req := h.requestWithEnds(session)
	req.ProfileID, req.NewProfile = nil, func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
		var running bool // the session's profile is there as long as it runs
		if err := tx.GetContext(ctx, &running, `SELECT running FROM feed WHERE session_id = $1`, session); err != nil || running {
			return uuid.Nil, license.ProfileLimitError{Current: 1, Limit: 1}
		}
		return id(), nil
	}
	h.mustBeGranted(req)
}

func TestAuthorize_IgnoresCarriedEndsOfOtherMachines(t *testing.T) {
	h := newFixture(t, 5)
	mine, home := h.start(), h.org
	h.newOrganization(5)
	others := h.start() // of another organization
	h.org = home
	for name, test := range map[string]struct {
		session uuid.UUID
		change  func(*license.Request)
	}{
		"another machine":      {mine, func(r *license.Request) { r.MachineID = "worker-2" }},
		"another profile":      {mine, func(r *license.Request) { r.Ends[0].ProfileID = id() }},
		"another organization": {others, func(*license.Request) {}},
		"unknown":              {id(), func(*license.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			req := h.requestWithEnds(test.session)
			test.change(&req)
			h.mustBeGranted(req)
			if h.state(mine) != "running" {
				t.Errorf("the session is %s", h.state(mine))
			}
			if live := query[int](h, `SELECT count(*) FROM license_slots WHERE session_id = $1 AND released_at IS NULL`, others); live != 1 {
				t.Error("the other organization's session was ended")
			}
			if test.session != mine && test.session != others && query[int](h, `SELECT count(*) FROM license_slots WHERE session_id = $1`, test.session) != 0 {
				t.Error("the end of an unknown session left a row")
			}
		})
	}
}

func TestAuthorize_InvalidKeyAppliesNoCarriedEnd(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	req := h.requestWithEnds(session)
	req.KeyPending = true // of a key that does not exist
	_, err := h.Authorize(t.Context(), req)
	wantFault(t, err, fault.Unauthenticated)
	if h.state(session) != "running" {
		t.Errorf("the session is %s", h.state(session))
	}
}
