package license_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// secondWorker is a worker that starts on another worker's machine, with its own data
// directory.
type secondWorker struct {
	*duplicateWorkers
	first []uuid.UUID // what the other one runs
}

// newSecondWorker lets the first worker run and report as many sessions as the limit
// allows. The arguments are the boot ids.
func newSecondWorker(t *testing.T, limit int, first, second uuid.UUID) *secondWorker {
	t.Helper()
	w := &secondWorker{duplicateWorkers: &duplicateWorkers{fixture: newFixture(t, limit), boots: [2]uuid.UUID{first, second}}}
	for range 2 {
		w.first = append(w.first, w.launch(0))
	}
	w.mustHeartbeat(w.heartbeatOf(0, w.first...))
	return w
}

// firstHeartbeat returns the second worker's heartbeat, with the boots that it knows
// to have ended.
func (w *secondWorker) firstHeartbeat(gone ...uuid.UUID) license.HeartbeatReport {
	report := w.heartbeatOf(1)
	report.Predecessors = license.Predecessors{Known: true, Boots: gone}
	return report
}

func (w *secondWorker) assertFlagged(boots ...uuid.UUID) {
	w.t.Helper()
	found := w.duplicates()
	if len(boots) == 0 {
		if len(found) != 0 {
			w.t.Errorf("flagged: %+v", found)
		}
		return
	}
	if len(found) != 1 || found[0].MachineID != w.machine || cmp.Diff(boots, []uuid.UUID(found[0].BootIDs)) != "" {
		w.t.Errorf("flagged: %+v, want %v", found, boots)
	}
}

// assertFull fails unless the sessions of the first worker count and neither worker
// gets a slot above the limit.
func (w *secondWorker) assertFull() {
	w.t.Helper()
	if w.inUse() != len(w.first) {
		w.t.Errorf("%d counted, want %d", w.inUse(), len(w.first))
	}
	for _, boot := range w.boots {
		w.boot = boot
		if grant, err := w.Authorize(w.t.Context(), w.request(id())); err != nil || grant.Allowed {
			w.t.Errorf("above the limit: %+v, %v", grant, err)
		}
	}
}

func TestHeartbeat_FlagsOtherLiveWorkerOfMachine(t *testing.T) {
	for name, boots := range map[string][2]uuid.UUID{"that is older": {id(), id()}, "of unknown age": {uuid.New(), uuid.New()}} {
		t.Run(name, func(t *testing.T) {
			w := newSecondWorker(t, 2, boots[0], boots[1])
			assertResult(t, w.mustHeartbeat(w.firstHeartbeat()), license.HeartbeatResult{Applied: true})
			w.assertFlagged(w.boots[1], w.boots[0])
			w.assertFull()
			for range 3 { // from now on each speaks for its own
				assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.first...)), license.HeartbeatResult{Applied: true, Accepted: w.first})
				assertResult(t, w.mustHeartbeat(w.heartbeatOf(1)), license.HeartbeatResult{Applied: true})
			}
			w.assertFull()
			if diff := cmp.Diff([]license.EventKind{license.MachineDuplicated}, w.kinds()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeartbeat_FlagsNewerLiveWorkerOfMachine(t *testing.T) {
	second, first := id(), id()
	w := newSecondWorker(t, 2, first, second)
	assertResult(t, w.mustHeartbeat(w.firstHeartbeat()), license.HeartbeatResult{Applied: true})
	w.assertFlagged(first, second)
	w.assertFull()
}

func TestStart_FlagsOtherLiveWorkerOfMachine(t *testing.T) {
	w := newSecondWorker(t, 3, id(), id())
	w.boot = w.boots[1]
	session := w.authorize()
	report := w.startReport(session)
	w.seqs[1]++
	report.Seq, report.Predecessors = w.seqs[1], license.Predecessors{Known: true}
	w.mustStart(report)
	w.assertFlagged(w.boots[1], w.boots[0])
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(1, session)), license.HeartbeatResult{Applied: true, Accepted: ids(session)})
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.first...)), license.HeartbeatResult{Applied: true, Accepted: w.first})
	if w.inUse() != 3 {
		t.Errorf("%d counted", w.inUse())
	}
	if _, err := w.Start(t.Context(), report); err != nil { // the same report again
		t.Error(err)
	}
}

func TestHeartbeat_AfterRestartReleasesPredecessorsSessions(t *testing.T) {
	w := newSecondWorker(t, 2, id(), id())
	assertResult(t, w.mustHeartbeat(w.firstHeartbeat(id(), w.boots[0])), license.HeartbeatResult{Applied: true, Released: w.first})
	w.assertFlagged()
	w.launch(1)
	w.launch(1)
}

// A worker that lost its data directory does not know whether the previous boot has
// ended. That boot is considered alive for as long as its heartbeat may still arrive.
func TestHeartbeat_OfNewWorkerReleasesSessionsOfSilentBoot(t *testing.T) {
	for name, report := range map[string]func(w *secondWorker) license.HeartbeatReport{
		"known again": func(w *secondWorker) license.HeartbeatReport { return w.firstHeartbeat() },
		"not known":   func(w *secondWorker) license.HeartbeatReport { return w.heartbeatOf(1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSecondWorker(t, 2, id(), id())
			w.mustHeartbeat(w.firstHeartbeat())
			w.advance("59s")
			assertResult(t, w.mustHeartbeat(report(w)), license.HeartbeatResult{Applied: true})
			w.advance("2s")
			assertResult(t, w.mustHeartbeat(report(w)), license.HeartbeatResult{Applied: true, Released: w.first})
			w.assertFlagged()
			w.launch(1)
			w.launch(1)
		})
	}
}

func TestHeartbeat_OfNewWorkerOnSilentMachineReleasesAtOnce(t *testing.T) {
	w := newSecondWorker(t, 2, id(), id())
	w.exec(`UPDATE license_machines SET heartbeat_at = heartbeat_at - interval '61 seconds'`)
	assertResult(t, w.mustHeartbeat(w.firstHeartbeat()), license.HeartbeatResult{Applied: true, Released: w.first})
	w.assertFlagged()
}

func TestHeartbeat_OfConcurrentNewWorkersKeepsRunningSessions(t *testing.T) {
	w := newSecondWorker(t, 2, id(), id())
	errs := make(chan error, 4)
	for i := range cap(errs) {
		boot := id()
		go func() {
			_, err := w.Heartbeat(t.Context(), license.HeartbeatReport{
				OrgID: w.org, MachineID: w.machine, BootID: boot, Seq: 1, Predecessors: license.Predecessors{Known: true},
			})
			if err != nil {
				err = fmt.Errorf("newcomer %d: %w", i, err)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	assertResult(t, w.mustHeartbeat(w.heartbeatOf(0, w.first...)), license.HeartbeatResult{Applied: true, Accepted: w.first})
	if w.inUse() != 2 {
		t.Errorf("%d counted", w.inUse())
	}
}
