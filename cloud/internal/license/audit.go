package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// driftedCountersSQL finds the organizations whose counter differs from the number of
// their live rows, in one snapshot.
const driftedCountersSQL = `
WITH live AS (SELECT organization_id, count(*) AS n FROM license_slots WHERE released_at IS NULL GROUP BY organization_id)
SELECT o.organization_id FROM license_org o LEFT JOIN live USING (organization_id)
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

// Audit compares each counter with its rows. It logs, records and repairs every
// difference, and returns their number. A difference means that the tables were
// changed manually or that this package has a bug. A failure in one organization does
// not stop the others.
func (s *Service) Audit(ctx context.Context) (int, error) {
	var drifted []uuid.UUID
	if err := s.db.db.SelectContext(ctx, &drifted, driftedCountersSQL); err != nil {
		return 0, fmt.Errorf("compare the license counters: %w", err)
	}
	var errs []error
	repaired := 0
	for _, orgID := range drifted {
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
