package license_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/page"
)

// duplicateWorkers are two workers with one machine id and one session each. The
// second worker came later, which released the first one's session.
type duplicateWorkers struct {
	*fixture
	boots    [2]uuid.UUID
	seqs     [2]int64
	sessions [2]uuid.UUID
}

func newDuplicateWorkers(t *testing.T) *duplicateWorkers {
	t.Helper()
	w := &duplicateWorkers{fixture: newFixture(t, 10), boots: [2]uuid.UUID{id(), id()}}
	for i := range w.boots {
		w.sessions[i] = w.launch(i)
		w.mustHeartbeat(w.heartbeatOf(i, w.sessions[i]))
	}
	if got := w.state(w.sessions[0]); got != "released omitted" {
		t.Fatalf("after what looks like a restart the old session is %s", got)
	}
	return w
}

func (w *duplicateWorkers) launch(i int) uuid.UUID {
	w.t.Helper()
	w.boot = w.boots[i]
	session := w.authorize()
	report := w.startReport(session)
	w.seqs[i]++
	report.Seq = w.seqs[i]
	w.mustStart(report)
	return session
}

func (w *duplicateWorkers) heartbeatOf(i int, sessions ...uuid.UUID) license.HeartbeatReport {
	w.seqs[i]++
	return license.HeartbeatReport{OrgID: w.org, MachineID: w.machine, BootID: w.boots[i], Seq: w.seqs[i], Sessions: sessions}
}

// advance makes the reports of superseded boots older.
func (w *duplicateWorkers) advance(interval string) {
	w.t.Helper()
	w.exec(`UPDATE license_superseded_boots SET since = since - $1::interval, heartbeat_at = heartbeat_at - $1::interval`, interval)
}

// newProvenDuplicates returns workers of which the first is proven alive.
func newProvenDuplicates(t *testing.T) *duplicateWorkers {
	t.Helper()
	w := newDuplicateWorkers(t)
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.sessions[0])), license.HeartbeatResult{})
	w.advance("30s")
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.sessions[0])), license.HeartbeatResult{Applied: true, Accepted: ids(w.sessions[0])})
	return w
}

func (h *fixture) duplicates() []license.DuplicateMachine {
	h.t.Helper()
	overview, err := h.Sessions(h.t.Context(), h.org)
	if err != nil {
		h.t.Fatal(err)
	}
	return overview.Duplicates
}

// kinds returns the kinds of the organization's events, earliest first.
func (h *fixture) kinds() []license.EventKind {
	h.t.Helper()
	found, err := h.Events(h.t.Context(), h.org, license.EventFilter{}, page.Request{Page: 1, Limit: 100, SortBy: "at"})
	if err != nil {
		h.t.Fatal(err)
	}
	kinds := []license.EventKind{}
	for _, e := range found.Items {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestDuplicates_RestartIsNoDuplicate(t *testing.T) {
	w := newDuplicateWorkers(t)
	w.mustHeartbeat(w.heartbeatOf(1, w.sessions[1]))
	if got := w.duplicates(); len(got) != 0 {
		t.Errorf("flagged: %+v", got)
	}
	if diff := cmp.Diff([]license.EventKind{license.OmittedSlot}, w.kinds()); diff != "" {
		t.Error(diff)
	}
}

// Delayed heartbeats of the previous boot arrive close together or repeat one another.
func TestDuplicates_DelayedHeartbeatsOfOldBootAreNoDuplicate(t *testing.T) {
	w := newDuplicateWorkers(t)
	first, second := w.heartbeatOf(0, w.sessions[0]), w.heartbeatOf(0, w.sessions[0])
	assertResult(t, w.mustHeartbeat(first), license.HeartbeatResult{})
	assertResult(t, w.mustHeartbeat(second), license.HeartbeatResult{})
	w.advance("30s")
	assertResult(t, w.mustHeartbeat(second), license.HeartbeatResult{}) // a copy
	assertResult(t, w.mustHeartbeat(first), license.HeartbeatResult{})  // a copy
	if w.state(w.sessions[0]) != "released omitted" || w.state(w.sessions[1]) != "running" || len(w.duplicates()) != 0 {
		t.Errorf("%s, %s, flagged %+v", w.state(w.sessions[0]), w.state(w.sessions[1]), w.duplicates())
	}
	w.advance("5m") // a report so much later says nothing together with the first
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.sessions[0])), license.HeartbeatResult{})
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.sessions[0])), license.HeartbeatResult{})
}

