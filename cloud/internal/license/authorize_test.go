package license_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

func TestAuthorize_ParallelReplicasGrantExactlyTheLimit(t *testing.T) {
	const limit, asking = 20, 64
	h := newFixture(t, limit)
	var replicas []*license.Service
	for range 3 {
		replicas = append(replicas, h.replica(dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 22})))
	}
	var mu sync.Mutex
	granted := map[uuid.UUID]bool{}
	var group sync.WaitGroup
	for i := range asking {
		group.Go(func() {
			grant, err := replicas[i%3].Authorize(t.Context(), h.request(id()))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case grant.Allowed:
				granted[grant.SlotID] = true
			case grant.Reason != license.ConcurrencyLimit || grant.Current != limit || *grant.Limit != limit:
				t.Errorf("refused with %+v", grant)
			}
		})
	}
	group.Wait()
	if len(granted) != limit || h.inUse() != limit {
		t.Errorf("%d granted, %d counted, want %d", len(granted), h.inUse(), limit)
	}
}

func TestAuthorize_ReturnsGrowingCount(t *testing.T) {
	h := newFixture(t, 2)
	for want := 1; want <= 3; want++ {
		grant, err := h.Authorize(t.Context(), h.request(id()))
		if err != nil || grant.Allowed != (want <= 2) || grant.Current != min(want, 2) || *grant.Limit != 2 {
			t.Errorf("request %d got %+v, %v", want, grant, err)
		}
	}
}

func TestAuthorize_UnlimitedIsNeverRefused(t *testing.T) {
	h := newFixture(t, -1)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || !grant.Allowed || grant.Limit != nil {
				t.Errorf("got %+v, %v", grant, err)
			}
		})
	}
	group.Wait()
	if h.inUse() != 50 {
		t.Errorf("%d counted, want 50", h.inUse())
	}
}

func TestAuthorize_ZeroLimitRefuses(t *testing.T) {
	h := newFixture(t, 0)
	if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed || grant.Current != 0 {
		t.Errorf("got %+v, %v", grant, err)
	}
}

func TestAuthorize_WithoutCounterIsNotFound(t *testing.T) {
	h := newFixture(t, 1)
	req := h.request(id())
	req.OrgID = id()
	if grant, err := h.Authorize(t.Context(), req); err == nil || grant.Allowed {
		t.Errorf("got %+v, %v", grant, err)
	}
}

func TestAuthorize_RepeatReturnsSameSlot(t *testing.T) {
	for name, arrange := range map[string]func(*fixture, uuid.UUID){
		"while reserved": func(*fixture, uuid.UUID) {},
		"while running":  func(h *fixture, session uuid.UUID) { h.mustStart(h.startReport(session)) },
		"after expiry, before the reaper": func(h *fixture, session uuid.UUID) {
			h.age(session, 3*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 1) // at the limit after the first grant
			req := h.request(id())
			first, err := h.Authorize(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			arrange(h, req.SessionID)
			second, err := h.Authorize(t.Context(), req)
			if err != nil || !second.Allowed || second.SlotID != first.SlotID || *second.ProfileID != h.profile || second.Current != 1 {
				t.Errorf("got %+v, %v; first %+v", second, err, first)
			}
			if released := h.mustReclaim().Released; released != 0 {
				t.Error("the repeated answer granted an expired slot")
			}
		})
	}
}

func TestAuthorize_ParallelRepeatsTakeOneSlot(t *testing.T) {
	h := newFixture(t, 10)
	for range 10 {
		req := h.request(id())
		var mu sync.Mutex
		slots := map[uuid.UUID]bool{}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				grant, err := h.Authorize(t.Context(), req)
				if err != nil || !grant.Allowed {
					t.Errorf("got %+v, %v", grant, err)
				}
				mu.Lock()
				defer mu.Unlock()
				slots[grant.SlotID] = true
			})
		}
		group.Wait()
		if len(slots) != 1 {
			t.Errorf("one session has %d slots", len(slots))
		}
	}
	if h.inUse() != 10 {
		t.Errorf("%d counted, want 10", h.inUse())
	}
}

