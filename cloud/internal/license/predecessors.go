package license

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// conflictWindow is how long after its last heartbeat another boot of a machine is
// considered alive. It is longer than the usual pause between two heartbeats.
const conflictWindow = 2 * HeartbeatInterval

// Predecessors are the boots that a worker knows to have ended before its own boot
// began, because it has exclusive use of its data directory. Known is false for a
// worker that does not report them: it is considered a restart of its machine.
type Predecessors struct {
	Known bool
	Boots []uuid.UUID
}

// flagDuplicatesSQL flags two workers with one machine id: the machine's boot reported
// recently and is not a predecessor of the reporting boot. The boot that is not (or
// no longer) the machine's, the older one by version 7 id, is recorded as a superseded
// boot that is alive, so that each boot speaks for its own sessions. The boot that is
// not reporting now is considered alive until its window is over, or for as long as it
// keeps reporting.
const flagDuplicatesSQL = `
WITH other AS (
	SELECT m.boot_id, m.seq, m.heartbeat_at, clock_timestamp() AS now,
		substr(($3::uuid)::text, 15, 1) = '7' AND substr(m.boot_id::text, 15, 1) = '7' AND $3::uuid < m.boot_id AS newer
	FROM license_machines m
	WHERE m.organization_id = $1 AND m.machine_id = $2 AND m.boot_id <> $3::uuid AND m.boot_id <> ALL ($4::uuid[])
		AND $3::uuid <> ALL (m.past_boots) AND m.heartbeat_at > clock_timestamp() - make_interval(secs => $6::float8)
), flagged AS (
	INSERT INTO license_superseded_boots AS l (organization_id, machine_id, boot_id, seq, since, heartbeat_at, alive_since)
	SELECT $1, $2, CASE WHEN newer THEN $3::uuid ELSE o.boot_id END, CASE WHEN newer THEN 0 ELSE o.seq END, now,
		CASE WHEN newer THEN now ELSE o.heartbeat_at - make_interval(secs => $5::float8 - $6::float8) END, now
	FROM other o
	ON CONFLICT (organization_id, machine_id, boot_id) DO UPDATE
	SET seq = excluded.seq, since = excluded.since, heartbeat_at = excluded.heartbeat_at, alive_since = excluded.alive_since
	WHERE l.alive_since IS NULL OR NOT ` + supersededBootIsFresh + `
	RETURNING boot_id
), recorded AS (
	INSERT INTO license_events (organization_id, kind, machine_id, boot_id) SELECT $1, 'machineDuplicated', $2, boot_id FROM flagged
)
SELECT boot_id FROM flagged`

// flagDuplicates compares the reporting boot with the machine's, if the worker reports
// its predecessors. It runs in the transaction that registers the boot.
func (s *Service) flagDuplicates(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, machineID string, bootID uuid.UUID, predecessors Predecessors) error {
	if !predecessors.Known {
		return nil
	}
	var others []uuid.UUID
	err := tx.StmtxContext(ctx, s.stmts.flagDuplicates).SelectContext(ctx, &others, orgID, machineID, bootID, uuidArray(predecessors.Boots),
		HeartbeatTTL.Seconds(), conflictWindow.Seconds())
	if err != nil {
		return fmt.Errorf("look for another worker with the machine id: %w", err)
	}
	for _, other := range others {
		s.totals.duplicates.Add(1)
		s.logger.WarnContext(ctx, "two workers use one machine id", "org", orgID, "machine", machineID, "boot", bootID, "otherBoot", other)
	}
	return nil
}

// registerHeartbeat flags duplicates and registers the boot of a heartbeat in one
// transaction, so that of two concurrent heartbeats one sees the other.
func (s *Service) registerHeartbeat(ctx context.Context, report HeartbeatReport) error {
	if !report.Predecessors.Known {
		return nil
	}
	return s.db.tx(ctx, report.OrgID, func(tx *sqlx.Tx) error {
		if err := s.flagDuplicates(ctx, tx, report.OrgID, report.MachineID, report.BootID, report.Predecessors); err != nil {
			return err
		}
		var now time.Time
		err := tx.StmtxContext(ctx, s.stmts.register).GetContext(ctx, &now,
			report.OrgID, report.MachineID, report.BootID, 0, HeartbeatTTL.Seconds())
		if err != nil {
			return fmt.Errorf("register the boot: %w", err)
		}
		return nil
	})
}
