package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// staleBootDelay is how much later than its first late report a boot that was
// replaced must report again, with a later seq, to be alive for certain: what a
// worker sent before it ended doesn't arrive so long one after the other.
const staleBootDelay = 10 * time.Second

// staleBootSQL takes in the report of a boot that another one has replaced. When the
// boot proved to be alive, the report holds what it lists like refreshSQL, but
// releases only sessions of its own.
const staleBootSQL = `
WITH late AS (
	INSERT INTO license_superseded_boots AS l (organization_id, machine_id, boot_id, seq, since, heartbeat_at)
	SELECT $1, $2, $3, $6, clock_timestamp(), clock_timestamp() FROM license_machines m
	WHERE m.organization_id = $1 AND m.machine_id = $2 AND m.boot_id <> $3
	ON CONFLICT (organization_id, machine_id, boot_id) DO UPDATE
	SET seq = excluded.seq, heartbeat_at = excluded.heartbeat_at,
		since = CASE WHEN ` + staleBootIsFresh + ` THEN l.since ELSE excluded.since END,
		alive_since = CASE WHEN ` + staleBootIsFresh + ` THEN COALESCE(l.alive_since, CASE
			WHEN l.seq < excluded.seq AND l.since <= clock_timestamp() - make_interval(secs => $7) THEN clock_timestamp() END) END
	WHERE l.seq <= excluded.seq
	RETURNING alive_since
), alive AS (
	SELECT FROM late WHERE alive_since IS NOT NULL
), told AS (
	INSERT INTO license_events (organization_id, kind, machine_id, boot_id)
	SELECT $1, 'machineDuplicated', $2, $3 FROM alive
	WHERE NOT EXISTS (SELECT FROM license_superseded_boots l WHERE l.organization_id = $1 AND l.machine_id = $2 AND l.boot_id = $3 AND l.alive_since IS NOT NULL AND ` + staleBootIsFresh + `)
	RETURNING id
), refreshed AS (
	UPDATE license_slots s
	SET heartbeat_at = clock_timestamp(), first_heartbeat_at = COALESCE(s.first_heartbeat_at, clock_timestamp()),
		lease_until = clock_timestamp() + make_interval(secs => $5), boot_id = $3
	FROM alive, unnest($4::uuid[]) AS l (session_id)
	WHERE s.organization_id = $1 AND s.session_id = l.session_id AND s.machine_id = $2 AND s.released_at IS NULL
	RETURNING s.session_id
)
SELECT EXISTS (SELECT FROM late) AS later, EXISTS (SELECT FROM alive) AS applied, EXISTS (SELECT FROM told) AS found,
	ARRAY (SELECT session_id FROM refreshed) AS accepted,
	EXISTS (SELECT FROM license_slots s, alive
		WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
			AND s.boot_id = $3 AND s.state = 'running' AND s.seq <= $6
			AND s.session_id NOT IN (SELECT unnest($4::uuid[]))) AS omits`

// staleBootIsFresh tells that a late boot (l) is still heard of.
const staleBootIsFresh = `l.heartbeat_at > clock_timestamp() - make_interval(secs => $5)`

// lockStaleBootSQL locks a late boot that is alive if this heartbeat is still its
// last.
const lockStaleBootSQL = `
SELECT '{}'::uuid[] FROM license_superseded_boots
WHERE organization_id = $1 AND machine_id = $2 AND boot_id = $3 AND seq = $4 AND alive_since IS NOT NULL FOR UPDATE`

// staleBoot takes in a heartbeat that the machine's row refused: an old one, or one
// of a boot that was replaced, which is an old one too unless the boot goes on
// reporting.
func (s *Service) applyStaleHeartbeat(ctx context.Context, report HeartbeatReport) (HeartbeatResult, error) {
	row, err := s.recordStaleBoot(ctx, report)
	if err != nil {
		return HeartbeatResult{}, err
	}
	if row.Found {
		s.totals.duplicates.Add(1)
		s.logger.WarnContext(ctx, "two workers use one machine id", "org", report.OrgID, "machine", report.MachineID, "boot", report.BootID)
	}
	if !row.Applied {
		result := HeartbeatResult{Next: s.pacer.nextPause(report.OrgID, report.MachineID, 0)}
		if row.Later {
			result.Next = shortestPause // soon it is clear whether the boot is alive
		}
		return result, nil
	}
	return s.applyChanges(ctx, report, row.Accepted, row.Omits, true)
}

