package license

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// maxListed bounds the sessions and duplicates of an Overview (specification 8.5).
const maxListed = 500

// Overview is the concurrency usage of an organization (specification 4.2). Sessions
// are the running ones, longest running first; Duplicates are sorted by machine id.
// Each has at most 500 entries.
type Overview struct {
	Usage
	Running    int
	Reserved   int
	Sessions   []RunningSession
	Duplicates []DuplicateMachine
}

// RunningSession is a session that counts toward the limit (specification 2.5). Stale
// means that a reclaim would end it now.
type RunningSession struct {
	SessionID   uuid.UUID  `db:"session_id"`
	ProfileID   *uuid.UUID `db:"profile_id"`
	MachineID   string     `db:"machine_id"`
	StartedAt   time.Time  `db:"started_at"`
	HeartbeatAt *time.Time `db:"heartbeat_at"`
	Stale       bool       `db:"stale"`
}

const countsSQL = `
SELECT o.in_use, o.max_slots,
	count(*) FILTER (WHERE s.state = 'running') AS running,
	count(*) FILTER (WHERE s.state = 'reserved') AS reserved
FROM license_org o LEFT JOIN license_slots s ON s.organization_id = o.organization_id AND s.released_at IS NULL
WHERE o.organization_id = $1 GROUP BY o.organization_id`

const runningSQL = `
SELECT session_id, profile_id, machine_id, started_at, heartbeat_at, license_stale(lease_until) AS stale
FROM license_slots
WHERE organization_id = $1 AND released_at IS NULL AND state = 'running'
ORDER BY started_at, id LIMIT $2`

// Sessions returns the overview, from one snapshot.
func (s *Service) Sessions(ctx context.Context, orgID uuid.UUID) (Overview, error) {
	var overview Overview
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) (err error) {
		overview, err = overviewOf(ctx, tx, orgID)
		return err
	})
	for i := range overview.Sessions {
		row := &overview.Sessions[i]
		row.StartedAt, row.HeartbeatAt = row.StartedAt.UTC(), utc(row.HeartbeatAt)
	}
	for i := range overview.Duplicates {
		overview.Duplicates[i].Since = overview.Duplicates[i].Since.UTC()
	}
	return overview, err
}

func overviewOf(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (Overview, error) {
	var counts struct {
		Usage
		Running  int `db:"running"`
		Reserved int `db:"reserved"`
	}
	if err := tx.GetContext(ctx, &counts, countsSQL, orgID); err != nil {
		return Overview{}, fmt.Errorf("count the slots: %w", err)
	}
	overview := Overview{Usage: counts.Usage, Running: counts.Running, Reserved: counts.Reserved}
	if err := tx.SelectContext(ctx, &overview.Sessions, runningSQL, orgID, maxListed); err != nil {
		return Overview{}, fmt.Errorf("list the running sessions: %w", err)
	}
	err := tx.SelectContext(ctx, &overview.Duplicates, duplicatesSQL, orgID, HeartbeatTTL.Seconds(), maxListed)
	if err != nil {
		return Overview{}, fmt.Errorf("list the duplicate machine ids: %w", err)
	}
	return overview, nil
}

// LiveByProfile returns the number of running sessions of each profile. Profiles
// without one are left out.
func (s *Service) LiveByProfile(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID, profileIDs []uuid.UUID) (map[uuid.UUID]int, error) {
	var rows []struct {
		ProfileID uuid.UUID `db:"profile_id"`
		Running   int       `db:"running"`
	}
	err := sqlx.SelectContext(ctx, q, &rows, `
		SELECT profile_id, count(*) AS running FROM license_slots
		WHERE organization_id = $1 AND released_at IS NULL AND state = 'running' AND profile_id = ANY ($2)
		GROUP BY profile_id`, orgID, pq.Array(profileIDs))
	if err != nil {
		return nil, fmt.Errorf("count the running sessions of profiles: %w", err)
	}
	live := make(map[uuid.UUID]int, len(rows))
	for _, row := range rows {
		live[row.ProfileID] = row.Running
	}
	return live, nil
}

// HeldByProfile returns the number of slots of a profile: running sessions and
// reservations.
func (s *Service) HeldByProfile(ctx context.Context, q sqlx.QueryerContext, orgID, profileID uuid.UUID) (int, error) {
	var n int
	err := sqlx.GetContext(ctx, q, &n, `
		SELECT count(*) FROM license_slots WHERE organization_id = $1 AND released_at IS NULL AND profile_id = $2`, orgID, profileID)
	if err != nil {
		return 0, fmt.Errorf("count the slots of a profile: %w", err)
	}
	return n, nil
}

// LiveProfiles returns the number of profiles with a running session.
func (s *Service) LiveProfiles(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (int, error) {
	var n int
	err := sqlx.GetContext(ctx, q, &n, `
		SELECT count(DISTINCT profile_id) FROM license_slots
		WHERE organization_id = $1 AND released_at IS NULL AND state = 'running'`, orgID)
	if err != nil {
		return 0, fmt.Errorf("count the running profiles: %w", err)
	}
	return n, nil
}
