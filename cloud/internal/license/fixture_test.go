package license_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// fixture is one organization on its own database.
type fixture struct {
	t     *testing.T
	dsn   string
	db    *sqlx.DB
	clock *clock.Fake
	*license.Service
	org     uuid.UUID
	machine string
	boot    uuid.UUID
	profile uuid.UUID
	seq     atomic.Int64
}

// newFixture creates an organization with that limit; a negative limit is unlimited.
func newFixture(t *testing.T, limit int) *fixture {
	t.Helper()
	h := &fixture{
		t: t, dsn: dbtest.NewDSN(t), clock: clock.NewFake(time.Now()),
		machine: "worker-1", boot: id(), profile: id(),
	}
	h.db = dbtest.Open(t, h.dsn, pg.Options{})
	h.Service = h.replicaWithBatchDB(h.db, dbtest.Open(t, h.dsn, pg.Options{}))
	h.exec(`CREATE TABLE feed (session_id uuid PRIMARY KEY, running boolean NOT NULL, ran boolean NOT NULL,
		status text, reason text, name text, starts int NOT NULL DEFAULT 0, ends int NOT NULL DEFAULT 0)`)
	h.newOrganization(limit)
	t.Cleanup(h.checkInvariants)
	return h
}

// newOrganization creates an organization that the fixture uses from now on.
func (h *fixture) newOrganization(limit int) {
	h.t.Helper()
	h.org = id()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, h.org, h.org.String())
	h.setLimit(limit)
}

// replica returns another Service on the pool.
func (h *fixture) replica(db *sqlx.DB) *license.Service {
	h.t.Helper()
	return h.replicaWithBatchDB(db, nil)
}

// replicaWithBatchDB returns a replica with a separate pool for batches.
func (h *fixture) replicaWithBatchDB(db, together *sqlx.DB) *license.Service {
	h.t.Helper()
	s, err := license.New(h.t.Context(), db, feedObserver{}, slog.New(slog.DiscardHandler),
		license.Options{BatchDB: together, Clock: h.clock, ReapGrace: time.Millisecond})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	h.clock.Advance(time.Millisecond) // end the grace period
	return s
}

func (h *fixture) setLimit(limit int) {
	h.t.Helper()
	var newLimit *int
	if limit >= 0 {
		newLimit = &limit
	}
	h.inTx(func(tx *sqlx.Tx) error { return h.SetLimit(h.t.Context(), tx, h.org, newLimit) })
}

