package license_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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

// remove deletes the organization, without a commit.
func (h *fixture) remove(tx *sqlx.Tx) error {
	_, err := tx.Exec(`SELECT FROM organizations WHERE id = $1 FOR NO KEY UPDATE`, h.org)
	if err == nil {
		err = h.EndOrganization(context.Background(), tx, h.org)
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM organizations WHERE id = $1`, h.org)
	}
	return err
}

// calls returns all calls that workers and replicas make for an organization.
func (h *fixture) calls(s *license.Service, running, reserved uuid.UUID) map[string]func() error {
	authorize := func(change func(*license.Request)) func() error {
		return func() error { return (<-h.authorizeAsync(h.t.Context(), s, change)).err }
	}
	start := func(session uuid.UUID) func() error {
		report := h.startReport(session)
		return func() error { _, err := s.Start(h.t.Context(), report); return err }
	}
	beat := func(report license.HeartbeatReport) func() error {
		return func() error { _, err := s.Heartbeat(h.t.Context(), report); return err }
	}
	end := func(session uuid.UUID) func() error {
		return func() error { _, err := s.End(h.t.Context(), h.endReport(session)); return err }
	}
	newMachine := h.heartbeat(running)
	newMachine.MachineID, newMachine.BootID = "worker-2", id()
	newProfile := newProfileFunc(h, nil)
	return map[string]func() error{
		"authorize":                  authorize(nil),
		"authorize again":            authorize(func(req *license.Request) { req.SessionID = reserved }),
		"authorize a spec":           authorize(func(req *license.Request) { req.ProfileID, req.NewProfile = nil, newProfile }),
		"start":                      start(reserved),
		"start without a slot":       start(id()),
		"heartbeat":                  beat(h.heartbeat(running)),
		"heartbeat of a new machine": beat(newMachine),
		"end":                        end(running),
		"end of an unknown session":  end(id()),
		"reclaim":                    func() error { _, err := s.Reclaim(h.t.Context(), h.org); return err },
	}
}

// copies is how often callAllConcurrently makes each call.
const copies = 4

// callAllConcurrently makes each call several times at each replica. The returned
// function waits for the calls and returns how many failed, which they may do only
// because the organization was removed.
func (h *fixture) callAllConcurrently(replicas []*license.Service, running, reserved uuid.UUID) (wait func() int) {
	h.t.Helper()
	var failed atomic.Int64
	var group sync.WaitGroup
	for _, s := range replicas {
		for name, call := range h.calls(s, running, reserved) {
			for range copies {
				group.Go(func() {
					err := call()
					if err == nil || fault.Is(err, fault.Conflict) { // it came before, perhaps after the end of its session
						return
					}
					failed.Add(1)
					if !fault.Is(err, fault.NotFound) {
						h.t.Errorf("%s: got %v, want NotFound", name, err)
					}
				})
			}
		}
	}
	return func() int { group.Wait(); return int(failed.Load()) }
}

func TestRace14_OrganizationRemovedWithLiveSlots(t *testing.T) {
	for name, race := range map[string]func(h *fixture, replicas []*license.Service, running, reserved uuid.UUID){
		"calls that wait for the deletion": func(h *fixture, replicas []*license.Service, running, reserved uuid.UUID) {
			commit := h.holdLocks(func(tx *sqlx.Tx) {
				if err := h.remove(tx); err != nil {
					t.Fatal(err)
				}
			})
			wait := h.callAllConcurrently(replicas, running, reserved)
			h.awaitBlocked(9)
			commit()
			if wait() == 0 {
				t.Error("no call failed")
			}
		},
		"a deletion that waits for calls": func(h *fixture, replicas []*license.Service, running, reserved uuid.UUID) {
			unlock := h.lockFeed() // starts and ends are about to commit
			wait := h.callAllConcurrently(replicas, running, reserved)
			h.awaitBlocked(3)
			removed := async(func() error { return pg.InTx(t.Context(), h.db, h.remove) })
			h.awaitBlocked(4)
			unlock()
			if err := <-removed; err != nil {
				t.Error(err)
			}
			wait()
		},
		"in any order": func(h *fixture, replicas []*license.Service, running, reserved uuid.UUID) {
			wait := h.callAllConcurrently(replicas, running, reserved)
			if err := pg.InTx(t.Context(), h.db, h.remove); err != nil {
				t.Error(err)
			}
			wait()
		},
		"after it": func(h *fixture, replicas []*license.Service, running, reserved uuid.UUID) {
			h.inTx(h.remove)
			want := len(replicas) * len(h.calls(replicas[0], running, reserved)) * copies
			if failed := h.callAllConcurrently(replicas, running, reserved)(); failed != want {
				t.Errorf("%d calls failed, want all %d", failed, want)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 50)
			replicas := h.replicas()
			home := h.org
			h.mustHeartbeat(h.heartbeat(h.start(), h.start()))
			h.authorize()
			kept := h.rows(home)

			h.newOrganization(1000)
			h.boot = id()
			running, reserved := h.start(), h.authorize()
			for range 20 {
				h.start()
			}
			race(h, replicas, running, reserved)
			h.assertRemoved()
			h.org = home
			if diff := cmp.Diff(kept, h.rows(home)); diff != "" {
				t.Errorf("the other organization: %s", diff)
			}
			h.authorize()
			for _, s := range replicas {
				if n, err := s.Audit(t.Context()); n != 0 || err != nil {
					t.Errorf("%d counters drifted, %v", n, err)
				}
			}
		})
	}
}

// rows returns the number of rows of each license table that belong to an
// organization, and of what refers to it.
func (h *fixture) rows(org uuid.UUID) map[string]int {
	h.t.Helper()
	counts := map[string]int{"in_use": query[int](h, `SELECT COALESCE(sum(in_use), 0) FROM license_org WHERE organization_id = $1`, org)}
	for _, table := range []string{"license_org", "license_machines", "license_slots", "license_events", "license_superseded_boots"} {
		counts[table] = query[int](h, `SELECT count(*) FROM `+table+` WHERE organization_id = $1`, org)
	}
	return counts
}

// assertRemoved fails if rows of the fixture's organization remain.
func (h *fixture) assertRemoved() {
	h.t.Helper()
	for table, n := range h.rows(h.org) {
		if n != 0 {
			h.t.Errorf("%d rows remain in %s", n, table)
		}
	}
}

func TestRace14_RefusalsOfRemovedOrganizationDoNotBlockOthers(t *testing.T) {
	h := newFixture(t, 0)
	var log bytes.Buffer
	s, err := license.New(t.Context(), dbtest.Open(t, h.dsn, pg.Options{}), feedObserver{},
		slog.New(slog.NewTextHandler(&log, nil)), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home := h.org
	mine := <-h.authorizeAsync(t.Context(), s, nil)
	h.newOrganization(0)
	theirs := <-h.authorizeAsync(t.Context(), s, nil)
	if mine.err != nil || theirs.err != nil || mine.grant.Allowed || theirs.grant.Allowed {
		t.Fatalf("got %+v and %+v", mine, theirs)
	}
	commit := h.holdLocks(func(tx *sqlx.Tx) { err = h.remove(tx) })
	h.awaitBlocked(1) // the write of both refusals waits for the deletion
	commit()
	h.org = home
	eventually(t, func() bool { return len(h.events(license.EventFilter{SessionID: &mine.session})) == 1 })
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "dropped") || strings.Count(log.String(), "failed to write refusal") > 1 {
		t.Errorf("the log says %s", log.String())
	}
}

// The reaper lists organizations first; one of them may be removed before its turn.
func TestRace14_ReaperSkipsRemovedOrganization(t *testing.T) {
	h := newFixture(t, 5)
	h.age(h.authorize(), 3*time.Minute)
	home := h.org
	h.newOrganization(5)
	gone := h.org
	h.inTx(h.remove)
	h.org = home
	if n, err := h.ReapOrganizations(t.Context(), []uuid.UUID{gone, home}); n != 1 || err != nil {
		t.Errorf("%d slots, %v", n, err)
	}
}

// A slot that is inserted during the removal of its organization, and that is never
// ended, is deleted too.
func TestRace14_RemovesSlotInsertedConcurrently(t *testing.T) {
	h := newFixture(t, 5)
	home := h.org
	h.newOrganization(5)
	unlock := h.holdLocks(func(tx *sqlx.Tx) {
		tx.MustExec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, h.org)
		tx.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
			VALUES ($1, $2, $1, 'worker-1', $1, 'reserved', now(), now())`, id(), h.org)
	})
	removed := async(func() error { return pg.InTx(t.Context(), h.db, h.remove) })
	h.awaitBlocked(1)
	unlock()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	h.assertRemoved()
	h.org = home
}
