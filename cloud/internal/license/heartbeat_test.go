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

// answers compares without regard to order or to nil against empty.
func answers(t *testing.T, got, want license.HeartbeatResult) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(license.HeartbeatResult{}, "Next"),
		cmpopts.SortSlices(func(a, b uuid.UUID) bool { return a.String() < b.String() })); diff != "" {
		t.Error(diff)
	}
}

func ids(all ...uuid.UUID) []uuid.UUID { return all }

func TestAHeartbeatHoldsWhatItListsForFiveMinutes(t *testing.T) {
	h := open(t, 5)
	a, b := h.start(), h.start()
	answers(t, h.mustBeat(h.beat(a, b, a)), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
	if h.lease(a) != 5 || h.lease(b) != 5 {
		t.Errorf("held for %d and %d minutes", h.lease(a), h.lease(b))
	}
}

func TestAHeartbeatReleasesWhatItOmits(t *testing.T) {
	h := open(t, 5)
	a, b := h.start(), h.start()
	answers(t, h.mustBeat(h.beat(a)), license.HeartbeatResult{Applied: true, Accepted: ids(a), Released: ids(b)})
	if got := h.heard(b); h.state(b) != "released omitted" || h.inUse() != 1 || *got.Status != "exited" || *got.Reason != "unknown" {
		t.Errorf("%s, %d counted, heard %+v", h.state(b), h.inUse(), got)
	}
	answers(t, h.mustBeat(h.beat(a)), license.HeartbeatResult{Applied: true, Accepted: ids(a)})
}

func TestAHeartbeatDoesNotTouchOtherMachines(t *testing.T) {
	h := open(t, 5)
	session := h.start()
	other := h.beat(session)
	other.MachineID, other.BootID = "worker-2", id()
	answers(t, h.mustBeat(other), license.HeartbeatResult{Applied: true, Unknown: ids(session)})
	if h.state(session) != "running" || h.lease(session) != 360 {
		t.Errorf("%s, held for %d minutes", h.state(session), h.lease(session))
	}
}

// The worker took its heartbeat, then started a session; the start arrived
// first.
func TestAHeartbeatSparesWhatStartedAfterItWasTaken(t *testing.T) {
	h := open(t, 5)
	old := h.start()
	taken := h.beat(old)
	fresh := h.start()
	answers(t, h.mustBeat(taken), license.HeartbeatResult{Applied: true, Accepted: ids(old)})
	if h.state(fresh) != "running" || h.inUse() != 2 {
		t.Errorf("%s, %d counted", h.state(fresh), h.inUse())
	}
	answers(t, h.mustBeat(h.beat(old)), license.HeartbeatResult{Applied: true, Accepted: ids(old), Released: ids(fresh)})
}

// The start was stamped before the heartbeat, which lists it and came first.
func TestAHeartbeatThatOvertakesAStartKeepsTheReservation(t *testing.T) {
	h := open(t, 5)
	session := h.authorize()
	start := h.report(session)
	answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.state(session) != "reserved" || h.lease(session) != 5 {
		t.Errorf("%s, held for %d minutes", h.state(session), h.lease(session))
	}
	h.mustStart(start)
	answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
}

func TestAHeartbeatSparesReservationsOfItsBoot(t *testing.T) {
	h := open(t, 5)
	session := h.authorize()
	answers(t, h.mustBeat(h.beat()), license.HeartbeatResult{Applied: true})
	if h.state(session) != "reserved" {
		t.Errorf("the reservation is %s", h.state(session))
	}
}

func TestTheFirstHeartbeatOfANewBootReleasesAllOfTheOldOne(t *testing.T) {
	h := open(t, 5)
	session, reservation := h.start(), h.authorize()
	h.boot = id()
	h.seq.Store(0) // a new boot counts from the start
	answers(t, h.mustBeat(h.beat()), license.HeartbeatResult{Applied: true, Released: ids(session, reservation)})
	if h.inUse() != 0 || h.heard(reservation).Ran {
		t.Errorf("%d counted; heard %+v", h.inUse(), h.heard(reservation))
	}
}

func TestHeartbeatsOutOfOrderAreIgnored(t *testing.T) {
	h := open(t, 5)
	a := h.start()
	early := h.beat(a)
	b := h.start()
	late := h.beat(a, b)
	h.mustBeat(late)
	answers(t, h.mustBeat(early), license.HeartbeatResult{})
	answers(t, h.mustBeat(late), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)}) // sent twice
	h.mustEnd(a)
	answers(t, h.mustBeat(early), license.HeartbeatResult{})
	if h.state(a) != "released ended" || h.state(b) != "running" || h.inUse() != 1 {
		t.Errorf("%s, %s, %d counted", h.state(a), h.state(b), h.inUse())
	}
}

func TestAListedSessionThatLapsedIsTakenInAgainEvenAboveTheLimit(t *testing.T) {
	h := open(t, 1)
	session := h.start()
	h.age(session, 7*time.Hour)
	other := h.start() // in its place, on another machine
	h.exec(`UPDATE license_slots SET machine_id = 'worker-2' WHERE session_id = $1`, other)
	if h.state(session) != "released lapsed" {
		t.Fatalf("the session is %s", h.state(session))
	}
	answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if got := h.heard(session); h.state(session) != "running" || h.inUse() != 2 || h.lease(session) != 5 || !got.Running || got.Starts != 2 {
		t.Errorf("%s, %d counted, held for %d minutes, heard %+v", h.state(session), h.inUse(), h.lease(session), got)
	}
}

// A heartbeat that the worker repeats while its first copy is under way.
func TestCopiesOfAHeartbeatAtOnceTakeALapsedSessionInOnce(t *testing.T) {
	h := open(t, 5)
	session := h.start()
	for range 10 {
		h.age(session, 7*time.Hour)
		h.mustReclaim()
		report := h.beat(session)
		commit := h.hold(func(tx *sqlx.Tx) { tx.MustExec(`SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`, session) })
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				answers(t, h.mustBeat(report), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
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

func TestAListedReservationThatLapsedWaitsForItsStartAgain(t *testing.T) {
	h := open(t, 1)
	session := h.authorize()
	start := h.report(session)
	h.age(session, time.Hour)
	h.mustReclaim()
	answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.state(session) != "reserved" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(session), h.inUse())
	}
	h.mustStart(start)
}

func TestAListedSessionThatIsLiveAndStaleIsNotCountedTwice(t *testing.T) {
	h := open(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour) // lapsed, and not reclaimed yet
	answers(t, h.mustBeat(h.beat(session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	if h.inUse() != 1 {
		t.Errorf("%d counted, want 1", h.inUse())
	}
}

func TestListedSessionsThatEndedOrNeverWereAreUnknown(t *testing.T) {
	h := open(t, 5)
	ended, never, live := h.start(), id(), h.start()
	h.mustEnd(ended)
	answers(t, h.mustBeat(h.beat(ended, never, live)), license.HeartbeatResult{
		Applied: true, Accepted: ids(live), Unknown: ids(ended, never),
	})
	if h.state(ended) != "released ended" || h.inUse() != 1 {
		t.Errorf("%s, %d counted", h.state(ended), h.inUse())
	}
}
