package license_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
)

func TestRace11_TwoWorkersOneMachineID(t *testing.T) {
	t.Run("one looks like the other's restart", func(t *testing.T) {
		h := newFixture(t, -1)
		replicas := h.replicas()
		boots, mine := [2]uuid.UUID{id(), id()}, [2][]uuid.UUID{{id(), id(), id()}, {id(), id(), id()}}
		var group sync.WaitGroup
		for i, s := range replicas[:2] {
			group.Go(func() {
				for seq := int64(1); seq <= 15; seq++ {
					report := h.startReport(mine[i][seq%3])
					report.BootID, report.Seq = boots[i], seq
					s.Start(t.Context(), report) // a conflict once the other has taken over
					beat := license.HeartbeatReport{OrgID: h.org, MachineID: h.machine, BootID: boots[i], Seq: seq, Sessions: mine[i]}
					if _, err := s.Heartbeat(t.Context(), beat); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		winner := query[uuid.UUID](h, `SELECT boot_id FROM license_machines`)
		if winner != boots[1] { // the newer one; the older has not proved to be alive
			t.Errorf("the machine belongs to the first boot")
		}
		result := h.mustHeartbeat(license.HeartbeatReport{OrgID: h.org, MachineID: h.machine, BootID: winner, Seq: 100, Sessions: mine[1]})
		live := query[int](h, `SELECT count(*) FROM license_slots WHERE released_at IS NULL AND boot_id = $1`, winner)
		if len(result.Accepted)+len(result.Unknown) != 3 || h.inUse() != len(result.Accepted) || live != len(result.Accepted) {
			t.Errorf("got %+v; %d counted, %d of that boot", result, h.inUse(), live)
		}
	})
	t.Run("both are known to be alive", func(t *testing.T) {
		w := newProvenDuplicates(t)
		w.setLimit(-1)
		replicas := w.replicas()
		live := [2]map[uuid.UUID]bool{{w.sessions[0]: true}, {w.sessions[1]: true}}
		var group sync.WaitGroup
		for i := range 2 {
			group.Go(func() {
				for n := range 15 {
					w.reportBoth(replicas[i], i, live[i], n%3 == 2)
				}
			})
		}
		group.Wait()
		for i := range 2 {
			var held []uuid.UUID
			if err := w.db.Select(&held, `SELECT session_id FROM license_slots WHERE released_at IS NULL AND boot_id = $1`, w.boots[i]); err != nil {
				t.Fatal(err)
			}
			got := map[uuid.UUID]bool{}
			for _, session := range held {
				got[session] = true
			}
			if diff := cmp.Diff(live[i], got); diff != "" {
				t.Errorf("of worker %d: %s", i, diff)
			}
		}
		if w.inUse() != 22 {
			t.Errorf("%d counted, want 22", w.inUse())
		}
	})
}

// reportBoth lets one of the workers launch a session, perhaps end another one, and
// report. No session may be released.
func (w *duplicateWorkers) reportBoth(s *license.Service, i int, live map[uuid.UUID]bool, end bool) {
	w.t.Helper()
	req := w.request(id())
	req.BootID = w.boots[i]
	if grant, err := s.Authorize(w.t.Context(), req); err != nil || !grant.Allowed {
		w.t.Errorf("authorize: %+v, %v", grant, err)
	}
	report := w.startReport(req.SessionID)
	w.seqs[i]++
	report.BootID, report.Seq = w.boots[i], w.seqs[i]
	if _, err := s.Start(w.t.Context(), report); err != nil {
		w.t.Errorf("start: %v", err)
	}
	live[req.SessionID] = true
	for session := range live {
		if !end || session == req.SessionID {
			continue
		}
		end = false
		delete(live, session)
		if _, err := s.End(w.t.Context(), w.endReport(session)); err != nil {
			w.t.Errorf("end: %v", err)
		}
	}
	var sessions []uuid.UUID
	for session := range live {
		sessions = append(sessions, session)
	}
	result, err := s.Heartbeat(w.t.Context(), w.heartbeatOf(i, sessions...))
	if err != nil || !result.Applied || len(result.Accepted) != len(sessions) || len(result.Released)+len(result.Unknown) != 0 {
		w.t.Errorf("heartbeat: %+v, %v", result, err)
	}
}
