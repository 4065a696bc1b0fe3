package license_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
)

func TestRace07_HeartbeatDuringStart(t *testing.T) {
	// inFlight is a start that is about to commit, of a session that is launched
	// between two heartbeats of its machine.
	inFlight := func(t *testing.T) (h *fixture, old, fresh uuid.UUID, before, after license.HeartbeatReport, finish func()) {
		h = newFixture(t, 5)
		old, fresh = h.start(), h.authorize()
		before = h.heartbeat(old)
		report := h.startReport(fresh)
		after = h.heartbeat(old, fresh)
		unlock := h.lockFeed()
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(1)
		return h, old, fresh, before, after, func() {
			t.Helper()
			unlock()
			if err := <-started; err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("that does not list it yet", func(t *testing.T) {
		h, old, fresh, before, _, finish := inFlight(t)
		assertResult(t, h.mustHeartbeat(before), license.HeartbeatResult{Applied: true, Accepted: ids(old)})
		finish()
		assertResult(t, h.mustHeartbeat(before), license.HeartbeatResult{Applied: true, Accepted: ids(old)}) // its copy
		if h.state(fresh) != "running" || h.inUse() != 2 {
			t.Errorf("%s, %d counted", h.state(fresh), h.inUse())
		}
	})
	t.Run("that lists it", func(t *testing.T) {
		h, old, fresh, _, after, finish := inFlight(t)
		beaten := h.heartbeatAsync(after)
		h.awaitBlocked(2)
		finish()
		assertResult(t, <-beaten, license.HeartbeatResult{Applied: true, Accepted: ids(old, fresh)})
		if h.state(fresh) != "running" || h.leaseSeconds(fresh) != 5 || h.inUse() != 2 {
			t.Errorf("%s, held for %d minutes, %d counted", h.state(fresh), h.leaseSeconds(fresh), h.inUse())
		}
	})
	t.Run("that lists it no more", func(t *testing.T) {
		h, old, fresh, _, after, finish := inFlight(t)
		after.Sessions = ids(old)
		assertResult(t, h.mustHeartbeat(after), license.HeartbeatResult{Applied: true, Accepted: ids(old)})
		finish()
		assertResult(t, h.mustHeartbeat(after), license.HeartbeatResult{Applied: true, Accepted: ids(old), Released: ids(fresh)})
		if h.inUse() != 1 {
			t.Errorf("%d counted, want 1", h.inUse())
		}
	})
	t.Run("many at once", testLaunchesDuringHeartbeats)
}

func testLaunchesDuringHeartbeats(t *testing.T) {
	h := newFixture(t, -1)
	stop := make(chan struct{})
	var beats, launches sync.WaitGroup
	var mu sync.Mutex
	live := map[uuid.UUID]bool{}
	beats.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock() // the snapshot and its stamp are one moment
			report := h.heartbeat()
			for session := range live {
				report.Sessions = append(report.Sessions, session)
			}
			mu.Unlock()
			result, err := h.Heartbeat(t.Context(), report)
			if err != nil || !result.Applied {
				t.Errorf("got %+v, %v", result, err)
			}
		}
	})
	for range 4 {
		launches.Go(func() {
			for range 12 {
				session := id()
				if _, err := h.Authorize(t.Context(), h.request(session)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				report := h.startReport(session)
				live[session] = true
				mu.Unlock()
				if _, err := h.Start(t.Context(), report); err != nil {
					t.Errorf("start: %v", err)
				}
				if state := h.state(session); state != "running" {
					t.Errorf("a session that runs is %s", state)
				}
				mu.Lock()
				delete(live, session)
				mu.Unlock()
				if _, err := h.End(t.Context(), h.endReport(session)); err != nil {
					t.Errorf("end: %v", err)
				}
			}
		})
	}
	launches.Wait()
	close(stop)
	beats.Wait()
	if h.inUse() != 0 {
		t.Errorf("%d counted, want none", h.inUse())
	}
}

// The old boot's last heartbeats, the new one's first start and its heartbeats arrive
// concurrently, in any order.
func TestRace08_ReorderedHeartbeatsAndOldBootAfterNewOne(t *testing.T) {
	h := newFixture(t, -1)
	replicas := h.replicas()
	for range 8 {
		h.boot = id()
		old := h.start()
		h.mustHeartbeat(h.heartbeat(old))
		before := []license.HeartbeatReport{h.heartbeat(old), h.heartbeat(), h.heartbeat(old)}
		h.boot = id()
		h.seq.Store(0) // a new boot counts from the start
		first, ended, last := h.startReport(h.authorize()), h.authorize(), h.authorize()
		sendInRandomOrder(h, replicas, before, func() error { _, err := h.Start(t.Context(), first); return err })

		h.mustStart(h.startReport(ended))
		after := []license.HeartbeatReport{h.heartbeat(first.SessionID, ended), h.heartbeat(first.SessionID)}
		h.mustEnd(ended)
		h.mustStart(h.startReport(last))
		latest := h.heartbeat(first.SessionID, last)
		results := sendInRandomOrder(h, replicas, append(append(before, after...), latest), nil)
		for i := range before {
			assertResult(t, results[i], license.HeartbeatResult{})
		}
		assertResult(t, results[5], license.HeartbeatResult{
			Applied: true, Accepted: ids(first.SessionID, last), Released: results[5].Released, // unless one before did
		})
		seq := query[int64](h, `SELECT seq FROM license_machines WHERE machine_id = $1 AND boot_id = $2`, h.machine, h.boot)
		if seq != latest.Seq || h.state(old) != "released omitted" || h.state(ended) != "released ended" ||
			h.state(first.SessionID) != "running" || h.state(last) != "running" || h.inUse() != 2 {
			t.Fatalf("seq %d, old %s, ended %s, %s and %s, %d counted", seq, h.state(old), h.state(ended),
				h.state(first.SessionID), h.state(last), h.inUse())
		}
		h.mustEnd(first.SessionID)
		h.mustEnd(last)
	}
}

