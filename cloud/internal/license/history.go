package license

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	historySpan = 24 * time.Hour // default of a HistoryRequest, like historyStep
	historyStep = 15 * time.Minute
	maxHistory  = 1000 // points
)

// HistoryRequest selects a History. The zero value selects the last 24 hours.
type HistoryRequest struct {
	From *time.Time    // default: 24 hours before To
	To   *time.Time    // default, and latest: now
	Step time.Duration // divides a day; default historyStep
}

// History is the concurrency of an organization now and over time.
type History struct {
	At time.Time // of the current values, by the database's clock
	Usage
	Running  int
	Reserved int
	Step     time.Duration
	From, To time.Time  // the time that the points cover
	DataFrom *time.Time // values before this time would be incomplete; nil if history is kept forever
	Points   []Point    // earliest first
}

// Point is one step of a History. Running and Reserved are the values at its end.
type Point struct {
	At       time.Time `db:"at"` // its start
	Running  int       `db:"running"`
	Reserved int       `db:"reserved"`
	Maximum  int       `db:"maximum"` // of the slots in use during the step
	Limit    *int      // at its end; nil is unlimited
	Refused  int64     // launches and starts
}

// historySQL counts the slots of the steps from $2 to $3, each $4 seconds long, $5 in
// total. A slot is in use from its reservation to its release, except between a release
// without an end report and its adoption. A change at the start of a step belongs to
// that step. At the same time, releases come first, so that a slot that is passed on
// counts once.
const historySQL = `
WITH slots AS (
	SELECT s.id, GREATEST(s.reserved_at, $2) AS taken, COALESCE(s.released_at, 'infinity') AS freed,
		GREATEST(LEAST(s.started_at, s.released_at), $2) AS started, s.started_at IS NOT NULL AS ran
	FROM (
		SELECT * FROM license_slots WHERE organization_id = $1 AND released_at IS NULL
		UNION ALL
		SELECT * FROM license_slots WHERE organization_id = $1 AND released_at > $2
	) s
	WHERE s.machine_id IS NOT NULL AND s.reserved_at < $3
), gaps AS (
	SELECT GREATEST(e.at, $2) AS freed, a.at AS adopted, (s.ran AND s.started <= GREATEST(e.at, $2))::int AS ran
	FROM license_events a JOIN slots s ON s.id = a.slot_id
	CROSS JOIN LATERAL (
		SELECT max(at) AS at FROM license_events r
		WHERE r.organization_id = $1 AND r.session_id = a.session_id AND r.kind IN ('lapsed', 'omitted') AND r.at < a.at) e
	WHERE a.organization_id = $1 AND a.kind = 'adopted' AND a.at > $2
), changes (at, used, running) AS (
	SELECT $2::timestamptz + make_interval(secs => $4::float8 * i), 0, 0 FROM generate_series(0, $5::int - 1) AS i
	UNION ALL SELECT taken, 1, 0 FROM slots
	UNION ALL SELECT started, 0, 1 FROM slots WHERE ran
	UNION ALL SELECT freed, -1, -ran::int FROM slots
	UNION ALL SELECT freed, -1, -ran FROM gaps
	UNION ALL SELECT adopted, 1, ran FROM gaps
), totals AS (
	SELECT at, used, running, sum(used) OVER (ORDER BY at, used ROWS UNBOUNDED PRECEDING) AS total
	FROM changes WHERE at < $3
), steps AS (
	SELECT date_bin(make_interval(secs => $4::float8), at, $2) AS at, max(total) AS maximum, sum(used) AS used, sum(running) AS running
	FROM totals GROUP BY 1
)
SELECT at, maximum, sum(running) OVER w AS running, sum(used - running) OVER w AS reserved
FROM steps WINDOW w AS (ORDER BY at) ORDER BY at`

// historyRefusedSQL counts the refusals of each step that has some.
const historyRefusedSQL = `
SELECT date_bin(make_interval(secs => $4::float8), at, $2) AS at, sum(count) AS refused
FROM license_events WHERE organization_id = $1 AND kind = 'refused' AND at >= $2 AND at < $3 GROUP BY 1`

// historyLimitsSQL lists the changes of the limit since $2 with the limit before each.
const historyLimitsSQL = `
SELECT at, previous FROM license_events
WHERE organization_id = $1 AND kind = 'limitChanged' AND at >= $2 ORDER BY at, id`