func (h *fixture) inTx(fn func(*sqlx.Tx) error) {
	h.t.Helper()
	if err := pg.InTx(h.t.Context(), h.db, fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.ExecContext(context.Background(), query, args...); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
}

func query[T any](h *fixture, query string, args ...any) T {
	h.t.Helper()
	var v T
	if err := h.db.GetContext(context.Background(), &v, query, args...); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (h *fixture) inUse() int {
	h.t.Helper()
	return query[int](h, `SELECT in_use FROM license_org WHERE organization_id = $1`, h.org)
}

// state returns the state of the session's slot, with the reason if it is released.
func (h *fixture) state(session uuid.UUID) string {
	h.t.Helper()
	return query[string](h, `SELECT concat_ws(' ', state, release_reason) FROM license_slots WHERE organization_id = $1 AND session_id = $2`, h.org, session)
}

// checkInvariants checks that the counter is the number of live rows, and that rows
// are consistent.
func (h *fixture) checkInvariants() {
	h.t.Helper()
	live := query[int](h, `SELECT count(*) FROM license_slots WHERE organization_id = $1 AND state <> 'released'`, h.org)
	if inUse := h.inUse(); inUse != live {
		h.t.Errorf("the counter is %d, but %d slots are live", inUse, live)
	}
	odd := query[int](h, `SELECT count(*) FROM license_slots WHERE NOT (
		num_nulls(released_at, release_reason, ended_at, end_status, end_reason) IN (0, 5)
		AND (state = 'released' OR num_nulls(machine_id, boot_id) = 0)
		AND (state <> 'running' OR num_nulls(profile_id, launch_id, browser_version, started_at) = 0))`)
	if odd != 0 {
		h.t.Errorf("%d slots are inconsistent", odd)
	}
	unlike := query[int](h, `SELECT count(*) FROM license_slots s LEFT JOIN feed f USING (session_id)
		WHERE s.organization_id = $1 AND (s.state = 'running') <> COALESCE(f.running, false)`, h.org)
	if unlike != 0 {
		h.t.Errorf("%d sessions differ between the feed and the license", unlike)
	}
}

// age makes the session's slot older, as if that time had passed.
func (h *fixture) age(session uuid.UUID, by time.Duration) {
	h.t.Helper()
	h.exec(`UPDATE license_slots SET reserved_at = reserved_at - $3::interval, started_at = started_at - $3::interval,
		heartbeat_at = heartbeat_at - $3::interval, lease_until = lease_until - $3::interval
		WHERE organization_id = $1 AND session_id = $2`, h.org, session, by.String())
}

// request returns an authorize request of the fixture's worker and profile.
func (h *fixture) request(session uuid.UUID) license.Request {
	return license.Request{
		OrgID: h.org, KeyID: id(), MachineID: h.machine, BootID: h.boot, SessionID: session, ProfileID: &h.profile,
	}
}

// authorize reserves a slot and fails if it is refused.
func (h *fixture) authorize() uuid.UUID {
	h.t.Helper()
	return h.authorizeAt(h.Service)
}

// authorizeAt is authorize at a given replica.
func (h *fixture) authorizeAt(s *license.Service) uuid.UUID {
	h.t.Helper()
	session := id()
	grant, err := s.Authorize(h.t.Context(), h.request(session))
	if err != nil || !grant.Allowed {
		h.t.Fatalf("authorize: %+v, %v", grant, err)
	}
	return session
}

// startReport returns the next start report of the fixture's worker.
func (h *fixture) startReport(session uuid.UUID) license.StartReport {
	return license.StartReport{
		OrgID: h.org, ProfileID: h.profile, SessionID: session, MachineID: h.machine, BootID: h.boot, Seq: h.seq.Add(1),
		LaunchID: id(), BrowserVersion: 156, StartedAt: time.Now(),
	}
}

// start authorizes and starts a session.
func (h *fixture) start() uuid.UUID {
	h.t.Helper()
	session := h.authorize()
	h.mustStart(h.startReport(session))
	return session
}

func (h *fixture) mustStart(report license.StartReport) license.Session {
	h.t.Helper()
	session, err := h.Start(h.t.Context(), report)
	if err != nil {
		h.t.Fatalf("start: %v", err)
	}
	return session
}

func (h *fixture) endReport(session uuid.UUID) license.EndReport {
	return license.EndReport{OrgID: h.org, ProfileID: h.profile, SessionID: session}
}

func (h *fixture) mustEnd(session uuid.UUID) license.Session {
	h.t.Helper()
	ended, err := h.End(h.t.Context(), h.endReport(session))
	if err != nil {
		h.t.Fatalf("end: %v", err)
	}
	return ended
}

// heartbeat returns the next heartbeat of the fixture's worker.
func (h *fixture) heartbeat(sessions ...uuid.UUID) license.HeartbeatReport {
	return license.HeartbeatReport{
		OrgID: h.org, MachineID: h.machine, BootID: h.boot, Seq: h.seq.Add(1), Sessions: sessions,
	}
}

func (h *fixture) mustHeartbeat(report license.HeartbeatReport) license.HeartbeatResult {
	h.t.Helper()
	result, err := h.Heartbeat(h.t.Context(), report)
	if err != nil {
		h.t.Fatalf("heartbeat: %v", err)
	}
	return result
}

func (h *fixture) mustReclaim() license.ReclaimResult {
	h.t.Helper()
	result, err := h.Reclaim(h.t.Context(), h.org)
	if err != nil {
		h.t.Fatalf("reclaim: %v", err)
	}
	return result
}

// replicas returns three more replicas, each with a small pool.
func (h *fixture) replicas() []*license.Service {
	h.t.Helper()
	all := make([]*license.Service, 3)
	for i := range all {
		all[i] = h.replica(dbtest.Open(h.t, h.dsn, pg.Options{MaxOpen: 6}))
	}
	return all
}

func id() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// wantFault fails the test unless err is of that kind.
func wantFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("got %v, want a fault of status %d", err, kind.Status())
	}
}

// feedObserver records calls in a table, so that calls of rolled back transactions are
// not recorded.
type feedObserver struct{}

func (feedObserver) SessionsStarted(ctx context.Context, tx *sqlx.Tx, started []license.Started) error {
	for _, s := range started {
		var name *string
		if s.Labels != nil {
			name = &s.Labels.Name
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO feed AS f (session_id, running, ran, name, starts) VALUES ($1, true, true, $2, 1)
			ON CONFLICT (session_id) DO UPDATE SET running = true, status = NULL, reason = NULL, name = excluded.name, starts = f.starts + 1`, s.SessionID, name)
		if err != nil {
			return err
		}
	}
	return nil
}

func (feedObserver) SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []license.Ended) error {
	for _, e := range ended {
		_, err := tx.ExecContext(ctx, `INSERT INTO feed AS f (session_id, running, ran, status, reason, ends) VALUES ($1, false, $2, $3, $4, 1)
			ON CONFLICT (session_id) DO UPDATE SET running = false, status = excluded.status, reason = excluded.reason, ends = f.ends + 1`,
			e.SessionID, e.StartedAt != nil, e.Status, e.EndReason)
		if err != nil {
			return err
		}
	}
	return nil
}
