package license_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// knownProfiles are the existing profiles.
type knownProfiles []uuid.UUID

func (k knownProfiles) Known(_ context.Context, _ uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return !slices.Contains(k, id) }), nil
}

// serviceKnowing returns a replica that knows these profiles.
func (h *fixture) serviceKnowing(profiles ...uuid.UUID) *license.Service {
	h.t.Helper()
	s, err := license.New(h.t.Context(), h.db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{KnownProfiles: knownProfiles(profiles)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (h *fixture) slots() int {
	h.t.Helper()
	return query[int](h, `SELECT count(*) FROM license_slots WHERE organization_id = $1`, h.org)
}

func TestEnd_OfUnknownProfileIsNotFoundAndInsertsNothing(t *testing.T) {
	h := newFixture(t, 5)
	s := h.serviceKnowing(h.profile)
	ending := h.endReport(id())
	ending.ProfileID = id()
	for range 3 {
		_, err := s.End(t.Context(), ending)
		wantFault(t, err, fault.NotFound)
	}
	if n := h.slots(); n != 0 {
		t.Errorf("%d rows remain", n)
	}
	ending.ProfileID = h.profile // an end that overtakes its start
	if _, err := s.End(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	_, err := s.Start(t.Context(), h.startReport(ending.SessionID))
	wantFault(t, err, fault.Conflict)
}

// The profile may have been deleted since.
func TestEnd_OfKnownSessionDoesNotNeedProfile(t *testing.T) {
	h := newFixture(t, 5)
	s := h.serviceKnowing()
	for _, session := range []uuid.UUID{h.authorize(), h.start()} {
		for range 2 {
			if _, err := s.End(t.Context(), h.endReport(session)); err != nil {
				t.Error(err)
			}
		}
		if h.state(session) != "released ended" {
			t.Errorf("the session is %s", h.state(session))
		}
	}
	if h.inUse() != 0 {
		t.Errorf("%d counted", h.inUse())
	}
}

// Ends of known and unknown sessions and profiles in one batch each get their own
// answer.
func TestEnd_AnswersEachOfBatch(t *testing.T) {
	h := newFixture(t, 5)
	s := h.serviceKnowing(h.profile)
	running, early, unknown := h.start(), id(), id()
	var group sync.WaitGroup
	for range 4 {
		for _, session := range []uuid.UUID{running, early} {
			group.Go(func() {
				if _, err := s.End(t.Context(), h.endReport(session)); err != nil {
					t.Error(err)
				}
			})
		}
		for _, session := range []uuid.UUID{running, early, unknown} {
			group.Go(func() {
				ending := h.endReport(session)
				ending.ProfileID = id()
				_, err := s.End(t.Context(), ending)
				wantFault(t, err, fault.NotFound)
			})
		}
	}
	group.Wait()
	if n := h.slots(); n != 2 || h.inUse() != 0 {
		t.Errorf("%d rows, %d counted; want 2 and none", n, h.inUse())
	}
}

// Only the latest tombstones are kept. Slots do not count.
func TestEnd_BoundsTombstones(t *testing.T) {
	h := newFixture(t, 5)
	kept := h.authorize()
	ended := h.start()
	h.mustEnd(ended)
	first := id()
	h.mustEnd(first)
	h.exec(`UPDATE license_slots SET id = license_event_id(clock_timestamp() - interval '2 minutes') WHERE session_id = $1`, first)
	h.exec(`INSERT INTO license_slots (id, organization_id, session_id, profile_id, state, reserved_at, lease_until,
			released_at, release_reason, ended_at, end_status, end_reason)
		SELECT license_event_id(clock_timestamp() - interval '1 minute'), $1, gen_random_uuid(), $2, 'released', now(), now(), now(), 'ended', now(), 'exited', 'unknown'
		FROM generate_series(1, $3)`, h.org, h.profile, license.MaxTombstones)
	last := id()
	h.mustEnd(last)
	if n := h.slots(); n != license.MaxTombstones+2 {
		t.Errorf("%d rows, want %d ends and two slots", n, license.MaxTombstones)
	}
	if found := query[int](h, `SELECT count(*) FROM license_slots WHERE session_id = $1`, first); found != 0 {
		t.Error("the oldest tombstone was kept")
	}
	_, err := h.Start(t.Context(), h.startReport(last))
	wantFault(t, err, fault.Conflict)
	if h.state(kept) != "reserved" || h.state(ended) != "released ended" {
		t.Errorf("the slots are %s and %s", h.state(kept), h.state(ended))
	}
}