func TestAuthorize_EndedOrForeignSessionIsConflict(t *testing.T) {
	for name, change := range map[string]func(h *fixture, req *license.Request){
		"ended":         func(h *fixture, req *license.Request) { h.mustEnd(req.SessionID) },
		"expired":       func(h *fixture, req *license.Request) { h.age(req.SessionID, 3*time.Minute); h.mustReclaim() },
		"other machine": func(h *fixture, req *license.Request) { req.MachineID = "worker-2" },
		"other boot":    func(h *fixture, req *license.Request) { req.BootID = id() },
		"other profile": func(h *fixture, req *license.Request) { other := id(); req.ProfileID = &other },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			req := h.request(h.authorize())
			change(h, &req)
			grant, err := h.Authorize(t.Context(), req)
			wantFault(t, err, fault.Conflict)
			if grant.Allowed {
				t.Errorf("allowed: %+v", grant)
			}
		})
	}
}

// Another transaction may hold the slot of a repeated request and wait for the
// counter. The holder of the counter must not wait for the slot.
func TestAuthorize_BatchDoesNotWaitForLockedSlot(t *testing.T) {
	h := newFixture(t, 10)
	session := h.authorize()
	commit := h.holdLocks(func(tx *sqlx.Tx) {
		tx.MustExec(`UPDATE license_slots SET seq = seq WHERE organization_id = $1 AND session_id = $2`, h.org, session)
	})
	unlock := h.lockCounter()
	var group sync.WaitGroup
	group.Go(func() { h.authorize() }) // alone, and then a batch
	h.awaitBlocked(1)
	group.Go(func() {
		if grant, err := h.Authorize(t.Context(), h.request(session)); err != nil || !grant.Allowed {
			t.Errorf("the repeated request got %+v, %v", grant, err)
		}
	})
	eventually(t, func() bool { return h.WaitingForGrants(h.org) == 1 })
	group.Go(func() { h.authorize() })
	eventually(t, func() bool { return h.WaitingForGrants(h.org) == 2 })
	unlock()
	eventually(t, func() bool { return h.inUse() == 3 })
	commit()
	group.Wait()
}

func TestAuthorize_RefusalWaitsForNoLock(t *testing.T) {
	h := newFixture(t, 1)
	h.start()
	h.lockCounter()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if grant, err := h.Authorize(ctx, h.request(id())); err != nil || grant.Allowed {
		t.Errorf("got %+v, %v", grant, err)
	}
}

func TestAuthorize_ReclaimsOncePerSecondBeforeRefusing(t *testing.T) {
	h := newFixture(t, 1)
	h.age(h.authorize(), 3*time.Minute)
	second := h.authorize() // in the place of the first
	h.age(second, 3*time.Minute)
	if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed {
		t.Errorf("searched twice within a second: %+v, %v", grant, err)
	}
	h.clock.Advance(time.Second)
	h.authorize()
	if got := h.state(second); got != "released lapsed" {
		t.Errorf("the expired reservation is %s", got)
	}
}

// newProfileFunc returns a function that inserts an ephemeral profile.
func newProfileFunc(h *fixture, full error) func(context.Context, *sqlx.Tx) (uuid.UUID, error) {
	h.exec(`CREATE TABLE IF NOT EXISTS made (id uuid PRIMARY KEY)`)
	return func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
		profile := id()
		_, err := tx.ExecContext(ctx, `INSERT INTO made VALUES ($1)`, profile)
		return profile, errors.Join(err, full)
	}
}

