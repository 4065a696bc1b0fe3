package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// release is a request to release what a session holds.
type release struct {
	report EndReport
	slotID uuid.UUID // of the reservation, if known
	isUndo bool      // delete an undelivered reservation; the report has only the session id
}

// outcome is the answer to one release; err concerns that release only.
type outcome struct {
	session Session
	err     error
}

// endSQL ends one session's slot.
const endSQL = `
	UPDATE license_slots s
	SET state = 'released', released_at = clock_timestamp(), release_reason = 'ended',
		ended_at = GREATEST(s.started_at, LEAST($4::timestamptz, clock_timestamp())), end_status = $5, end_reason = $6
	WHERE s.organization_id = $1 AND s.session_id = $2 AND COALESCE(s.profile_id = $3, true)`

// endOneSQL ends one session that holds a slot.
const endOneSQL = `
WITH ended AS (` + endSQL + ` AND s.state <> 'released'
	RETURNING ` + slotColumns + `
), counted AS (
	UPDATE license_org SET in_use = in_use - 1 WHERE organization_id = $1 AND EXISTS (SELECT FROM ended)
)
SELECT ` + slotColumns + ` FROM ended s`

// undoSQL deletes reservations that were never delivered. A reservation that was
// requested again has a longer lease and is kept.
const undoSQL = `
DELETE FROM license_slots s
WHERE s.id = ANY ($2::uuid[]) AND ` + orgFilter + ` AND s.state = 'reserved' AND s.lease_until = s.reserved_at + make_interval(secs => $3)
RETURNING ` + slotColumns

// adjustCounterSQL changes the counter by the number of slots that a transaction took
// or released.
const adjustCounterSQL = `UPDATE license_org SET in_use = in_use + $2 WHERE organization_id = $1`

// slotsBySession maps session ids to their slots.
type slotsBySession map[uuid.UUID]*slot

// releaseBatch releases a batch of one organization.
func (s *Service) releaseBatch(ctx context.Context, orgID uuid.UUID, batch []release) ([]outcome, error) {
	now, unknown, err := s.releaseWithTombstones(ctx, orgID, batch)
	if err != nil {
		return nil, err
	}
	s.queue.kick()
	outcomes := make([]outcome, len(batch))
	for i, r := range batch {
		if now[r.report.SessionID] == nil && unknown[r.report.ProfileID] && !r.isUndo {
			outcomes[i] = outcome{err: fault.Missing("profile")}
			continue
		}
		outcomes[i] = now.outcomeOf(r)
	}
	return outcomes, nil
}

// releaseWithTombstones releases a batch, regardless of the state of its sessions. It
// returns their rows afterwards, and the unknown profiles of sessions without a row.
func (s *Service) releaseWithTombstones(ctx context.Context, orgID uuid.UUID, batch []release) (now slotsBySession, unknown map[uuid.UUID]bool, err error) {
	for range maxAttempts {
		err := pg.InTx(ctx, s.batch.db, func(tx *sqlx.Tx) (err error) {
			now, err = s.releaseExisting(ctx, tx, orgID, batch)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		ends := withoutRow(batch, now)
		if unknown, err = s.unknownProfiles(ctx, orgID, ends); err != nil {
			return nil, nil, err
		}
		missing, err := s.insertTombstones(ctx, orgID, ends, unknown, now)
		if err != nil || !missing {
			return now, unknown, err
		}
	}
	return now, unknown, nil
}

// outcomeOf derives the outcome of a release from the session's row.
func (r slotsBySession) outcomeOf(rel release) outcome {
	row := r[rel.report.SessionID]
	switch {
	case rel.isUndo:
		return outcome{}
	case row == nil:
		return outcome{err: fmt.Errorf("end session %s: too many concurrent changes", rel.report.SessionID)}
	case !row.acceptsProfile(rel.report.ProfileID):
		return outcome{err: fault.Missing("session")}
	}
	return outcome{session: row.toSession()}
}

// releaseExisting releases the sessions that have a row, and returns all rows. The
// counter comes last, so that other transactions do not wait for it during the
// observer's work.
func (s *Service) releaseExisting(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, batch []release) (slotsBySession, error) {
	if len(batch) == 1 && !batch[0].isUndo {
		if row, err := s.endOne(ctx, tx, batch[0].report); err != nil || row != nil {
			return slotsBySession{batch[0].report.SessionID: row}, err
		}
	}
	l := newReleaseArrays(batch)
	found, err := scanReleased(tx.StmtxContext(ctx, s.batch.release).QueryContext(ctx, orgID, l.sessions, l.profiles, l.times, l.statuses, l.reasons))
	if err != nil {
		return nil, err
	}
	now, freed, ended := make(slotsBySession, len(found)), 0, make([]Ended, 0, len(found))
	for i := range found {
		row := &found[i]
		now[row.SessionID] = &row.slot
		if row.endedNow {
			ended = append(ended, row.toEnded())
		}
		if row.freedNow {
			freed++
		}
	}
	undone, err := s.undo(ctx, tx, orgID, undoSlotIDs(batch))
	if err != nil {
		return nil, err
	}
	if ended = append(ended, undone...); len(ended) > 0 {
		if err := s.observer.SessionsEnded(ctx, tx, ended); err != nil {
			return nil, fmt.Errorf("notify the observer of the ends: %w", err)
		}
	}
	return now, adjustCounter(ctx, tx, s.batch.adjustCounter, orgID, -freed-len(undone))
}

// endOne is the fast path for a single report: one statement, which keeps the counter
// lock short. It returns nil if the session does not hold a slot.
func (s *Service) endOne(ctx context.Context, tx *sqlx.Tx, report EndReport) (*slot, error) {
	var row slot
	err := tx.StmtxContext(ctx, s.batch.endOne).GetContext(ctx, &row, report.OrgID, report.SessionID, report.ProfileID,
		report.EndedAt, report.Status, report.EndReason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("end the session: %w", err)
	}
	if err := s.observer.SessionsEnded(ctx, tx, []Ended{row.toEnded()}); err != nil {
		return nil, fmt.Errorf("notify the observer of the end: %w", err)
	}
	return &row, nil
}

func undoSlotIDs(batch []release) []uuid.UUID {
	var slotIDs []uuid.UUID
	for _, r := range batch {
		if r.isUndo {
			slotIDs = append(slotIDs, r.slotID)
		}
	}
	return slotIDs
}

// undo deletes reservations and returns them as sessions that never ran.
func (s *Service) undo(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, slotIDs []uuid.UUID) ([]Ended, error) {
	if len(slotIDs) == 0 {
		return nil, nil
	}
	var undone []slot
	err := tx.StmtxContext(ctx, s.batch.undo).SelectContext(ctx, &undone, orgID, uuidArray(slotIDs), ReservationTTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("delete reservations: %w", err)
	}
	all := make([]Ended, len(undone))
	for i, row := range undone {
		all[i] = Ended{
			OrgID: row.OrgID, SessionID: row.SessionID, ProfileID: row.ProfileID, MachineID: *row.MachineID,
			EndedAt: s.opts.Clock.Now().UTC(), Status: Exited, EndReason: Unknown,
		}
	}
	return all, nil
}

// adjustCounter changes the counter, the last lock of a transaction.
func adjustCounter(ctx context.Context, tx *sqlx.Tx, stmt *sqlx.Stmt, orgID uuid.UUID, change int) error {
	if change == 0 {
		return nil
	}
	if _, err := tx.StmtxContext(ctx, stmt).ExecContext(ctx, orgID, change); err != nil {
		return fmt.Errorf("change the license counter by %d: %w", change, err)
	}
	return nil
}
