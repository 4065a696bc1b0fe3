package usage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

const (
	writeTimeout  = 10 * time.Second // per statement
	maxWriteBatch = 1000             // organizations per statement
)

// row is a row of api_usage.
type row struct {
	OrgID          uuid.UUID `db:"organization_id"`
	Minute         time.Time `db:"minute"`
	MinuteRequests int64     `db:"minute_requests"`
	Hour           time.Time `db:"hour"`
	HourRequests   int64     `db:"hour_requests"`
}

// cachedRow is a row with the limits and the time when they were read.
type cachedRow struct {
	readAt             time.Time
	row                row
	perMinute, perHour *int
}

// usage returns the usage at a time, including the pending requests.
func (r *cachedRow) usage(now time.Time, pending int64) Usage {
	window := func(length time.Duration, rowStart time.Time, requests int64, limit *int) Window {
		start := now.Truncate(length)
		w := Window{Limit: limit, Used: pending, Ends: start.Add(length)}
		if rowStart.Equal(start) {
			w.Used += requests
		}
		return w
	}
	return Usage{
		Minute: window(time.Minute, r.row.Minute, r.row.MinuteRequests, r.perMinute),
		Hour:   window(time.Hour, r.row.Hour, r.row.HourRequests, r.perHour),
	}
}

// load reads the row and the limits of the organization.
func (s *Service) load(ctx context.Context, orgID uuid.UUID) (cachedRow, error) {
	found := cachedRow{readAt: s.opts.Clock.Now()}
	err := pg.InOrg(ctx, s.opts.DB, orgID, func(tx *sqlx.Tx) (err error) {
		err = tx.GetContext(ctx, &found.row, `SELECT * FROM api_usage WHERE organization_id = $1`, orgID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the request counts: %w", err)
		}
		found.perMinute, found.perHour, err = s.opts.Limits.RequestLimits(ctx, tx, orgID)
		return err
	})
	return found, err
}

// addSQL adds requests of the minute $3 and the hour $4. Counts of a past window are
// not added to the current one. Removed organizations are skipped. All replicas lock
// the rows in the same order.
const addSQL = `
INSERT INTO api_usage AS u (organization_id, minute, minute_requests, hour, hour_requests)
SELECT t.organization_id, $3, t.requests, $4, t.requests
FROM unnest($1::uuid[], $2::bigint[]) AS t (organization_id, requests) JOIN organizations o ON o.id = t.organization_id
ORDER BY t.organization_id FOR KEY SHARE OF o
ON CONFLICT (organization_id) DO UPDATE SET
	minute = GREATEST(u.minute, excluded.minute),
	minute_requests = CASE WHEN excluded.minute > u.minute THEN excluded.minute_requests
		WHEN excluded.minute = u.minute THEN u.minute_requests + excluded.minute_requests ELSE u.minute_requests END,
	hour = GREATEST(u.hour, excluded.hour),
	hour_requests = CASE WHEN excluded.hour > u.hour THEN excluded.hour_requests
		WHEN excluded.hour = u.hour THEN u.hour_requests + excluded.hour_requests ELSE u.hour_requests END
RETURNING *`

// add writes the counts of at most maxWriteBatch organizations to the windows that
// contain the time, and returns their rows.
func (s *Service) add(ctx context.Context, ids []uuid.UUID, requests []int64, now time.Time) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var rows []row
	err := s.opts.System.SelectContext(ctx, &rows, addSQL,
		pq.Array(ids), pq.Array(requests), now.Truncate(time.Minute), now.Truncate(time.Hour))
	if err != nil {
		return nil, fmt.Errorf("write the request counts: %w", err)
	}
	return rows, nil
}
