package license

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// lapseBatch bounds the slots that one transaction ends.
const lapseBatch = 500

const lapsingSQL = `
SELECT EXISTS (SELECT FROM license_slots WHERE org_id = $1 AND released_at IS NULL AND license_stale(lease_until)
	AND (state = 'reserved' OR $2))`

// lapseSQL ends stale slots, of sessions only if $3 says so, leaving alone those
// that somebody else is at.
const lapseSQL = `
WITH stale AS (
	SELECT id FROM license_slots
	WHERE org_id = $1 AND (state = 'reserved' OR $3) AND released_at IS NULL AND license_stale(lease_until)
	LIMIT $2
	FOR UPDATE SKIP LOCKED
), changed AS (
	UPDATE license_slots s
	SET state = 'released', released_at = clock_timestamp(), release_reason = 'lapsed',
		ended_at = clock_timestamp(), end_status = 'exited', end_reason = 'unknown'
	FROM stale WHERE s.id = stale.id
	RETURNING s.*
), ` + toldReleased + `
SELECT ` + slotColumns + ` FROM changed s`

const usageSQL = `SELECT in_use, max_slots FROM license_org WHERE org_id = $1`

const lapsedOrgsSQL = `
SELECT DISTINCT org_id FROM license_slots WHERE released_at IS NULL AND license_stale(lease_until) LIMIT $1`

// ReclaimResult is what a reclaim ended, and the usage after it.
type ReclaimResult struct {
	Released int // sessions and reservations
	Usage
}

// Reclaim ends every stale session and expired reservation of an organization
// (specification 3.2). Such a session counts as exited for an unknown reason:
// its worker is gone, and nobody saw.
func (s *Service) Reclaim(ctx context.Context, orgID uuid.UUID) (result ReclaimResult, err error) {
	if result.Released, err = s.reclaim(ctx, orgID, true); err != nil {
		return ReclaimResult{}, err
	}
	if err := s.db.get(ctx, s.stmts.usage, &result.Usage, orgID); err != nil {
		return ReclaimResult{}, removed(fmt.Errorf("read the license counter: %w", err))
	}
	return result, nil
}

// reclaim returns how many slots it ended. It leaves running sessions alone unless
// they are meant too.
func (s *Service) reclaim(ctx context.Context, orgID uuid.UUID, sessions bool) (released int, err error) {
	for {
		n, err := s.lapse(ctx, orgID, sessions)
		released += n
		if err != nil || n < lapseBatch {
			return released, removed(err)
		}
	}
}

// lapse ends up to lapseBatch stale slots and returns how many there were.
func (s *Service) lapse(ctx context.Context, orgID uuid.UUID, sessions bool) (int, error) {
	var gone []slot
	err := s.db.tx(ctx, orgID, func(tx *sqlx.Tx) error {
		gone = nil
		err := tx.StmtxContext(ctx, s.stmts.lapse).SelectContext(ctx, &gone, orgID, lapseBatch, sessions)
		if err != nil {
			return fmt.Errorf("release what has lapsed: %w", err)
		}
		if err := s.tell(ctx, tx, gone, nil); err != nil {
			return err
		}
		return count(ctx, tx, s.stmts.count, orgID, -len(gone))
	})
	if err != nil {
		return 0, err
	}
	s.totals.lapsed.Add(int64(len(gone)))
	return len(gone), nil
}

// makeRoom reclaims for an organization without room and reports whether that freed
// anything: in the grace reservations only. It looks at most once in each
// ReclaimEvery, and takes no lock when nothing has lapsed.
func (s *Service) makeRoom(ctx context.Context, orgID uuid.UUID) (bool, error) {
	if !s.searches.allow(orgID) {
		return false, nil
	}
	sessions := !s.grace.on()
	var lapsing bool
	if err := s.db.get(ctx, s.stmts.lapsing, &lapsing, orgID, sessions); err != nil {
		return false, fmt.Errorf("look for lapsed slots: %w", err)
	}
	if !lapsing {
		return false, nil
	}
	released, err := s.reclaim(ctx, orgID, sessions)
	return released > 0, err
}

// reapOrgs bounds the organizations of one pass.
const reapOrgs = 1000

// Reap reclaims in every organization that has lapsed slots, and returns how
// many slots it ended. One organization's failure doesn't stop the others.
func (s *Service) Reap(ctx context.Context) (int, error) {
	orgs, err := s.lapsing(ctx)
	if err != nil {
		return 0, err
	}
	return s.reap(ctx, orgs)
}

// lapsing finds organizations that have lapsed slots.
func (s *Service) lapsing(ctx context.Context) (orgs []uuid.UUID, err error) {
	if err := s.stmts.lapsedOrgs.SelectContext(ctx, &orgs, reapOrgs); err != nil {
		return nil, fmt.Errorf("find organizations with lapsed slots: %w", err)
	}
	return orgs, nil
}

func (s *Service) reap(ctx context.Context, orgs []uuid.UUID) (int, error) {
	var total int
	var errs []error
	for _, orgID := range orgs {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		released, err := s.reclaim(ctx, orgID, true)
		total += released
		if err != nil && !fault.Is(err, fault.NotFound) { // of one that is gone there is nothing to end
			errs = append(errs, fmt.Errorf("reclaim in organization %s: %w", orgID, err))
		}
	}
	return total, errors.Join(errs...)
}