// History returns the concurrency now and over time, from one snapshot. Steps start at
// multiples of their length in UTC. It leaves out steps that start before DataFrom and
// steps that have not started. It returns Validation for more than 1,000 points.
func (s *Service) History(ctx context.Context, orgID uuid.UUID, req HistoryRequest) (History, error) {
	var history History
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) (err error) {
		history, err = s.history(ctx, tx, orgID, req)
		return err
	})
	return history, notFoundIfRemoved(err)
}

func (s *Service) history(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, req HistoryRequest) (History, error) {
	var counts struct {
		Now time.Time `db:"now"`
		Usage
		Running  int `db:"running"`
		Reserved int `db:"reserved"`
	}
	if err := tx.GetContext(ctx, &counts, `SELECT now(), c.* FROM (`+countsSQL+`) c`, orgID); err != nil {
		return History{}, fmt.Errorf("count the slots: %w", err)
	}
	history := History{
		At: counts.Now.UTC(), Usage: counts.Usage, Running: counts.Running, Reserved: counts.Reserved, Step: req.step(), Points: []Point{},
	}
	if retention := s.opts.Retention; retention > 0 {
		history.DataFrom = new(history.At.Add(-retention))
	}
	start, end, n, err := req.steps(history.At, history.DataFrom)
	history.From, history.To = start, end
	if err != nil || n <= 0 {
		return history, err
	}
	bounds := []any{orgID, start, end, history.Step.Seconds()}
	if err := tx.SelectContext(ctx, &history.Points, historySQL, append(bounds, n)...); err != nil {
		return History{}, fmt.Errorf("count the slots of each step: %w", err)
	}
	if err := addRefusals(ctx, tx, history.Points, bounds); err != nil {
		return History{}, err
	}
	return history, addLimits(ctx, tx, history, orgID, start)
}

func (r HistoryRequest) step() time.Duration {
	if r.Step == 0 {
		return historyStep
	}
	return r.Step
}

// steps returns the start of the first step, the end of the series and the number of
// steps.
func (r HistoryRequest) steps(now time.Time, dataFrom *time.Time) (start, end time.Time, n int, err error) {
	end = now
	if r.To != nil {
		end = *r.To
	}
	start = end.Add(-historySpan)
	if r.From != nil {
		start = *r.From
	}
	if !start.Before(end) {
		return start, end, 0, fault.Field("from", "must be before to")
	}
	if end.After(now) {
		end = now
	}
	step := r.step()
	start = start.UTC().Truncate(step)
	if end.Sub(start) > maxHistory*step {
		return start, end, 0, fault.Field("step", fmt.Sprintf("is too short: the series would have more than %d steps", maxHistory))
	}
	if dataFrom != nil && start.Before(*dataFrom) {
		start = dataFrom.Add(step - 1).Truncate(step)
	}
	return start, end, int((end.Sub(start) + step - 1) / step), nil
}

// addRefusals sets Refused of the points.
func addRefusals(ctx context.Context, tx *sqlx.Tx, points []Point, bounds []any) error {
	var rows []struct {
		At      time.Time `db:"at"`
		Refused int64     `db:"refused"`
	}
	if err := tx.SelectContext(ctx, &rows, historyRefusedSQL, bounds...); err != nil {
		return fmt.Errorf("count the refusals of each step: %w", err)
	}
	refused := map[int64]int64{}
	for _, row := range rows {
		refused[row.At.Unix()] = row.Refused
	}
	for i := range points {
		points[i].At = points[i].At.UTC()
		points[i].Refused = refused[points[i].At.Unix()]
	}
	return nil
}

// addLimits sets Limit of the points: the limit before the first change after the end
// of the step, or the current limit.
func addLimits(ctx context.Context, tx *sqlx.Tx, history History, orgID uuid.UUID, start time.Time) error {
	var changes []struct {
		At       time.Time `db:"at"`
		Previous *int      `db:"previous"`
	}
	if err := tx.SelectContext(ctx, &changes, historyLimitsSQL, orgID, start); err != nil {
		return fmt.Errorf("list the changes of the limit: %w", err)
	}
	limit := history.Limit
	for i := len(history.Points) - 1; i >= 0; i-- {
		end := history.Points[i].At.Add(history.Step)
		for len(changes) > 0 && !changes[len(changes)-1].At.Before(end) {
			limit, changes = changes[len(changes)-1].Previous, changes[:len(changes)-1]
		}
		history.Points[i].Limit = limit
	}
	return nil
}
