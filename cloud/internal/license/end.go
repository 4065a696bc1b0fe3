package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// EndReport tells that a session is over, or that its launch failed. What is
// left empty is derived: a status from the reason, a reason from the status, and
// both from nothing as exited for an unknown reason; the time is now.
type EndReport struct {
	OrgID     uuid.UUID
	ProfileID uuid.UUID
	SessionID uuid.UUID
	Status    Status
	EndReason EndReason
	EndedAt   *time.Time // by the worker's clock, for display only
}

func (r EndReport) withDefaults() EndReport {
	if r.Status == "" {
		switch r.EndReason {
		case ClientClose, Idle, MaxDuration, KilledReason, LicenseReason, Drain:
			r.Status = Killed
		default:
			r.Status = Exited
		}
	}
	if r.EndReason == "" {
		r.EndReason = Unknown
		if r.Status == Killed {
			r.EndReason = KilledReason
		}
	}
	return r
}

// endSQL ends a locked slot for good. The worker's time is kept within what can
// be: not before the start, and not in the future.
const endSQL = `
UPDATE license_slots s
SET state = 'released', released_at = COALESCE(released_at, clock_timestamp()), release_reason = 'ended',
	ended_at = GREATEST(started_at, LEAST($2, clock_timestamp())), end_status = $3, end_reason = $4
WHERE s.id = $1
RETURNING ` + slotColumns

// tombstoneSQL remembers the end of a session that has no slot, so that the
// report of its start can't come after it.
const tombstoneSQL = `
INSERT INTO license_slots AS s (id, org_id, session_id, profile_id, state, reserved_at, lease_until,
	released_at, release_reason, ended_at, end_status, end_reason)
SELECT $1, $2, $3, $4, 'released', now, now, now, 'ended', LEAST($5, now), $6, $7 FROM clock_timestamp() AS now
ON CONFLICT (org_id, session_id) DO NOTHING
RETURNING ` + slotColumns

// countSQL changes the counter by what a transaction added or released.
const countSQL = `UPDATE license_org SET in_use = in_use + $2 WHERE org_id = $1`

// End releases a session's slot (specification 3.2), or its reservation when
// the launch failed. The same report again changes nothing; the first one
// stands. A session never heard of is remembered as ended. It returns NotFound
// for a session of another profile.
func (s *Service) End(ctx context.Context, report EndReport) (Session, error) {
	report = report.withDefaults()
	for range attempts {
		var session *Session
		err := pg.InTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
			session, err = s.end(ctx, tx, report)
			return err
		})
		if err != nil {
			return Session{}, err
		}
		if session != nil {
			return *session, nil
		}
	}
	return Session{}, fmt.Errorf("end session %s: its row keeps coming and going", report.SessionID)
}

// end returns nil when the session's row came up only after it was looked for.
func (s *Service) end(ctx context.Context, tx *sqlx.Tx, report EndReport) (*Session, error) {
	var found slot
	err := tx.StmtxContext(ctx, s.stmts.lock).GetContext(ctx, &found, report.OrgID, report.SessionID)
	if errors.Is(err, sql.ErrNoRows) {
		return s.bury(ctx, tx, report)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the slot: %w", err)
	}
	if !found.isFor(report.ProfileID) {
		return nil, fault.Missing("session")
	}
	if found.releasedBy(byEnd) {
		session := found.session()
		return &session, nil
	}
	var row slot
	err = tx.StmtxContext(ctx, s.stmts.end).GetContext(ctx, &row, found.ID, report.EndedAt, report.Status, report.EndReason)
	if err != nil {
		return nil, fmt.Errorf("end the session: %w", err)
	}
	if err := s.observer.SessionsEnded(ctx, tx, []Ended{row.ended()}); err != nil {
		return nil, fmt.Errorf("tell of the end: %w", err)
	}
	if found.State != released {
		if err := s.count(ctx, tx, report.OrgID, -1); err != nil {
			return nil, err
		}
	}
	session := row.session()
	return &session, nil
}

func (s *Service) bury(ctx context.Context, tx *sqlx.Tx, report EndReport) (*Session, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a slot id: %w", err)
	}
	var row slot
	err = tx.StmtxContext(ctx, s.stmts.tombstone).GetContext(ctx, &row, id, report.OrgID, report.SessionID,
		report.ProfileID, report.EndedAt, report.Status, report.EndReason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("remember the end: %w", err)
	}
	session := row.session()
	return &session, nil
}

// count changes the counter, the last lock of a transaction.
func (s *Service) count(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, by int) error {
	if by == 0 {
		return nil
	}
	if _, err := tx.StmtxContext(ctx, s.stmts.count).ExecContext(ctx, orgID, by); err != nil {
		return fmt.Errorf("change the license counter by %d: %w", by, err)
	}
	return nil
}
