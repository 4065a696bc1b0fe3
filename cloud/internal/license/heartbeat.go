package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

// HeartbeatReport tells what one machine runs, at the moment that Seq marks
// among the starts and heartbeats of its boot.
type HeartbeatReport struct {
	OrgID     uuid.UUID
	MachineID string
	BootID    uuid.UUID
	Seq       int64
	Sessions  []uuid.UUID
}

// HeartbeatResult is what became of a heartbeat. Applied is false for one that
// is older than the last, or of a boot that was replaced: it changed nothing.
type HeartbeatResult struct {
	Applied  bool
	Accepted []uuid.UUID // listed, and counted
	Released []uuid.UUID // not listed, and over now
	Unknown  []uuid.UUID // listed, but never heard of or reported as ended
}

// omitted are the live slots (s) of a machine (m) that a heartbeat leaves out
// ($4) and is entitled to release: a session of another boot, or one that
// started before the heartbeat's moment; a reservation only of a boot that is
// gone, since one's own may be launching.
const omitted = `s.org_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
	AND NOT EXISTS (SELECT FROM unnest($4::uuid[]) AS l (session_id) WHERE l.session_id = s.session_id)
	AND CASE s.state WHEN 'running' THEN s.boot_id <> m.boot_id OR s.seq <= m.seq ELSE s.boot_id = ANY (m.past_boots) END`

// refreshSQL is the whole of an ordinary heartbeat: it moves the machine's
// fence and the leases of the listed live slots, and says whether there are
// others to release.
const refreshSQL = `
WITH machine AS (
	INSERT INTO license_machines AS m (org_id, machine_id, boot_id, seq, heartbeat_at)
	VALUES ($1, $2, $3, $6, clock_timestamp())
	ON CONFLICT (org_id, machine_id) DO UPDATE
	SET boot_id = excluded.boot_id, seq = excluded.seq, heartbeat_at = excluded.heartbeat_at, past_boots = ` + pastBoots + `
	WHERE CASE WHEN m.boot_id = excluded.boot_id THEN m.seq <= excluded.seq ELSE NOT ` + outdatedBoot + ` END
	RETURNING boot_id, seq, past_boots
), refreshed AS (
	UPDATE license_slots s
	SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $5), boot_id = m.boot_id
	FROM machine m, unnest($4::uuid[]) AS l (session_id)
	WHERE s.org_id = $1 AND s.session_id = l.session_id AND s.machine_id = $2 AND s.released_at IS NULL
	RETURNING s.session_id
)
SELECT EXISTS (SELECT FROM machine) AS applied,
	ARRAY (SELECT session_id FROM refreshed) AS accepted,
	EXISTS (SELECT FROM license_slots s, machine m WHERE ` + omitted + `) AS omits`

// fenceSQL locks the machine if this heartbeat is still its last.
const fenceSQL = `
SELECT true FROM license_machines
WHERE org_id = $1 AND machine_id = $2 AND boot_id = $3 AND seq = $4 FOR UPDATE`

const omitSQL = `
UPDATE license_slots s
SET state = 'released', released_at = clock_timestamp(), release_reason = 'omitted',
	ended_at = clock_timestamp(), end_status = 'exited', end_reason = 'unknown'
FROM license_machines m
WHERE m.org_id = $1 AND m.machine_id = $2 AND m.boot_id = $3 AND ` + omitted + `
RETURNING ` + slotColumns

// adoptSQL takes in again what was given up but is listed: only an end report
// is final. What never started waits for its start again.
const adoptSQL = `
UPDATE license_slots s
SET state = CASE WHEN s.started_at IS NULL THEN 'reserved' ELSE 'running' END, boot_id = $3,
	heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $5),
	released_at = NULL, release_reason = NULL, ended_at = NULL, end_status = NULL, end_reason = NULL
FROM unnest($4::uuid[]) AS l (session_id)
WHERE s.org_id = $1 AND s.session_id = l.session_id AND s.machine_id = $2
	AND s.state = 'released' AND s.release_reason <> 'ended'
RETURNING ` + slotColumns

// heldSQL finds those of the listed sessions that hold a slot of the machine.
const heldSQL = `
SELECT s.session_id FROM license_slots s JOIN unnest($3::uuid[]) AS l (session_id) USING (session_id)
WHERE s.org_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL`

