package license_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/license"
)

const gracePeriod = time.Minute

// errorLog counts logged errors.
type errorLog struct{ atomic.Int64 }

// Write implements io.Writer.
func (f *errorLog) Write(line []byte) (int, error) {
	f.Add(1)
	return len(line), nil
}

// serviceInGrace returns a replica that has just started.
func (h *fixture) serviceInGrace(log *errorLog) *license.Service {
	h.t.Helper()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := license.New(h.t.Context(), h.db, feedObserver{}, logger,
		license.Options{Clock: h.clock, ReapGrace: gracePeriod, AuditEvery: time.Second})
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

// endGrace waits until the reaper has completed a pass, which an audit follows.
func (h *fixture) endGrace() {
	h.t.Helper()
	counted := h.inUse()
	h.exec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, h.org)
	eventually(h.t, func() bool {
		h.clock.Advance(10 * time.Millisecond) // not at once: the reaper may not have looked at the clock yet
		return h.inUse() == counted
	})
}

func TestReaper_StartsAfterGracePeriod(t *testing.T) {
	h := newFixture(t, 5)
	session := h.start()
	h.age(session, 7*time.Hour)
	h.awaitReap(h.serviceInGrace(&errorLog{}))
	h.endGrace()
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
	var log errorLog
	s := h.serviceInGrace(&log)
	h.clock.Advance(gracePeriod)
	h.awaitReap(s)
	h.endGrace()
	h.exec(`ALTER TABLE license_slots RENAME TO away`)
	h.exec(`UPDATE away SET lease_until = lease_until - interval '6 minutes'`)
	before := log.Load()
	eventually(t, func() bool { return log.Load() > before })
	h.exec(`ALTER TABLE away RENAME TO license_slots`)
	h.endGrace()
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

func TestAuthorize_ReclaimsOnlyReservationsInGracePeriod(t *testing.T) {
	h := newFixture(t, 2)
	session, reservation := h.start(), h.authorize()
	h.mustHeartbeat(h.heartbeat(session))
	h.age(session, 6*time.Minute)
	h.age(reservation, 6*time.Minute)
	s := h.serviceInGrace(&errorLog{})
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
	if got, err := h.serviceInGrace(&errorLog{}).Reclaim(t.Context(), h.org); err != nil || got.Released != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}