// sendInRandomOrder sends heartbeats of one machine and runs concurrently, while it holds
// the lock of the machine, and then releases the lock. The last heartbeat is sent first.
func sendInRandomOrder(h *fixture, replicas []*license.Service, reports []license.HeartbeatReport, concurrently func() error) []license.HeartbeatResult {
	h.t.Helper()
	unlock := h.holdLocks(func(tx *sqlx.Tx) {
		tx.MustExec(`SELECT FROM license_machines WHERE machine_id = $1 FOR UPDATE`, h.machine)
	})
	results := make([]license.HeartbeatResult, len(reports))
	var group sync.WaitGroup
	waiting := 0
	if concurrently != nil {
		group.Go(func() {
			if err := concurrently(); err != nil {
				h.t.Error(err)
			}
		})
		waiting++
	}
	order := append([]int{len(reports) - 1}, rand.Perm(len(reports)-1)...)
	for _, i := range order {
		group.Go(func() {
			var err error
			if results[i], err = replicas[i%3].Heartbeat(h.t.Context(), reports[i]); err != nil {
				h.t.Error(err)
			}
		})
		waiting++
		h.awaitBlocked(waiting)
	}
	unlock()
	group.Wait()
	return results
}

func TestRace09_HeartbeatAgainstReaperAtLeaseEnd(t *testing.T) {
	t.Run("a heartbeat that is about to commit", func(t *testing.T) {
		h := newFixture(t, 5)
		session := h.start()
		h.age(session, 7*time.Hour)
		commit := h.holdLocks(func(tx *sqlx.Tx) {
			tx.MustExec(`UPDATE license_slots SET heartbeat_at = now(), lease_until = now() + interval '5 minutes' WHERE session_id = $1`, session)
		})
		if released := h.mustReclaim().Released; released != 0 {
			t.Errorf("%d released under a heartbeat", released)
		}
		commit()
		if released := h.mustReclaim().Released; released != 0 || h.state(session) != "running" {
			t.Errorf("%d released after a heartbeat; %s", released, h.state(session))
		}
	})
	t.Run("a heartbeat halfway", func(t *testing.T) {
		h := newFixture(t, 2)
		a, b := h.start(), h.start()
		h.mustHeartbeat(h.heartbeat(a, b))
		h.age(a, 5*time.Minute)
		h.age(b, 5*time.Minute)
		unlock := h.lockSlot(b)
		beaten := h.heartbeatAsync(h.heartbeat(a, b))
		h.awaitBlocked(1)
		for _, s := range h.replicas() {
			if _, err := s.Reap(t.Context()); err != nil {
				t.Error(err)
			}
		}
		unlock()
		assertResult(t, <-beaten, license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
		if h.state(a) != "running" || h.state(b) != "running" || h.inUse() != 2 {
			t.Errorf("%s, %s, %d counted", h.state(a), h.state(b), h.inUse())
		}
	})
	t.Run("many times", func(t *testing.T) {
		h := newFixture(t, 2)
		replicas := h.replicas()
		a, b := h.start(), h.start()
		for range 20 {
			h.age(a, 7*time.Hour)
			h.age(b, 7*time.Hour)
			var group sync.WaitGroup
			for i := range 2 {
				group.Go(func() {
					if _, err := replicas[i].Reap(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			group.Go(func() {
				assertResult(t, h.mustHeartbeat(h.heartbeat(a, b)), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
			})
			group.Wait()
			// The heartbeat restores what the reaper released before it. A session that was
			// released after the refresh is restored by the next heartbeat.
			assertResult(t, h.mustHeartbeat(h.heartbeat(a, b)), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
			if h.inUse() != 2 {
				t.Fatalf("%d counted, want 2", h.inUse())
			}
		}
	})
}

func TestRace10_TwoReapersAndReclaim(t *testing.T) {
	h := newFixture(t, -1)
	h.fillSlots(1300) // three batches
	session := h.start()
	h.exec(`UPDATE license_slots SET lease_until = now() WHERE session_id <> $1`, session)
	var group sync.WaitGroup
	var mu sync.Mutex
	total := 0
	add := func(n int, err error) {
		mu.Lock()
		defer mu.Unlock()
		total += n
		if err != nil {
			t.Error(err)
		}
	}
	replicas := h.replicas()
	unlock := h.lockFeed() // each holds a batch before any is through
	for _, s := range replicas[:2] {
		group.Go(func() { add(s.Reap(t.Context())) })
	}
	group.Go(func() {
		result, err := replicas[2].Reclaim(t.Context(), h.org)
		add(result.Released, err)
	})
	h.awaitBlocked(3)
	unlock()
	group.Wait()
	add(h.Reap(t.Context())) // what the last one to look found locked
	if total != 1300 || h.inUse() != 1 || h.state(session) != "running" {
		t.Errorf("%d ended, %d counted, the live one is %s", total, h.inUse(), h.state(session))
	}
	if once := query[int](h, `SELECT count(*) FROM feed WHERE ends = 1`); once != 1300 {
		t.Errorf("%d sessions ended once", once)
	}
}
