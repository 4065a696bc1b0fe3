package license

import (
	"database/sql"
	"fmt"
)

// releaseSQL ends slots, each with the first applicable report, and returns the state
// of all sessions. It locks slots in a fixed order and leaves the counter to
// adjustCounterSQL. The end time is clamped to the time between the start and now.
// Sessions without a status are only locked and read. The chosen rows are updated
// through a conflict on their primary key, which uses the index even if the planner
// considers the table small enough to scan.
const releaseSQL = `
WITH wanted AS (
	SELECT w.* FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[]) WITH ORDINALITY
		AS w (session_id, profile_id, at, status, reason, place)
), found AS (
	SELECT s.* FROM (SELECT DISTINCT session_id FROM wanted ORDER BY session_id) w
	CROSS JOIN LATERAL (SELECT s.* FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = w.session_id FOR UPDATE) s
), chosen AS (
	SELECT DISTINCT ON (f.id) f.*, w.at, w.status, w.reason
	FROM found f JOIN wanted w USING (session_id)
	WHERE w.status IS NOT NULL AND COALESCE(f.profile_id = w.profile_id, true) AND f.release_reason IS DISTINCT FROM 'ended'
	ORDER BY f.id, w.place
), ended AS (
	INSERT INTO license_slots AS s (id, organization_id, session_id, reserved_at, lease_until,
		state, released_at, release_reason, ended_at, end_status, end_reason)
	SELECT c.id, c.organization_id, c.session_id, c.reserved_at, c.lease_until,
		'released', COALESCE(c.released_at, now), 'ended', GREATEST(c.started_at, LEAST(c.at, now)), c.status::license_end_status, c.reason
	FROM chosen c, clock_timestamp() AS now
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, released_at = excluded.released_at,
		release_reason = excluded.release_reason, ended_at = excluded.ended_at,
		end_status = excluded.end_status, end_reason = excluded.end_reason
	RETURNING ` + slotColumns + `
)
SELECT ` + slotColumns + `, true AS ended, c.state <> 'released' AS freed FROM ended s JOIN chosen c USING (id)
UNION ALL
SELECT ` + slotColumns + `, false, false FROM found s WHERE NOT EXISTS (SELECT FROM chosen c WHERE c.id = s.id)`

// releasedSlot is a row of releaseSQL.
type releasedSlot struct {
	slot
	endedNow bool
	freedNow bool // it was live before
}

// scanReleased reads the rows of releaseSQL.
func scanReleased(result *sql.Rows, err error) ([]releasedSlot, error) {
	if err != nil {
		return nil, fmt.Errorf("end the sessions: %w", err)
	}
	defer result.Close()
	var found []releasedSlot
	for result.Next() {
		var row releasedSlot
		if err := result.Scan(append(row.scanTargets(), &row.endedNow, &row.freedNow)...); err != nil {
			return nil, fmt.Errorf("read the ended sessions: %w", err)
		}
		found = append(found, row)
	}
	if err := result.Err(); err != nil {
		return nil, fmt.Errorf("end the sessions: %w", err)
	}
	return found, nil
}

// releaseArrays are the columns of releases as arrays. For an undo all but the session
// are null.
type releaseArrays struct{ sessions, profiles, times, statuses, reasons []byte }

func newReleaseArrays(batch []release) releaseArrays {
	column := func(kind elementType, add func(raw []byte, r EndReport) []byte) []byte {
		return binaryArray(kind, batch, func(raw []byte, r release) []byte {
			if r.isUndo {
				return nil
			}
			return add(raw, r.report)
		})
	}
	return releaseArrays{
		sessions: binaryArray(uuidElement, batch, func(raw []byte, r release) []byte { return appendUUID(raw, r.report.SessionID) }),
		profiles: column(uuidElement, func(raw []byte, r EndReport) []byte { return appendUUID(raw, r.ProfileID) }),
		times:    column(timeElement, func(raw []byte, r EndReport) []byte { return appendTime(raw, r.EndedAt) }),
		statuses: column(textElement, func(raw []byte, r EndReport) []byte { return appendText(raw, string(r.Status)) }),
		reasons:  column(textElement, func(raw []byte, r EndReport) []byte { return appendText(raw, string(r.EndReason)) }),
	}
}