func TestAuthorize_CreatesProfileWithSlotOrNotAtAll(t *testing.T) {
	h := newFixture(t, 1)
	req := h.request(id())
	req.ProfileID, req.NewProfile = nil, newProfileFunc(h, nil)
	first, err := h.Authorize(t.Context(), req)
	if err != nil || !first.Allowed || first.ProfileID == nil {
		t.Fatalf("got %+v, %v", first, err)
	}
	second, err := h.Authorize(t.Context(), req)
	if err != nil || second.SlotID != first.SlotID || *second.ProfileID != *first.ProfileID {
		t.Errorf("repeated request: %+v, %v", second, err)
	}
	other := h.request(id())
	other.ProfileID, other.NewProfile = nil, req.NewProfile
	if grant, err := h.Authorize(t.Context(), other); err != nil || grant.Allowed || grant.Reason != license.ConcurrencyLimit {
		t.Errorf("full: %+v, %v", grant, err)
	}
	if n := query[int](h, `SELECT count(*) FROM made`); n != 1 {
		t.Errorf("%d profiles were created, want 1", n)
	}
}

func TestAuthorize_RollsBackProfileWhenLastSlotIsTaken(t *testing.T) {
	h := newFixture(t, 1)
	commit := h.holdLocks(func(tx *sqlx.Tx) { // takes the last slot
		tx.MustExec(`UPDATE license_org SET in_use = 1 WHERE organization_id = $1`, h.org)
		tx.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
			VALUES ($1, $2, $3, 'worker-2', $4, 'reserved', now(), now() + interval '1 minute')`, id(), h.org, id(), id())
	})
	req := h.request(id())
	req.ProfileID, req.NewProfile = nil, newProfileFunc(h, nil)
	answer := make(chan license.Grant, 1)
	go func() {
		grant, err := h.Authorize(t.Context(), req)
		if err != nil {
			t.Error(err)
		}
		answer <- grant
	}()
	h.awaitBlocked(1)
	commit()
	if grant := <-answer; grant.Allowed || grant.Reason != license.ConcurrencyLimit || grant.Current != 1 {
		t.Errorf("got %+v", grant)
	}
	if n := query[int](h, `SELECT count(*) FROM made`); n != 0 {
		t.Errorf("%d profiles are left over", n)
	}
}

func TestAuthorize_RefusesSpecAtProfileLimit(t *testing.T) {
	h := newFixture(t, 5)
	h.authorize()
	req := h.request(id())
	req.ProfileID, req.NewProfile = nil, newProfileFunc(h, license.ProfileLimitError{Current: 5, Limit: 5})
	grant, err := h.Authorize(t.Context(), req)
	five := 5
	want := license.Grant{Reason: license.ProfileLimit, Current: 1, Limit: &five, ProfileCount: &five}
	if diff := cmp.Diff(want, grant); err != nil || diff != "" {
		t.Errorf("error %v, current counts what runs (-want +got):\n%s", err, diff)
	}
	if n := query[int](h, `SELECT count(*) FROM made`); n != 0 || h.inUse() != 1 {
		t.Errorf("%d profiles and %d slots are left over", n, h.inUse())
	}
}

func TestAuthorize_SpecReusesProfileOfExpiredLaunch(t *testing.T) {
	h := newFixture(t, 5)
	oneProfile := func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
		var live int
		err := tx.GetContext(ctx, &live, `SELECT count(*) FROM license_slots WHERE organization_id = $1 AND released_at IS NULL`, h.org)
		if live > 0 {
			err = license.ProfileLimitError{Current: live, Limit: 1}
		}
		return id(), err
	}
	var sessions [3]uuid.UUID
	for i := range sessions {
		sessions[i] = id()
		req := h.request(sessions[i])
		req.ProfileID, req.NewProfile = nil, oneProfile
		if i == 1 {
			h.age(sessions[0], 3*time.Minute)
		}
		grant, err := h.Authorize(t.Context(), req)
		if err != nil || grant.Allowed != (i < 2) || !grant.Allowed && grant.Reason != license.ProfileLimit {
			t.Errorf("launch %d: %+v, %v", i+1, grant, err)
		}
		h.clock.Advance(2 * time.Second)
	}
	if a, b := h.state(sessions[0]), h.state(sessions[1]); a != "released lapsed" || b != "reserved" {
		t.Errorf("%s, %s", a, b)
	}
}
