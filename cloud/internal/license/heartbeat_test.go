package license_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// assertResult compares results, ignoring order and the difference between nil and
// empty.
func assertResult(t *testing.T, got, want license.HeartbeatResult) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(license.HeartbeatResult{}, "Next"),
		cmpopts.SortSlices(func(a, b uuid.UUID) bool { return a.String() < b.String() })); diff != "" {
		t.Error(diff)
	}
}

func ids(all ...uuid.UUID) []uuid.UUID { return all }

func TestHeartbeat_ExtendsLeaseOfListedSessions(t *testing.T) {
	h := newFixture(t, 5)
	a, b := h.start(), h.start()
	assertResult(t, h.mustHeartbeat(h.heartbeat(a, b, a)), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
	if h.leaseSeconds(a) != 5 || h.leaseSeconds(b) != 5 {
		t.Errorf("held for %d and %d minutes", h.leaseSeconds(a), h.leaseSeconds(b))
	}
}

func TestHeartbeat_ReleasesOmittedSessions(t *testing.T) {
	h := newFixture(t, 5)
	a, b := h.start(), h.start()
	assertResult(t, h.mustHeartbeat(h.heartbeat(a)), license.HeartbeatResult{Applied: true, Accepted: ids(a), Released: ids(b)})
	if got := h.feedEntry(b); h.state(b) != "released omitted" || h.inUse() != 1 || *got.Status != "exited" || *got.Reason != "unknown" {
		t.Errorf("%s, %d counted, heard %+v", h.state(b), h.inUse(), got)
	}
	assertResult(t, h.mustHeartbeat(h.heartbeat(a)), license.HeartbeatResult{Applied: true, Accepted: ids(a)})
}

func TestHeartbeat_IgnoresOtherMachines(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	other := h.heartbeat(session)
	other.MachineID, other.BootID = "worker-2", id()
	assertResult(t, h.mustHeartbeat(other), license.HeartbeatResult{Applied: true, Unknown: ids(session)})
	if h.state(session) != "running" || h.leaseSeconds(session) != 360 {
		t.Errorf("%s, held for %d minutes", h.state(session), h.leaseSeconds(session))
	}
}

// The worker took its heartbeat and then started a session, but the start arrived
// first.
func TestHeartbeat_KeepsSessionStartedAfterIt(t *testing.T) {
	h := newFixture(t, 5)
	old := h.start()
	report := h.heartbeat(old)
	fresh := h.start()
	assertResult(t, h.mustHeartbeat(report), license.HeartbeatResult{Applied: true, Accepted: ids(old)})
	if h.state(fresh) != "running" || h.inUse() != 2 {
		t.Errorf("%s, %d counted", h.state(fresh), h.inUse())
	}
	assertResult(t, h.mustHeartbeat(h.heartbeat(old)), license.HeartbeatResult{Applied: true, Accepted: ids(old), Released: ids(fresh)})
}

// The start was stamped before the heartbeat, which lists it and arrived first.
func TestHeartbeat_BeforeStartKeepsReservation(t *testing.T) {
	h := newFixture(t, 5)
	session := h.authorize()
	start := h.startReport(session)
	assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.state(session) != "reserved" || h.leaseSeconds(session) != 5 {
		t.Errorf("%s, held for %d minutes", h.state(session), h.leaseSeconds(session))
	}
	h.mustStart(start)
	assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
}

func TestHeartbeat_KeepsReservationsOfItsBoot(t *testing.T) {
	h := newFixture(t, 5)
	session := h.authorize()
	assertResult(t, h.mustHeartbeat(h.heartbeat()), license.HeartbeatResult{Applied: true})
	if h.state(session) != "reserved" {
		t.Errorf("the reservation is %s", h.state(session))
	}
}

func TestHeartbeat_FirstOfNewBootReleasesOldBoot(t *testing.T) {
	h := newFixture(t, 5)
	session, reservation := h.start(), h.authorize()
	h.boot = id()
	h.seq.Store(0) // a new boot counts from the start
	assertResult(t, h.mustHeartbeat(h.heartbeat()), license.HeartbeatResult{Applied: true, Released: ids(session, reservation)})
	if h.inUse() != 0 || h.feedEntry(reservation).Ran {
		t.Errorf("%d counted; heard %+v", h.inUse(), h.feedEntry(reservation))
	}
}

func TestHeartbeat_IgnoresOutOfOrder(t *testing.T) {
	h := newFixture(t, 5)
	a := h.start()
	early := h.heartbeat(a)
	b := h.start()
	late := h.heartbeat(a, b)
	h.mustHeartbeat(late)
	assertResult(t, h.mustHeartbeat(early), license.HeartbeatResult{})
	assertResult(t, h.mustHeartbeat(late), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)}) // sent twice
	h.mustEnd(a)
	assertResult(t, h.mustHeartbeat(early), license.HeartbeatResult{})
	if h.state(a) != "released ended" || h.state(b) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %s, %d counted", h.state(a), h.state(b), h.inUse())
	}
}

func TestHeartbeat_AdoptsExpiredSessionAboveLimit(t *testing.T) {
	h := newFixture(t, 1)
	session := h.start()
	h.age(session, 7*time.Hour)
	other := h.start() // in its place, on another machine
	h.exec(`UPDATE license_slots SET machine_id = 'worker-2' WHERE session_id = $1`, other)
	if h.state(session) != "released lapsed" {
		t.Fatalf("the session is %s", h.state(session))
	}
	assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if got := h.feedEntry(session); h.state(session) != "running" || h.inUse() != 2 || h.leaseSeconds(session) != 5 || !got.Running || got.Starts != 2 {
		t.Errorf("%s, %d counted, held for %d minutes, heard %+v", h.state(session), h.inUse(), h.leaseSeconds(session), got)
	}
}

// The worker repeats a heartbeat whose first copy is still in progress.
func TestHeartbeat_ConcurrentCopiesAdoptOnce(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	for range 10 {
		h.age(session, 7*time.Hour)
		h.mustReclaim()
		report := h.heartbeat(session)
		commit := h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`, session) })
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				assertResult(t, h.mustHeartbeat(report), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
			})
		}
		h.awaitBlocked(3) // one at the session, the others at the machine
		commit()
		group.Wait()
		if h.inUse() != 1 {
			t.Fatalf("%d counted, want 1", h.inUse())
		}
	}
}

func TestHeartbeat_AdoptsExpiredReservation(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	start := h.startReport(session)
	h.age(session, time.Hour)
	h.mustReclaim()
	assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.state(session) != "reserved" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
	h.mustStart(start)
}

func TestHeartbeat_DoesNotCountStaleSessionTwice(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour) // expired, but not reclaimed yet
	assertResult(t, h.mustHeartbeat(h.heartbeat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.inUse() != 1 {
		t.Errorf("%d counted, want 1", h.inUse())
	}
}

func TestHeartbeat_ReportsEndedAndUnknownSessions(t *testing.T) {
	h := newFixture(t, 5)
	ended, never, live := h.start(), id(), h.start()
	h.mustEnd(ended)
	assertResult(t, h.mustHeartbeat(h.heartbeat(ended, never, live)), license.HeartbeatResult{
		Applied: true, Accepted: ids(live), Unknown: ids(ended, never),
	})
	if h.state(ended) != "released ended" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(ended), h.inUse())
	}
}
