package license_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// The races of the accounting, by number. Here are those for a slot; the others concern
// ends (races_end_test.go), heartbeats (races_machine_test.go), duplicate workers
// (races_duplicate_test.go), lost answers and revoked keys (races_failure_test.go), and
// removed organizations (races_removal_test.go).

func TestRace01_ParallelAuthorizesAtLastSlotOverThreeReplicas(t *testing.T) {
	const limit, asking = 5, 128
	h := newFixture(t, limit)
	for range limit - 1 {
		h.start()
	}
	replicas := h.replicas()
	for range 3 {
		var answers []chan authorizeResult
		for i := range asking {
			answers = append(answers, h.authorizeAsync(t.Context(), replicas[i%3], nil))
		}
		var granted []uuid.UUID
		for _, answer := range answers {
			v := <-answer
			switch {
			case v.err != nil:
				t.Error(v.err)
			case v.grant.Allowed:
				granted = append(granted, v.session)
			case v.grant.Reason != license.ConcurrencyLimit || v.grant.Current != limit || *v.grant.Limit != limit:
				t.Errorf("refused with %+v", v.grant)
			}
		}
		if len(granted) != 1 || h.inUse() != limit {
			t.Fatalf("%d granted, %d counted", len(granted), h.inUse())
		}
		h.mustEnd(granted[0])
	}
}

func TestRace02_AuthorizeDuringLimitChange(t *testing.T) {
	for name, test := range map[string]struct{ before, after, allowed int }{
		"lowered to the usage": {before: 4, after: 1, allowed: 0},
		"lowered":              {before: 6, after: 3, allowed: 2},
		"raised":               {before: 2, after: 4, allowed: 3},
		"taken away":           {before: 2, after: -1, allowed: 5},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, test.before)
			h.start()
			var newLimit *int
			if test.after >= 0 {
				newLimit = &test.after
			}
			commit := h.holdLocks(func(tx *sqlx.Tx) {
				if err := h.SetLimit(t.Context(), tx, h.org, newLimit); err != nil {
					t.Fatal(err)
				}
			})
			answers := []chan authorizeResult{h.authorizeAsync(t.Context(), h.Service, nil)} // alone, and then a batch
			h.awaitBlocked(1)
			for i := range 4 {
				answers = append(answers, h.authorizeAsync(t.Context(), h.Service, nil))
				eventually(t, func() bool { return h.WaitingForGrants(h.org) == i+1 })
			}
			commit()
			allowed := 0
			for _, answer := range answers {
				v := <-answer
				if v.err != nil || (v.grant.Limit == nil) != (newLimit == nil) || newLimit != nil && *v.grant.Limit != *newLimit {
					t.Errorf("got %+v, %v", v.grant, v.err)
				}
				if v.grant.Allowed {
					allowed++
				}
			}
			if allowed != test.allowed || h.inUse() != 1+allowed {
				t.Errorf("%d allowed, %d counted, want %d allowed", allowed, h.inUse(), test.allowed)
			}
		})
	}
}

func TestRace03_StartWithExpiredReservation(t *testing.T) {
	expired := func(t *testing.T) (*fixture, uuid.UUID, license.StartReport) {
		h := newFixture(t, 1)
		session := h.authorize()
		h.age(session, time.Hour)
		return h, session, h.startReport(session)
	}
	startsOnce := func(h *fixture, session uuid.UUID) {
		h.t.Helper()
		if got := h.feedEntry(session); h.state(session) != "running" || h.inUse() != 1 || got.Starts != 1 {
			h.t.Errorf("%s, %d counted, heard %+v", h.state(session), h.inUse(), got)
		}
	}
	t.Run("a reclaim in progress takes it first", func(t *testing.T) {
		h, session, report := expired(t)
		unlock := h.lockCounter()
		reclaimed := async(func() error { _, err := h.Reclaim(t.Context(), h.org); return err })
		h.awaitBlocked(1)
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(2)
		unlock()
		if err, err2 := <-reclaimed, <-started; err != nil || err2 != nil {
			t.Error(err, err2)
		}
		startsOnce(h, session)
		if h.feedEntry(session).Ends != 1 {
			t.Error("the reclaim did not come first")
		}
	})
	t.Run("a start in progress keeps it", func(t *testing.T) {
		h, session, report := expired(t)
		unlock := h.lockFeed()
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(1)
		if released := h.mustReclaim().Released; released != 0 {
			t.Errorf("%d released under a start", released)
		}
		unlock()
		if err := <-started; err != nil {
			t.Error(err)
		}
		startsOnce(h, session)
	})
	t.Run("with another caller that requests the slot", func(t *testing.T) {
		h, replicas := newFixture(t, 1), []*license.Service(nil)
		replicas = h.replicas()
		for range 30 {
			session := h.authorize()
			h.age(session, time.Hour)
			h.clock.Advance(time.Minute) // every replica searches for expired slots again
			report := h.startReport(session)
			other := h.authorizeAsync(t.Context(), replicas[0], nil)
			reclaimed := async(func() error { _, err := replicas[1].Reclaim(t.Context(), h.org); return err })
			_, err := replicas[2].Start(t.Context(), report)
			v := <-other
			if err := <-reclaimed; err != nil || v.err != nil {
				t.Fatal(err, v.err)
			}
			holder := session
			if err != nil {
				wantFault(t, err, fault.PaymentRequired)
				holder = v.session
			}
			if (err == nil) == v.grant.Allowed || h.inUse() != 1 || (h.state(session) == "running") != (err == nil) {
				t.Fatalf("start: %v; the other: %+v; %s, %d counted", err, v.grant, h.state(session), h.inUse())
			}
			h.mustEnd(holder)
		}
	})
}