// Heartbeat takes in what a machine runs (specification 3.2). The machine is the
// authority: what it omits is released, unless that started after the report
// was taken; what it lists is held for HeartbeatTTL, and taken in again where it
// had been given up, even above the limit.
func (s *Service) Heartbeat(ctx context.Context, report HeartbeatReport) (HeartbeatResult, error) {
	report.Sessions = distinct(report.Sessions)
	var row struct {
		Applied  bool     `db:"applied"`
		Accepted uuidList `db:"accepted"`
		Omits    bool     `db:"omits"`
	}
	err := s.stmts.refresh.GetContext(ctx, &row, report.OrgID, report.MachineID, report.BootID,
		pq.Array(report.Sessions), HeartbeatTTL.Seconds(), report.Seq)
	if err != nil {
		return HeartbeatResult{}, fmt.Errorf("take in the heartbeat: %w", err)
	}
	result := HeartbeatResult{Applied: row.Applied, Accepted: row.Accepted}
	if !row.Applied {
		return result, nil
	}
	missing := without(report.Sessions, result.Accepted)
	if !row.Omits && len(missing) == 0 {
		return result, nil
	}
	err = pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		result.Accepted, result.Released, result.Unknown = row.Accepted, nil, nil
		return s.settle(ctx, tx, report, missing, &result)
	})
	if err != nil {
		return HeartbeatResult{}, err
	}
	return result, nil
}

// settle releases what the heartbeat omits and adopts what it lists and the
// refresh did not find. A later heartbeat that came in between does it instead.
func (s *Service) settle(ctx context.Context, tx *sqlx.Tx, report HeartbeatReport, missing []uuid.UUID, result *HeartbeatResult) error {
	var last bool
	err := tx.StmtxContext(ctx, s.stmts.fence).GetContext(ctx, &last, report.OrgID, report.MachineID, report.BootID, report.Seq)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock the machine: %w", err)
	}
	var gone, back []slot
	err = tx.StmtxContext(ctx, s.stmts.omit).SelectContext(ctx, &gone,
		report.OrgID, report.MachineID, report.BootID, pq.Array(report.Sessions))
	if err != nil {
		return fmt.Errorf("release what the heartbeat omits: %w", err)
	}
	err = tx.StmtxContext(ctx, s.stmts.adopt).SelectContext(ctx, &back,
		report.OrgID, report.MachineID, report.BootID, pq.Array(missing), HeartbeatTTL.Seconds())
	if err != nil {
		return fmt.Errorf("take sessions in again: %w", err)
	}
	var held []uuid.UUID // besides those taken in now, what somebody else took in since the refresh
	err = tx.StmtxContext(ctx, s.stmts.held).SelectContext(ctx, &held, report.OrgID, report.MachineID, pq.Array(missing))
	if err != nil {
		return fmt.Errorf("look for the listed sessions: %w", err)
	}
	if err := s.tell(ctx, tx, gone, back); err != nil {
		return err
	}
	result.Released = sessionIDs(gone)
	result.Accepted = slices.Concat(result.Accepted, held)
	result.Unknown = without(missing, result.Accepted)
	return s.count(ctx, tx, report.OrgID, len(back)-len(gone))
}

// tell the observer what is over and what runs again.
func (s *Service) tell(ctx context.Context, tx *sqlx.Tx, gone, back []slot) error {
	if len(gone) > 0 {
		if err := s.observer.SessionsEnded(ctx, tx, endedAll(gone)); err != nil {
			return fmt.Errorf("tell of the ends: %w", err)
		}
	}
	var started []Started
	for i := range back {
		if back[i].State == running {
			started = append(started, back[i].started())
		}
	}
	if len(started) > 0 {
		if err := s.observer.SessionsStarted(ctx, tx, started); err != nil {
			return fmt.Errorf("tell of the sessions that are back: %w", err)
		}
	}
	return nil
}

// uuidList scans a uuid[].
type uuidList []uuid.UUID

// Scan implements sql.Scanner.
func (l *uuidList) Scan(src any) error { return pq.Array((*[]uuid.UUID)(l)).Scan(src) }

func sessionIDs(slots []slot) []uuid.UUID {
	ids := make([]uuid.UUID, len(slots))
	for i := range slots {
		ids[i] = slots[i].SessionID
	}
	return ids
}

// distinct keeps the first of each id.
func distinct(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	once := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// without returns the ids that are not among the others.
func without(ids, others []uuid.UUID) []uuid.UUID {
	skip := make(map[uuid.UUID]bool, len(others))
	for _, id := range others {
		skip[id] = true
	}
	var rest []uuid.UUID
	for _, id := range ids {
		if !skip[id] {
			rest = append(rest, id)
		}
	}
	return rest
}
