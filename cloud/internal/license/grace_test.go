package license_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/license"
)

const gracePeriod = time.Minute

// failedReaps counts the reaper passes that a log reports as failed. Other errors do
// not count: an audit logs one for a counter that it has already repaired.
type failedReaps struct{ atomic.Int64 }

// Write implements io.Writer.
func (f *failedReaps) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("pass=reap ")) {
		f.Add(1)
	}
	return len(line), nil
}

// await waits until n more passes have failed.
func (f *failedReaps) await(t *testing.T, n int64) {
	t.Helper()
	before := f.Load()
	eventually(t, func() bool { return f.Load() >= before+n })
}

// serviceInGrace returns a replica that has just started. After each pass of its
// reaper it audits, if the clock has advanced.
func (h *fixture) serviceInGrace(log io.Writer) *license.Service {
	h.t.Helper()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := license.New(h.t.Context(), h.db, feedObserver{}, logger,
		license.Options{Clock: h.clock, ReapGrace: gracePeriod, AuditEvery: time.Nanosecond})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return s
}

// awaitReap runs the reaper of a replica until the test ends.
func (h *fixture) awaitReap(s *license.Service) {
	ctx, stop := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.RunReaper(ctx, 2*time.Millisecond)
	}()
	h.t.Cleanup(func() { stop(); <-done })
}

// awaitPass waits until the reaper has completed a pass that began after the call.
// The clock advances by less than a millisecond. An audit follows each pass, so the
// second audit that repairs the counter follows such a pass; the pass of the first may
// have begun before the call.
func (h *fixture) awaitPass() {
	h.t.Helper()
	for range 2 {
		h.exec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, h.org)
		eventually(h.t, func() bool {
			h.clock.Advance(time.Nanosecond) // not once: the reaper may not have looked at the clock yet
			return query[bool](h, `SELECT in_use = (SELECT count(*) FROM license_slots s WHERE s.organization_id = $1 AND state <> 'released')
				FROM license_org o WHERE o.organization_id = $1`, h.org)
		})
	}
}

func TestReaper_StartsAfterGracePeriod(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour)
	h.awaitReap(h.serviceInGrace(io.Discard))
	h.awaitPass()
	if state := h.state(session); state != "running" {
		t.Errorf("%s in the grace period", state)
	}
	h.clock.Advance(gracePeriod)
	eventually(t, func() bool { return h.state(session) == "released lapsed" })
}

func TestReaper_GracePeriodRestartsAfterDatabaseOutage(t *testing.T) {
	h := newFixture(t, 5)
	session, gone := h.start(), h.start()
	h.mustHeartbeat(h.heartbeat(session, gone))
	var failed failedReaps
	s := h.serviceInGrace(&failed)
	h.clock.Advance(gracePeriod)
	h.awaitReap(s)
	h.awaitPass()
	h.exec(`ALTER TABLE license_slots RENAME TO away`)
	h.exec(`UPDATE away SET lease_until = lease_until - interval '6 minutes'`)
	failed.await(t, 2) // the first may be a pass that began before the outage and had already looked for expired slots
	h.exec(`ALTER TABLE away RENAME TO license_slots`)
	h.awaitPass()
	if a, b := h.state(session), h.state(gone); a != "running" || b != "running" {
		t.Errorf("%s and %s before a worker could report", a, b)
	}
	h.mustHeartbeat(h.heartbeat(session, gone))
	h.age(gone, 6*time.Minute)
	h.clock.Advance(gracePeriod)
	eventually(t, func() bool { return h.state(gone) == "released lapsed" })
	if state := h.state(session); state != "running" {
		t.Errorf("the session that was reported is %s", state)
	}
}

func TestReaper_GracePeriodRestartsAfterDatabaseWasReadOnly(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.mustHeartbeat(h.heartbeat(session))
	var failed failedReaps
	s := h.serviceInGrace(&failed)
	h.clock.Advance(gracePeriod)
	h.awaitReap(s)
	h.awaitPass()
	h.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$`)
	h.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON license_slots FOR EACH ROW EXECUTE FUNCTION refuse()`)
	h.exec(`SET session_replication_role = replica; UPDATE license_slots SET lease_until = lease_until - interval '6 minutes'; RESET session_replication_role`)
	failed.await(t, 1)
	h.exec(`DROP TRIGGER refuse ON license_slots`)
	h.awaitPass()
	if state := h.state(session); state != "running" {
		t.Errorf("%s before a worker could report", state)
	}
}

func TestAuthorize_ReclaimsOnlyReservationsInGracePeriod(t *testing.T) {
	h := newFixture(t, 2)
	session, reservation := h.start(), h.authorize()
	h.mustHeartbeat(h.heartbeat(session))
	h.age(session, 6*time.Minute)
	h.age(reservation, 6*time.Minute)
	s := h.serviceInGrace(io.Discard)
	h.authorizeAt(s)
	h.clock.Advance(2 * time.Second)
	if grant, err := s.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed {
		t.Errorf("got %+v, %v for the slot of a session that may still be reported", grant, err)
	}
	if got, state := h.mustHeartbeat(h.heartbeat(session)), h.state(reservation); len(got.Accepted) != 1 || h.inUse() != 2 || state != "released lapsed" {
		t.Errorf("%+v; %d counted; the reservation is %s", got, h.inUse(), state)
	}
	h.age(session, 6*time.Minute)
	h.clock.Advance(gracePeriod)
	h.authorizeAt(s)
	if state := h.state(session); state != "released lapsed" {
		t.Errorf("%s after the grace period", state)
	}
}

func TestReclaim_IgnoresGracePeriod(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour)
	if got, err := h.serviceInGrace(io.Discard).Reclaim(t.Context(), h.org); err != nil || got.Released != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}