func TestDuplicates_ReplacedBootReportsAgainSoon(t *testing.T) {
	w := newDuplicateWorkers(t)
	if next := w.mustHeartbeat(w.heartbeatOf(0)).Next; next != license.HeartbeatInterval/2 {
		t.Errorf("after %s", next)
	}
}

func TestDuplicates_EachWorkerKeepsItsSessions(t *testing.T) {
	w := newProvenDuplicates(t)
	fresh := w.launch(0)
	reservation := w.authorize() // of the first worker, too
	for range 3 {
		assertResult(t, w.mustHeartbeat(w.heartbeatOf(1, w.sessions[1])), license.HeartbeatResult{Applied: true, Accepted: ids(w.sessions[1])})
		assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.sessions[0], fresh)), license.HeartbeatResult{Applied: true, Accepted: ids(w.sessions[0], fresh)})
	}
	if w.state(reservation) != "reserved" || w.inUse() != 4 {
		t.Errorf("the reservation is %s, %d counted", w.state(reservation), w.inUse())
	}
	// Each worker still speaks for its own sessions.
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, fresh)), license.HeartbeatResult{Applied: true, Accepted: ids(fresh), Released: ids(w.sessions[0])})
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(1)), license.HeartbeatResult{Applied: true, Released: ids(w.sessions[1])})
	got := w.duplicates()
	if len(got) != 1 || got[0].MachineID != w.machine || len(got[0].BootIDs) != 2 || got[0].BootIDs[0] != w.boots[1] || got[0].BootIDs[1] != w.boots[0] {
		t.Errorf("flagged: %+v", got)
	}
	want := []license.EventKind{license.OmittedSlot, license.MachineDuplicated, license.AdoptedSlot, license.OmittedSlot, license.OmittedSlot}
	if diff := cmp.Diff(want, w.kinds()); diff != "" {
		t.Error(diff)
	}
}

// A third boot, the first worker's restart, replaces the second worker's boot.
func TestDuplicates_RestartOfOneWorkerKeepsOther(t *testing.T) {
	w := newProvenDuplicates(t)
	w.boots[0], w.seqs[0] = id(), 0
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0)), license.HeartbeatResult{Applied: true})
	if w.state(w.sessions[1]) != "running" || w.state(w.sessions[0]) != "running" {
		t.Errorf("the other's session is %s, its own old one %s", w.state(w.sessions[1]), w.state(w.sessions[0]))
	}
	w.age(w.sessions[0], 6*time.Minute)
	w.mustReclaim()
	if w.state(w.sessions[0]) != "released lapsed" || w.state(w.sessions[1]) != "running" {
		t.Errorf("%s, %s", w.state(w.sessions[0]), w.state(w.sessions[1]))
	}
}

func TestDuplicates_EndWhenOneWorkerIsGone(t *testing.T) {
	for name, gone := range map[string]int{"the older boot": 0, "the newer boot": 1} {
		t.Run(name, func(t *testing.T) {
			w := newProvenDuplicates(t)
			left := 1 - gone
			if gone == 0 {
				w.advance("6m")
			} else {
				w.exec(`UPDATE license_machines SET heartbeat_at = heartbeat_at - interval '6 minutes'`)
				w.mustHeartbeat(w.heartbeatOf(left, w.sessions[left])) // takes the machine over
				w.advance("6m")
			}
			assertResult(t, w.mustHeartbeat(w.heartbeatOf(left, w.sessions[left])), license.HeartbeatResult{
				Applied: true, Accepted: ids(w.sessions[left]), Released: ids(w.sessions[gone]),
			})
			if got := w.duplicates(); len(got) != 0 {
				t.Errorf("flagged: %+v", got)
			}
			if n, err := w.DeleteSupersededBoots(t.Context()); n != 1 || err != nil {
				t.Errorf("%d boots deleted, %v", n, err)
			}
			if kinds := w.kinds(); kinds[len(kinds)-1] != license.MachineAlone {
				t.Errorf("the last event is %s", kinds[len(kinds)-1])
			}
		})
	}
}
