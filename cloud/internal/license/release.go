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

// release gives back what a session holds.
type release struct {
	report EndReport
	slotID uuid.UUID // of a reservation
	undo   bool      // of one that its worker was never told of: the report has no more than the session
}

// outcome is the answer to one release; err is of that one alone.
type outcome struct {
	session Session
	err     error
}

// endSQL ends one session's slot.
const endSQL = `
	UPDATE license_slots s
	SET state = 'released', released_at = clock_timestamp(), release_reason = 'ended',
		ended_at = GREATEST(s.started_at, LEAST($4::timestamptz, clock_timestamp())), end_status = $5, end_reason = $6
	WHERE s.org_id = $1 AND s.session_id = $2 AND COALESCE(s.profile_id = $3, true)`

// endOneSQL is the ordinary end of one session: it held a slot until now.
const endOneSQL = `
WITH ended AS (` + endSQL + ` AND s.state <> 'released'
	RETURNING ` + slotColumns + `
), counted AS (
	UPDATE license_org SET in_use = in_use - 1 WHERE org_id = $1 AND EXISTS (SELECT FROM ended)
)
SELECT ` + slotColumns + ` FROM ended s`

// undoSQL removes reservations that nobody knows of, as if they had not been
// made. One that was asked for again has a longer lease, and stays.
const undoSQL = `
DELETE FROM license_slots s
WHERE s.id = ANY ($2::uuid[]) AND ` + ofOrg + ` AND s.state = 'reserved' AND s.lease_until = s.reserved_at + make_interval(secs => $3)
RETURNING ` + slotColumns

// countSQL changes the counter by what a transaction added or released.
const countSQL = `UPDATE license_org SET in_use = in_use + $2 WHERE org_id = $1`

// rows are the slots of sessions.
type rows map[uuid.UUID]*slot

// releaseAll gives back a batch of one organization.
func (s *Service) releaseAll(ctx context.Context, orgID uuid.UUID, batch []release) ([]outcome, error) {
	now, unknown, err := s.releaseListed(ctx, orgID, batch)
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(batch))
	for i, r := range batch {
		if now[r.report.SessionID] == nil && unknown[r.report.ProfileID] && !r.undo {
			outcomes[i] = outcome{err: fault.Missing("profile")}
			continue
		}
		outcomes[i] = now.outcome(r)
	}
	return outcomes, nil
}

// releaseListed releases a batch, whatever its sessions are at, and returns their
// rows after it, and which profiles of sessions without a row there are not.
func (s *Service) releaseListed(ctx context.Context, orgID uuid.UUID, batch []release) (now rows, unknown map[uuid.UUID]bool, err error) {
	for range attempts {
		err := pg.InTx(ctx, s.together.db, func(tx *sqlx.Tx) (err error) {
			now, err = s.releaseKnown(ctx, tx, orgID, batch)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		ends := unheardOf(batch, now)
		if unknown, err = s.unknownProfiles(ctx, orgID, ends); err != nil {
			return nil, nil, err
		}
		missing, err := s.bury(ctx, orgID, ends, unknown, now)
		if err != nil || !missing {
			return now, unknown, err
		}
	}
	return now, unknown, nil
}

// outcome tells how a release came out, which the session's row after it says.
func (r rows) outcome(of release) outcome {
	row := r[of.report.SessionID]
	switch {
	case of.undo:
		return outcome{}
	case row == nil:
		return outcome{err: fmt.Errorf("end session %s: its row keeps coming and going", of.report.SessionID)}
	case !row.isFor(of.report.ProfileID):
		return outcome{err: fault.Missing("session")}
	}
	return outcome{session: row.session()}
}

// releaseKnown releases the sessions that have a slot and returns what is known
// of all of them then. The counter comes last, so that nobody waits for it while
// the observer works.
func (s *Service) releaseKnown(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, batch []release) (rows, error) {
	if len(batch) == 1 && !batch[0].undo {
		if row, err := s.endOne(ctx, tx, batch[0].report); err != nil || row != nil {
			return rows{batch[0].report.SessionID: row}, err
		}
	}
	l := list(batch)
	found, err := ended(tx.StmtxContext(ctx, s.together.release).QueryContext(ctx, orgID, l.sessions, l.profiles, l.times, l.statuses, l.reasons))
	if err != nil {
		return nil, err
	}
	now, freed, gone := make(rows, len(found)), 0, make([]Ended, 0, len(found))
	for i := range found {
		row := &found[i]
		now[row.SessionID] = &row.slot
		if row.endedNow {
			gone = append(gone, row.ended())
		}
		if row.freedNow {
			freed++
		}
	}
	undone, err := s.undo(ctx, tx, orgID, undos(batch))
	if err != nil {
		return nil, err
	}
	if gone = append(gone, undone...); len(gone) > 0 {
		if err := s.observer.SessionsEnded(ctx, tx, gone); err != nil {
			return nil, fmt.Errorf("tell of the ends: %w", err)
		}
	}
	return now, count(ctx, tx, s.together.count, orgID, -freed-len(undone))
}

// endOne is the short way of a lone report, which keeps few waiting for the
// counter: one statement. It returns nil where there is more to it.
func (s *Service) endOne(ctx context.Context, tx *sqlx.Tx, report EndReport) (*slot, error) {
	var row slot
	err := tx.StmtxContext(ctx, s.together.endOne).GetContext(ctx, &row, report.OrgID, report.SessionID, report.ProfileID,
		report.EndedAt, report.Status, report.EndReason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("end the session: %w", err)
	}
	if err := s.observer.SessionsEnded(ctx, tx, []Ended{row.ended()}); err != nil {
		return nil, fmt.Errorf("tell of the end: %w", err)
	}
	return &row, nil
}

func undos(batch []release) []uuid.UUID {
	var slotIDs []uuid.UUID
	for _, r := range batch {
		if r.undo {
			slotIDs = append(slotIDs, r.slotID)
		}
	}
	return slotIDs
}

// undo removes reservations and returns them as sessions that never ran.
func (s *Service) undo(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, slotIDs []uuid.UUID) ([]Ended, error) {
	if len(slotIDs) == 0 {
		return nil, nil
	}
	var undone []slot
	err := tx.StmtxContext(ctx, s.together.undo).SelectContext(ctx, &undone, orgID, uuidArray(slotIDs), ReservationTTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("undo reservations: %w", err)
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

// count changes the counter, the last lock of a transaction.
func count(ctx context.Context, tx *sqlx.Tx, stmt *sqlx.Stmt, orgID uuid.UUID, by int) error {
	if by == 0 {
		return nil
	}
	if _, err := tx.StmtxContext(ctx, stmt).ExecContext(ctx, orgID, by); err != nil {
		return fmt.Errorf("change the license counter by %d: %w", by, err)
	}
	return nil
}