func TestRace04_DuplicateStart(t *testing.T) {
	for name, arrange := range map[string]func(h *fixture) (session uuid.UUID, unlock func()){
		"authorized":     func(h *fixture) (uuid.UUID, func()) { session := h.authorize(); return session, h.lockSlot(session) },
		"without a slot": func(h *fixture) (uuid.UUID, func()) { return id(), h.lockCounter() },
		"expired": func(h *fixture) (uuid.UUID, func()) {
			session := h.authorize()
			h.age(session, time.Hour)
			h.mustReclaim()
			return session, h.lockSlot(session)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			replicas := h.replicas()
			h.mustHeartbeat(h.heartbeat()) // a known machine is not locked
			session, unlock := arrange(h)
			report := h.startReport(session)
			slots := make([]uuid.UUID, 9)
			var group sync.WaitGroup
			for i := range slots {
				group.Go(func() {
					got, err := replicas[i%3].Start(t.Context(), report)
					if err != nil {
						t.Error(err)
						return
					}
					slots[i] = *got.SlotID
				})
			}
			h.awaitBlocked(len(slots))
			unlock()
			group.Wait()
			for _, slot := range slots {
				if slot != slots[0] {
					t.Errorf("slots %v, want one", slots)
					break
				}
			}
			if h.state(session) != "running" || h.inUse() != 1 || h.feedEntry(session).Starts != 1 {
				t.Errorf("%s, %d counted, %d starts heard", h.state(session), h.inUse(), h.feedEntry(session).Starts)
			}
		})
	}
}

// A downgrade ends no session and grants no slot. The next launch is granted exactly
// when the usage is below the limit.
func TestRace15_DowngradeBelowUsage(t *testing.T) {
	const before, after = 10, 4
	h := newFixture(t, before)
	replicas := h.replicas()
	var sessions []uuid.UUID
	for range before - 2 {
		sessions = append(sessions, h.start())
	}
	var lowered atomic.Bool
	var granted, late atomic.Int64
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			known := lowered.Load()
			v := <-h.authorizeAsync(t.Context(), replicas[i%3], nil)
			switch {
			case v.err != nil || *v.grant.Limit != before && *v.grant.Limit != after || known && *v.grant.Limit != after:
				t.Errorf("got %+v, %v", v.grant, v.err)
			case v.grant.Allowed && *v.grant.Limit == after:
				late.Add(1)
			case v.grant.Allowed:
				granted.Add(1)
			}
		})
		if i == 1+rand.IntN(3) {
			h.setLimit(after)
			lowered.Store(true)
		}
	}
	if !lowered.Load() {
		h.setLimit(after)
	}
	group.Wait()
	usage := len(sessions) + int(granted.Load())
	if late.Load() != 0 || usage > before || h.inUse() != usage {
		t.Fatalf("%d granted before, %d after; %d counted", granted.Load(), late.Load(), h.inUse())
	}
	for _, session := range sessions {
		if h.state(session) != "running" {
			t.Errorf("a session that ran is %s", h.state(session))
		}
	}
	h.endUntilBelow(replicas, after, usage, sessions)
}

// endUntilBelow ends the sessions while all callers request slots, and allows no more
// grants than the limit.
func (h *fixture) endUntilBelow(replicas []*license.Service, limit, usage int, sessions []uuid.UUID) {
	h.t.Helper()
	for usage-1 >= limit && len(sessions) > 0 { // not below it yet
		h.mustEnd(sessions[0])
		sessions, usage = sessions[1:], usage-1
		h.clock.Advance(time.Minute) // the cache of full organizations has expired
		v := <-h.authorizeAsync(h.t.Context(), replicas[0], nil)
		if v.err != nil || v.grant.Allowed || v.grant.Current != usage || *v.grant.Limit != limit {
			h.t.Errorf("with %d of %d got %+v, %v", usage, limit, v.grant, v.err)
		}
	}
	var granted atomic.Int64
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			v := <-h.authorizeAsync(h.t.Context(), replicas[i%3], nil)
			if v.err != nil || v.grant.Current > limit {
				h.t.Errorf("got %+v, %v", v.grant, v.err)
			}
			if v.grant.Allowed {
				granted.Add(1)
			}
		})
		if i%10 == 9 && len(sessions) > 0 {
			h.mustEnd(sessions[0])
			sessions, usage = sessions[1:], usage-1
		}
	}
	group.Wait()
	for v := <-h.authorizeAsync(h.t.Context(), replicas[1], nil); v.grant.Allowed; v = <-h.authorizeAsync(h.t.Context(), replicas[1], nil) {
		granted.Add(1)
	}
	if usage+int(granted.Load()) != limit || h.inUse() != limit {
		h.t.Errorf("%d left and %d granted, %d counted, want %d", usage, granted.Load(), h.inUse(), limit)
	}
}
