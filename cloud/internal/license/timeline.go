package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// maxMoments bounds a Timeline. A slot that was released and restored more often shows
// the latest moments.
const maxMoments = 900

// SlotState is the state of a slot.
type SlotState string

// Timeline is the history of a slot (specification 3.2).
type Timeline struct {
	SlotID         uuid.UUID  `db:"id"`
	SessionID      uuid.UUID  `db:"session_id"`
	ProfileID      *uuid.UUID `db:"profile_id"`
	KeyID          *uuid.UUID `db:"key_id"`
	MachineID      string     `db:"machine_id"`
	BootID         uuid.UUID  `db:"boot_id"`
	LaunchID       *uuid.UUID `db:"launch_id"`
	BrowserVersion *int       `db:"browser_version"`
	State          SlotState  `db:"state"`          // reserved, running or released
	LeaseUntil     *time.Time `db:"lease_until"`    // nil once released
	Stale          bool       `db:"stale"`          // a reclaim would release it now
	ReleaseReason  *string    `db:"release_reason"` // ended, omitted or lapsed
	EndStatus      *Status    `db:"end_status"`
	EndReason      *EndReason `db:"end_reason"`
	Moments        []Moment   // earliest first
}

// Moment is an entry of a Timeline.
type Moment struct {
	Kind string    `db:"kind"` // reserved, started, firstHeartbeat, lastHeartbeat, omitted, lapsed, adopted or released
	At   time.Time `db:"at"`
}

const timelineSQL = `
SELECT id, session_id, profile_id, key_id, machine_id, boot_id, launch_id, browser_version, state,
	CASE WHEN released_at IS NULL THEN lease_until END AS lease_until,
	released_at IS NULL AND license_stale(lease_until) AS stale, release_reason, end_status, end_reason,
	reserved_at, started_at, first_heartbeat_at, heartbeat_at, released_at
FROM license_slots WHERE organization_id = $1 AND machine_id IS NOT NULL AND boot_id IS NOT NULL`

// momentsSQL finds when the slot was released without a report and restored. Its last
// release is in the row itself.
const momentsSQL = `
SELECT kind, at FROM license_events
WHERE organization_id = $1 AND session_id = $2 AND kind IN ('lapsed', 'omitted', 'adopted')
	AND (kind, at) IS DISTINCT FROM ($3::text, $4::timestamptz)
ORDER BY at DESC LIMIT $5`

// Timeline returns the history of a slot of the organization; NotFound if it does not
// exist or was deleted.
func (s *Service) Timeline(ctx context.Context, orgID, slotID uuid.UUID) (Timeline, error) {
	var found Timeline
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) (err error) {
		found, err = readTimeline(ctx, tx, timelineSQL+` AND id = $2`, orgID, slotID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("slot")
		}
		return err
	})
	return found, err
}

// readTimeline reads the slot that the query finds, or returns sql.ErrNoRows.
func readTimeline(ctx context.Context, tx *sqlx.Tx, query string, orgID, id uuid.UUID) (Timeline, error) {
	var row struct {
		Timeline
		ReservedAt       time.Time  `db:"reserved_at"`
		StartedAt        *time.Time `db:"started_at"`
		FirstHeartbeatAt *time.Time `db:"first_heartbeat_at"`
		HeartbeatAt      *time.Time `db:"heartbeat_at"`
		ReleasedAt       *time.Time `db:"released_at"`
	}
	if err := tx.GetContext(ctx, &row, query, orgID, id); err != nil {
		return Timeline{}, fmt.Errorf("read the slot: %w", err)
	}
	err := tx.SelectContext(ctx, &row.Moments, momentsSQL, orgID, row.SessionID, row.ReleaseReason, row.ReleasedAt, maxMoments)
	if err != nil {
		return Timeline{}, fmt.Errorf("read the events of the slot: %w", err)
	}
	add := func(what string, t *time.Time) {
		if t != nil {
			row.Moments = append(row.Moments, Moment{Kind: what, At: *t})
		}
	}
	add("reserved", &row.ReservedAt)
	add("started", row.StartedAt)
	add("firstHeartbeat", row.FirstHeartbeatAt)
	if row.FirstHeartbeatAt != nil && row.HeartbeatAt != nil && row.HeartbeatAt.After(*row.FirstHeartbeatAt) {
		add("lastHeartbeat", row.HeartbeatAt)
	}
	if row.ReleaseReason != nil {
		what := *row.ReleaseReason
		if what == reasonEnded {
			what = "released"
		}
		add(what, row.ReleasedAt)
	}
	for i := range row.Moments {
		row.Moments[i].At = row.Moments[i].At.UTC()
	}
	slices.SortStableFunc(row.Moments, func(a, b Moment) int { return a.At.Compare(b.At) })
	row.LeaseUntil = utc(row.LeaseUntil)
	return row.Timeline, nil
}
