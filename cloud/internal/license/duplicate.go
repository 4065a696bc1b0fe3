package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// supersededBootDelay is how long after its first late report a superseded boot must report
// again, with a later seq, to be considered alive. Reports that a worker sent before
// it ended do not arrive that far apart.
const supersededBootDelay = 10 * time.Second

// supersededBootSQL records the report of a boot that was replaced. If the boot is proven
// alive, the report extends leases like refreshSQL, but releases only the boot's own
// sessions.
const supersededBootSQL = `
WITH late AS (
	INSERT INTO license_superseded_boots AS l (organization_id, machine_id, boot_id, seq, since, heartbeat_at)
	SELECT $1, $2, $3, $6, clock_timestamp(), clock_timestamp() FROM license_machines m
	WHERE m.organization_id = $1 AND m.machine_id = $2 AND m.boot_id <> $3
	ON CONFLICT (organization_id, machine_id, boot_id) DO UPDATE
	SET seq = excluded.seq, heartbeat_at = excluded.heartbeat_at,
		since = CASE WHEN ` + supersededBootIsFresh + ` THEN l.since ELSE excluded.since END,
		alive_since = CASE WHEN ` + supersededBootIsFresh + ` THEN COALESCE(l.alive_since, CASE
			WHEN l.seq < excluded.seq AND l.since <= clock_timestamp() - make_interval(secs => $7) THEN clock_timestamp() END) END
	WHERE l.seq <= excluded.seq
	RETURNING alive_since
), alive AS (
	SELECT FROM late WHERE alive_since IS NOT NULL
), recorded AS (
	INSERT INTO license_events (organization_id, kind, machine_id, boot_id)
	SELECT $1, 'machineDuplicated', $2, $3 FROM alive
	WHERE NOT EXISTS (SELECT FROM license_superseded_boots l WHERE l.organization_id = $1 AND l.machine_id = $2 AND l.boot_id = $3 AND l.alive_since IS NOT NULL AND ` + supersededBootIsFresh + `)
	RETURNING id
), refreshed AS (
	UPDATE license_slots s
	SET heartbeat_at = clock_timestamp(), first_heartbeat_at = COALESCE(s.first_heartbeat_at, clock_timestamp()),
		lease_until = clock_timestamp() + make_interval(secs => $5), boot_id = $3
	FROM alive, unnest($4::uuid[]) AS l (session_id)
	WHERE s.organization_id = $1 AND s.session_id = l.session_id AND s.machine_id = $2 AND s.released_at IS NULL
	RETURNING s.session_id
)
SELECT EXISTS (SELECT FROM late) AS later, EXISTS (SELECT FROM alive) AS applied, EXISTS (SELECT FROM recorded) AS found,
	ARRAY (SELECT session_id FROM refreshed) AS accepted,
	EXISTS (SELECT FROM license_slots s, alive
		WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
			AND s.boot_id = $3 AND s.state = 'running' AND s.seq <= $6
			AND s.session_id NOT IN (SELECT unnest($4::uuid[]))) AS omits`

// supersededBootIsFresh is true if a superseded boot (l) still reports.
const supersededBootIsFresh = `l.heartbeat_at > clock_timestamp() - make_interval(secs => $5)`

// lockSupersededBootSQL locks a superseded boot that is alive, if this heartbeat is still its
// latest.
const lockSupersededBootSQL = `
SELECT '{}'::uuid[] FROM license_superseded_boots
WHERE organization_id = $1 AND machine_id = $2 AND boot_id = $3 AND seq = $4 AND alive_since IS NOT NULL FOR UPDATE`

// applySupersededHeartbeat applies a heartbeat that is not accepted for the machine: an old
// one, or one of a superseded boot. The latter counts only if the boot keeps reporting.
func (s *Service) applySupersededHeartbeat(ctx context.Context, report HeartbeatReport) (HeartbeatResult, error) {
	row, err := s.recordSupersededBoot(ctx, report)
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
			result.Next = shortestPause // to find out soon whether the boot is alive
		}
		return result, nil
	}
	return s.applyChanges(ctx, report, row.Accepted, row.Omits, true)
}

// supersededBoot is a row of supersededBootSQL.
type supersededBoot struct {
	Later    bool     `db:"later"`
	Applied  bool     `db:"applied"`
	Found    bool     `db:"found"`
	Accepted uuidList `db:"accepted"`
	Omits    bool     `db:"omits"`
}

// recordSupersededBoot runs supersededBootSQL and retries after a deadlock, like refresh.
func (s *Service) recordSupersededBoot(ctx context.Context, report HeartbeatReport) (row supersededBoot, err error) {
	for range maxAttempts {
		row = supersededBoot{}
		err = s.db.get(ctx, s.stmts.supersededBoot, &row, report.OrgID, report.MachineID, report.BootID,
			uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq, supersededBootDelay.Seconds())
		if !isLostRace(err) {
			break
		}
	}
	if err != nil {
		return supersededBoot{}, fmt.Errorf("record the heartbeat of a superseded boot: %w", err)
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

// deleteSupersededBootsSQL deletes boots that no longer report, and records an event for
// machines that have one worker again.
const deleteSupersededBootsSQL = `
WITH old AS (
	SELECT organization_id, machine_id, boot_id FROM license_superseded_boots
	WHERE heartbeat_at <= now() - make_interval(secs => $1) LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM license_superseded_boots l USING old
	WHERE l.organization_id = old.organization_id AND l.machine_id = old.machine_id AND l.boot_id = old.boot_id
	RETURNING l.organization_id, l.machine_id, l.boot_id, l.alive_since
), recorded AS (
	INSERT INTO license_events (organization_id, kind, machine_id, boot_id)
	SELECT DISTINCT ON (g.organization_id, g.machine_id) g.organization_id, 'machineAlone', g.machine_id, g.boot_id FROM gone g
	WHERE g.alive_since IS NOT NULL AND NOT EXISTS (SELECT FROM license_superseded_boots l
		WHERE l.organization_id = g.organization_id AND l.machine_id = g.machine_id AND l.alive_since IS NOT NULL
			AND l.heartbeat_at > now() - make_interval(secs => $1))
)
SELECT count(*) FROM gone`

// deleteSupersededBoots deletes up to expireBatch boots and returns their number.
func (s *Service) deleteSupersededBoots(ctx context.Context) (n int, err error) {
	if err := s.db.db.GetContext(ctx, &n, deleteSupersededBootsSQL, HeartbeatTTL.Seconds(), expireBatch); err != nil {
		return 0, fmt.Errorf("delete superseded boots: %w", err)
	}
	return n, nil
}

// lockReporter locks the row that a heartbeat speaks for, the machine or the
// superseded boot, and returns the boots that it replaced. ok is false if a later
// heartbeat was applied.
func (s *Service) lockReporter(ctx context.Context, tx *sqlx.Tx, report HeartbeatReport, late bool) (past uuidList, ok bool, err error) {
	args := []any{report.OrgID, report.MachineID, report.BootID, report.Seq}
	if late {
		err = tx.GetContext(ctx, &past, lockSupersededBootSQL, args...)
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
