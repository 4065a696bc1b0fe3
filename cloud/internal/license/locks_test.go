package license_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// async runs fn and sends its error to the channel.
func async(fn func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// heartbeatAsync is mustHeartbeat in the background.
func (h *fixture) heartbeatAsync(report license.HeartbeatReport) chan license.HeartbeatResult {
	result := make(chan license.HeartbeatResult, 1)
	go func() {
		defer close(result) // when it failed, too
		result <- h.mustHeartbeat(report)
	}()
	return result
}

// holdLocks runs fn in a transaction that stays open until the returned function
// commits it.
func (h *fixture) holdLocks(fn func(tx *sqlx.Tx)) (commit func()) {
	h.t.Helper()
	tx, err := h.db.BeginTxx(context.Background(), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { tx.Rollback() })
	fn(tx)
	return func() {
		h.t.Helper()
		if err := tx.Commit(); err != nil {
			h.t.Error(err)
		}
	}
}

// lockSlot locks the session's slot.
func (h *fixture) lockSlot(session uuid.UUID) (commit func()) {
	h.t.Helper()
	return h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`, session) })
}

// lockFeed blocks the observer, and thereby every start and end before it changes the
// counter.
func (h *fixture) lockFeed() (commit func()) {
	h.t.Helper()
	return h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`LOCK TABLE feed IN EXCLUSIVE MODE`) })
}

// lockCounter locks the organization's counter.
func (h *fixture) lockCounter() (commit func()) {
	h.t.Helper()
	return h.holdLocks(func(tx *sqlx.Tx) {
		tx.MustExec(`SELECT FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE`, h.org)
	})
}

// awaitBlocked waits until n statements wait for a lock.
func (h *fixture) awaitBlocked(n int) {
	h.t.Helper()
	eventually(h.t, func() bool { return h.countBlocked() >= n })
}

// awaitEnds waits until n ends wait, for a lock or in the queue.
func (h *fixture) awaitEnds(n int) {
	h.t.Helper()
	eventually(h.t, func() bool { return h.countBlocked()+h.WaitingForReleases(h.org) == n })
}

func (h *fixture) countBlocked() int {
	return query[int](h, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("timeout waiting for the condition")
		}
		time.Sleep(2 * time.Millisecond)
	}
}
