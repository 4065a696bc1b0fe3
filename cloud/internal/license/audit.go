package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Drift is an organization whose counter differs from the number of its live slots.
type Drift struct {
	OrganizationID uuid.UUID `db:"organization_id"`
	Counted        int       `db:"counted"`
	Live           int       `db:"live"`
}

// driftedCountersSQL finds the organizations whose counter differs from the number of
// their live rows, in one snapshot.
const driftedCountersSQL = `
WITH live AS (SELECT organization_id, count(*) AS n FROM license_slots WHERE released_at IS NULL GROUP BY organization_id)
SELECT o.organization_id, o.in_use AS counted, COALESCE(live.n, 0) AS live
FROM license_org o LEFT JOIN live USING (organization_id)
WHERE o.in_use <> COALESCE(live.n, 0) OR o.queued <> (SELECT count(*) FROM license_queue q WHERE q.organization_id = o.organization_id)`

// recountSQL repairs a locked counter and records an event, if it differs.
const recountSQL = `
WITH before AS (
	SELECT o.in_use, o.queued, (SELECT count(*) FROM license_slots s WHERE s.organization_id = $1 AND s.released_at IS NULL) AS live,
		(SELECT count(*) FROM license_queue q WHERE q.organization_id = $1) AS waiting
	FROM license_org o WHERE o.organization_id = $1
), changed AS (
	UPDATE license_org o SET in_use = before.live, queued = before.waiting FROM before
	WHERE o.organization_id = $1 AND (before.in_use <> before.live OR before.queued <> before.waiting)
	RETURNING o.organization_id, o.max_slots, o.in_use, before.in_use AS previous
), recorded AS (
	INSERT INTO license_events (organization_id, kind, in_use, max_slots, previous)
	SELECT organization_id, 'counterRepaired', in_use, max_slots, previous FROM changed
)
SELECT previous, in_use FROM changed`

// DriftedCounters returns the counters that differ from the live slots. It repairs
// nothing.
func DriftedCounters(ctx context.Context, system *sqlx.DB) (drifted []Drift, err error) {
	if err := system.SelectContext(ctx, &drifted, driftedCountersSQL); err != nil {
		return nil, fmt.Errorf("compare the license counters: %w", err)
	}
	return drifted, nil
}

// OrphanSlots returns the number of slots, and of those that belong to no organization
// with a counter. No foreign key prevents them.
func OrphanSlots(ctx context.Context, system *sqlx.DB) (slots, orphans int, err error) {
	err = system.QueryRowxContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE o.organization_id IS NULL)
		FROM license_slots s LEFT JOIN license_org o USING (organization_id)`).Scan(&slots, &orphans)
	if err != nil {
		return 0, 0, fmt.Errorf("look for slots without an organization: %w", err)
	}
	return slots, orphans, nil
}

// UncountedOrganizations returns the number of organizations, and of those without a
// counter, which cannot launch.
func UncountedOrganizations(ctx context.Context, system *sqlx.DB) (organizations, uncounted int, err error) {
	err = system.QueryRowxContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE l.organization_id IS NULL)
		FROM organizations o LEFT JOIN license_org l ON l.organization_id = o.id`).Scan(&organizations, &uncounted)
	if err != nil {
		return 0, 0, fmt.Errorf("look for organizations without a license counter: %w", err)
	}
	return organizations, uncounted, nil
}

// Audit compares each counter with its rows. It logs, records and repairs every
// difference, and returns their number. A difference means that the tables were
// changed manually or that this package has a bug. A failure in one organization does
// not stop the others.
func (s *Service) Audit(ctx context.Context) (int, error) {
	drifted, err := DriftedCounters(ctx, s.db.db)
	if err != nil {
		return 0, err
	}
	var errs []error
	repaired := 0
	for _, each := range drifted {
		orgID := each.OrganizationID
		counted, live, changed, err := s.recount(ctx, orgID)
		if err != nil {
			errs = append(errs, fmt.Errorf("in organization %s: %w", orgID, err))
			continue
		}
		if changed {
			repaired++
			s.totals.repaired.Add(1)
			s.logger.ErrorContext(ctx, "license counter drifted and was repaired", "org", orgID, "counted", counted, "live", live)
		}
	}
	return repaired, errors.Join(errs...)
}

// recount locks the counter first and counts in a separate statement, whose snapshot
// contains every counted change. Concurrent changes wait for the counter and then
// apply their own difference. It returns the old and the correct number of slots, and
// whether a counter was repaired.
func (s *Service) recount(ctx context.Context, orgID uuid.UUID) (counted, live int, changed bool, err error) {
	err = s.db.tx(ctx, orgID, func(tx *sqlx.Tx) error {
		changed = false
		if _, err := tx.ExecContext(ctx, `SELECT FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE`, orgID); err != nil {
			return fmt.Errorf("lock the license counter: %w", err)
		}
		err := tx.QueryRowxContext(ctx, recountSQL, orgID).Scan(&counted, &live)
		changed = err == nil
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("repair the license counter: %w", err)
		}
		return nil
	})
	return counted, live, changed, err
}