// staleBoot is what staleBootSQL tells.
type staleBoot struct {
	Later    bool     `db:"later"`
	Applied  bool     `db:"applied"`
	Found    bool     `db:"found"`
	Accepted uuidList `db:"accepted"`
	Omits    bool     `db:"omits"`
}

// recordStaleBoot runs staleBootSQL, again after a deadlock like refresh.
func (s *Service) recordStaleBoot(ctx context.Context, report HeartbeatReport) (row staleBoot, err error) {
	for range maxAttempts {
		row = staleBoot{}
		err = s.db.get(ctx, s.stmts.staleBoot, &row, report.OrgID, report.MachineID, report.BootID,
			uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq, staleBootDelay.Seconds())
		if !isLostRace(err) {
			break
		}
	}
	if err != nil {
		return staleBoot{}, fmt.Errorf("take in the heartbeat of a boot that was replaced: %w", err)
	}
	return row, nil
}

// DuplicateMachine is a machine id that several running workers use.
type DuplicateMachine struct {
	MachineID string    `db:"machine_id"`
	BootIDs   uuidList  `db:"boot_ids"` // the machine's own first
	Since     time.Time `db:"since"`
}

const duplicatesSQL = `
SELECT m.machine_id, min(l.alive_since) AS since,
	m.boot_id || (array_agg(l.boot_id ORDER BY l.heartbeat_at DESC))[:999] AS boot_ids
FROM license_machines m JOIN license_superseded_boots l USING (organization_id, machine_id)
WHERE m.organization_id = $1 AND l.boot_id <> m.boot_id AND l.alive_since IS NOT NULL
	AND l.heartbeat_at > now() - make_interval(secs => $2) AND m.heartbeat_at > now() - make_interval(secs => $2)
GROUP BY m.organization_id, m.machine_id ORDER BY m.machine_id LIMIT $3`

// deleteStaleBootsSQL forgets boots that are heard of no more, and tells of machines
// that are one worker's again.
const deleteStaleBootsSQL = `
WITH old AS (
	SELECT organization_id, machine_id, boot_id FROM license_superseded_boots
	WHERE heartbeat_at <= now() - make_interval(secs => $1) LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM license_superseded_boots l USING old
	WHERE l.organization_id = old.organization_id AND l.machine_id = old.machine_id AND l.boot_id = old.boot_id
	RETURNING l.organization_id, l.machine_id, l.boot_id, l.alive_since
), told AS (
	INSERT INTO license_events (organization_id, kind, machine_id, boot_id)
	SELECT DISTINCT ON (g.organization_id, g.machine_id) g.organization_id, 'machineAlone', g.machine_id, g.boot_id FROM gone g
	WHERE g.alive_since IS NOT NULL AND NOT EXISTS (SELECT FROM license_superseded_boots l
		WHERE l.organization_id = g.organization_id AND l.machine_id = g.machine_id AND l.alive_since IS NOT NULL
			AND l.heartbeat_at > now() - make_interval(secs => $1))
)
SELECT count(*) FROM gone`

// deleteStaleBoots forgets up to expireBatch boots and returns how many.
func (s *Service) deleteStaleBoots(ctx context.Context) (n int, err error) {
	if err := s.db.db.GetContext(ctx, &n, deleteStaleBootsSQL, HeartbeatTTL.Seconds(), expireBatch); err != nil {
		return 0, fmt.Errorf("forget boots that were replaced: %w", err)
	}
	return n, nil
}

// lockReporter locks what a heartbeat speaks for, the machine or the late boot, and
// returns the boots that it replaced; ok is false when a later one came in.
func (s *Service) lockReporter(ctx context.Context, tx *sqlx.Tx, report HeartbeatReport, late bool) (past uuidList, ok bool, err error) {
	args := []any{report.OrgID, report.MachineID, report.BootID, report.Seq}
	if late {
		err = tx.GetContext(ctx, &past, lockStaleBootSQL, args...)
	} else {
		err = tx.StmtxContext(ctx, s.stmts.lockMachine).GetContext(ctx, &past, args...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("lock the machine: %w", err)
	}
	return past, true, nil
}
