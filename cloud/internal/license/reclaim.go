package license

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// expireBatch bounds the slots that one transaction ends.
const expireBatch = 500

const hasExpiredSQL = `
SELECT EXISTS (SELECT FROM license_slots WHERE organization_id = $1 AND released_at IS NULL AND license_stale(lease_until)
	AND (state = 'reserved' OR $2))`

// expireSQL ends stale slots: sessions only if $3 is true, reservations always. It
// skips locked rows.
const expireSQL = `
WITH stale AS (
	SELECT id FROM license_slots
	WHERE organization_id = $1 AND (state = 'reserved' OR $3) AND released_at IS NULL AND license_stale(lease_until)
	LIMIT $2
	FOR UPDATE SKIP LOCKED
), changed AS (
	UPDATE license_slots s
	SET state = 'released', released_at = clock_timestamp(), release_reason = 'lapsed',
		ended_at = clock_timestamp(), end_status = 'exited', end_reason = 'unknown'
	FROM stale WHERE s.id = stale.id
	RETURNING s.*
), ` + releasedEvents + `
SELECT ` + slotColumns + ` FROM changed s`

const usageSQL = `SELECT in_use, max_slots FROM license_org WHERE organization_id = $1`

const expiredOrgsSQL = `
SELECT DISTINCT organization_id FROM license_slots WHERE released_at IS NULL AND license_stale(lease_until) LIMIT $1`

// ReclaimResult is the number of slots that a reclaim ended, and the usage after it.
type ReclaimResult struct {
	Released int // sessions and reservations
	Usage
}

// Reclaim ends every stale session and expired reservation of an organization
// (specification 3.2). Such a session has the status exited and the reason unknown,
// because its worker did not report the end.
func (s *Service) Reclaim(ctx context.Context, orgID uuid.UUID) (result ReclaimResult, err error) {
	if result.Released, err = s.reclaim(ctx, orgID, true); err != nil {
		return ReclaimResult{}, err
	}
	if err := s.db.get(ctx, s.stmts.usage, &result.Usage, orgID); err != nil {
		return ReclaimResult{}, notFoundIfRemoved(fmt.Errorf("read the license counter: %w", err))
	}
	return result, nil
}

// reclaim returns the number of slots that it ended. It ends running sessions only if
// sessions is true.
func (s *Service) reclaim(ctx context.Context, orgID uuid.UUID, sessions bool) (released int, err error) {
	for {
		n, err := s.expire(ctx, orgID, sessions)
		released += n
		if err != nil || n < expireBatch {
			return released, notFoundIfRemoved(err)
		}
	}
}

// expire ends up to expireBatch stale slots and returns their number.
func (s *Service) expire(ctx context.Context, orgID uuid.UUID, sessions bool) (int, error) {
	var ended []slot
	err := s.db.tx(ctx, orgID, func(tx *sqlx.Tx) error {
		ended = nil
		err := tx.StmtxContext(ctx, s.stmts.expire).SelectContext(ctx, &ended, orgID, expireBatch, sessions)
		if err != nil {
			return fmt.Errorf("release expired slots: %w", err)
		}
		if err := s.notifyObserver(ctx, tx, ended, nil); err != nil {
			return err
		}
		return adjustCounter(ctx, tx, s.stmts.adjustCounter, orgID, -len(ended))
	})
	if err != nil {
		return 0, err
	}
	s.totals.lapsed.Add(int64(len(ended)))
	s.queue.kick()
	return len(ended), nil
}

// reclaimForLaunch reclaims for an organization without a free slot and reports
// whether a slot was released. During the grace period it reclaims reservations only.
// It searches at most once per ReclaimEvery, and takes no lock if nothing has expired.
func (s *Service) reclaimForLaunch(ctx context.Context, orgID uuid.UUID) (bool, error) {
	if !s.reclaimThrottle.allow(orgID) {
		return false, nil
	}
	sessions := !s.grace.active()
	var lapsing bool
	if err := s.db.get(ctx, s.stmts.hasExpired, &lapsing, orgID, sessions); err != nil {
		return false, fmt.Errorf("look for expired slots: %w", err)
	}
	if !lapsing {
		return false, nil
	}
	released, err := s.reclaim(ctx, orgID, sessions)
	return released > 0, err
}

// maxReapOrgs bounds the organizations of one pass.
const maxReapOrgs = 1000

// Reap reclaims in every organization with expired slots, and returns the number of
// slots that it ended. A failure in one organization does not stop the others.
func (s *Service) Reap(ctx context.Context) (int, error) {
	orgs, err := s.expiredOrgs(ctx)
	if err != nil {
		return 0, err
	}
	return s.reap(ctx, orgs)
}

// expiredOrgs returns organizations with expired slots.
func (s *Service) expiredOrgs(ctx context.Context) (orgs []uuid.UUID, err error) {
	if err := s.stmts.expiredOrgs.SelectContext(ctx, &orgs, maxReapOrgs); err != nil {
		return nil, fmt.Errorf("find organizations with expired slots: %w", err)
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
		if err != nil && !fault.Is(err, fault.NotFound) { // a removed organization has no slots
			errs = append(errs, fmt.Errorf("reclaim in organization %s: %w", orgID, err))
		}
	}
	return total, errors.Join(errs...)
}
