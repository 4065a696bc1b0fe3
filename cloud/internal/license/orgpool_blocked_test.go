package license_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// namedCall is a call that may wait for a lock.
type namedCall struct {
	name string
	hold func() (release func())
	wait func(ctx context.Context) error
}

// allCalls returns the calls that use a connection of s each.
func (h *fixture) allCalls(s *license.Service) []namedCall {
	running, listed, reserved := h.start(), h.start(), h.request(h.authorize())
	holds, omits := h.heartbeat(running, listed), h.heartbeat(listed)
	table := func(name string) func() func() {
		return func() func() {
			return h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`LOCK TABLE ` + name + ` IN ACCESS EXCLUSIVE MODE`) })
		}
	}
	return []namedCall{
		{"authorize by spec", h.lockCounter, func(ctx context.Context) error {
			_, err := s.Authorize(ctx, h.specRequest(h.org))
			return err
		}},
		{"authorize again", func() func() { return h.lockSlot(reserved.SessionID) }, func(ctx context.Context) error {
			_, err := s.Authorize(ctx, reserved)
			return err
		}},
		{"start", h.lockCounter, func(ctx context.Context) error {
			_, err := s.Start(ctx, h.startReport(id()))
			return err
		}},
		{"heartbeat", func() func() { return h.lockSlot(listed) }, func(ctx context.Context) error {
			_, err := s.Heartbeat(ctx, holds)
			return err
		}},
		{"heartbeat that omits", func() func() { return h.lockSlot(running) }, func(ctx context.Context) error {
			_, err := s.Heartbeat(ctx, omits)
			return err
		}},
		{"sessions", table("license_superseded_boots"), func(ctx context.Context) error {
			_, err := s.Sessions(ctx, h.org)
			return err
		}},
		{"events", table("license_events"), func(ctx context.Context) error {
			_, err := s.Events(ctx, h.org, license.EventFilter{}, page.Request{Page: 1, Limit: 10, SortBy: "at"})
			return err
		}},
		{"timeline", table("license_events"), func(ctx context.Context) error {
			var slot uuid.UUID
			if err := h.db.GetContext(ctx, &slot, `SELECT id FROM license_slots WHERE session_id = $1`, listed); err != nil {
				return err
			}
			_, err := s.Timeline(ctx, h.org, slot)
			return err
		}},
	}
}

// specRequest returns a request for a slot and a new profile.
func (h *fixture) specRequest(org uuid.UUID) license.Request {
	req := h.request(id())
	req.OrgID, req.ProfileID = org, nil
	req.NewProfile = func(context.Context, *sqlx.Tx) (uuid.UUID, error) { return id(), nil }
	return req
}

// newOtherOrganization creates another organization in the fixture's database.
func (h *fixture) newOtherOrganization() uuid.UUID {
	h.t.Helper()
	org := id()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', $2, now())`, org, org.String())
	h.exec(`INSERT INTO license_org (organization_id) VALUES ($1)`, org)
	return org
}

func TestOrgPool_BlockedOrganizationLeavesOthersConnections(t *testing.T) {
	const callers, connections, turns = 24, 6, 4
	h := newFixture(t, -1)
	other := h.newOtherOrganization()
	s := h.replicaWithBatchDB(dbtest.Open(t, h.dsn, pg.Options{MaxOpen: connections, Lock: -1}), dbtest.Open(t, h.dsn, pg.Options{}))
	for _, way := range h.allCalls(s) {
		release := way.hold()
		ctx, leave := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range callers {
			group.Go(func() { _ = way.wait(ctx) })
		}
		eventually(t, func() bool { return s.PoolCalls(h.org) == callers })
		h.awaitBlocked(turns)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if grant, err := s.Authorize(soon, h.specRequest(other)); err != nil || !grant.Allowed {
			t.Errorf("beside %s: authorize by spec: %+v, %v", way.name, grant, err)
		}
		report := h.startReport(id())
		report.OrgID = other
		if _, err := s.Start(soon, report); err != nil {
			t.Errorf("beside %s: start: %v", way.name, err)
		}
		cancel()
		leave()
		release()
		group.Wait()
	}
}

func TestBatchDB_NeedsNoOtherConnection(t *testing.T) {
	h := newFixture(t, 2)
	others := dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 2})
	s := h.replicaWithBatchDB(others, dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 2}))
	running, reserved := h.start(), h.request(id())
	for range 2 {
		conn, err := others.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	done := async(func() error {
		grant, err := s.Authorize(t.Context(), reserved)
		if err != nil || !grant.Allowed {
			return fmt.Errorf("authorize: %+v, %w", grant, err)
		}
		for _, session := range []uuid.UUID{reserved.SessionID, running, id()} {
			if _, err := s.End(t.Context(), h.endReport(session)); err != nil {
				return fmt.Errorf("end: %w", err)
			}
		}
		return nil
	})
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call waits for a connection")
	}
}
