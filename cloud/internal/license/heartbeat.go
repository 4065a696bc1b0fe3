package license

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/combine"
)

// HeartbeatReport tells what one machine runs, at the moment that Seq marks
// among the starts and heartbeats of its boot.
type HeartbeatReport struct {
	OrgID     uuid.UUID
	MachineID string
	BootID    uuid.UUID
	Seq       int64
	Sessions  []uuid.UUID
	// Predecessors are told until a heartbeat of the boot was taken in.
	Predecessors Predecessors
}

// HeartbeatResult is what became of a heartbeat. Applied is false for one that
// is older than the last, or of a boot that was replaced: it changed nothing.
type HeartbeatResult struct {
	Applied  bool
	Accepted []uuid.UUID   // listed, and counted
	Released []uuid.UUID   // not listed, and over now
	Unknown  []uuid.UUID   // listed, but never heard of or reported as ended
	Next     time.Duration // after how long to report again
}

// omitted are the live slots (s) of a machine that a heartbeat of the boot (m)
// leaves out ($4) and is entitled to release: a session of the boot that started
// before the heartbeat's moment; and of another boot a session, and also a
// reservation if that boot is gone. While several workers are known to share the
// machine id, the others' slots are theirs.
const omitted = `s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
	AND s.session_id NOT IN (SELECT unnest($4::uuid[]))
	AND CASE WHEN s.boot_id = m.boot_id THEN s.state = 'running' AND s.seq <= m.seq
		ELSE (s.state = 'running' OR s.boot_id = ANY (m.past_boots)) AND NOT EXISTS (
			SELECT FROM license_superseded_boots l
			WHERE l.organization_id = $1 AND l.machine_id = $2 AND l.alive_since IS NOT NULL AND ` + staleBootIsFresh + `) END`

// refreshSQL is the whole of an ordinary heartbeat: it moves the machine's
// fence and the leases of the listed live slots, and counts these and all live
// ones. Which slots it held is told only when they are not all.
const refreshSQL = `
WITH machine AS (
	INSERT INTO license_machines AS m (organization_id, machine_id, boot_id, seq, heartbeat_at)
	VALUES ($1, $2, $3, $6, clock_timestamp())
	ON CONFLICT (organization_id, machine_id) DO UPDATE
	SET boot_id = excluded.boot_id, seq = excluded.seq, heartbeat_at = excluded.heartbeat_at, previous_at = m.heartbeat_at,
		past_boots = ` + pastBoots + `
	WHERE CASE WHEN m.boot_id = excluded.boot_id THEN m.seq <= excluded.seq ELSE NOT ` + outdatedBoot + ` END
	RETURNING boot_id, heartbeat_at, previous_at, heartbeat_at + make_interval(secs => $5) AS lease_until
), refreshed AS (
	UPDATE license_slots s
	SET heartbeat_at = m.heartbeat_at, first_heartbeat_at = COALESCE(s.first_heartbeat_at, m.heartbeat_at),
		lease_until = m.lease_until, boot_id = m.boot_id
	FROM machine m
	WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
		AND (s.session_id IN (SELECT unnest($4::uuid[]))) IS TRUE
	RETURNING s.session_id
)
SELECT EXISTS (SELECT FROM machine) AS applied, held, live,
	CASE WHEN held < cardinality($4::uuid[]) THEN ARRAY (SELECT session_id FROM refreshed) END AS accepted,
	(SELECT extract(epoch FROM heartbeat_at - previous_at) FROM machine) AS silence
FROM (SELECT count(*) AS held FROM refreshed) h, (
	SELECT count(*) AS live FROM license_slots s
	WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL) l`

// hasOmittedSQL says whether there is something to release.
const hasOmittedSQL = `
SELECT EXISTS (SELECT FROM license_slots s, license_machines m
	WHERE m.organization_id = $1 AND m.machine_id = $2 AND m.boot_id = $3 AND m.seq = $6 AND ` + omitted + `)`

// lockMachineSQL locks the machine if this heartbeat is still its last.
const lockMachineSQL = `
SELECT past_boots FROM license_machines
WHERE organization_id = $1 AND machine_id = $2 AND boot_id = $3 AND seq = $4 FOR UPDATE`

// releaseOmittedSQL releases what a heartbeat leaves out.
const releaseOmittedSQL = `
WITH changed AS (
	UPDATE license_slots s
	SET state = 'released', released_at = clock_timestamp(), release_reason = 'omitted',
		ended_at = clock_timestamp(), end_status = 'exited', end_reason = 'unknown'
	FROM (SELECT $3::uuid AS boot_id, $6::bigint AS seq, $7::uuid[] AS past_boots) m
	WHERE ` + omitted + `
	RETURNING s.*
), ` + releasedEvents + `
SELECT ` + slotColumns + ` FROM changed s`

// adoptSQL takes in again what was given up but is listed: only an end report
// is final. Kind never started waits for its start again.
const adoptSQL = `
WITH changed AS (
	UPDATE license_slots s
	SET state = CASE WHEN s.started_at IS NULL THEN license_slot_state 'reserved' ELSE 'running' END, boot_id = $3,
		heartbeat_at = clock_timestamp(), first_heartbeat_at = COALESCE(s.first_heartbeat_at, clock_timestamp()),
		lease_until = clock_timestamp() + make_interval(secs => $5),
		released_at = NULL, release_reason = NULL, ended_at = NULL, end_status = NULL, end_reason = NULL
	FROM unnest($4::uuid[]) AS l (session_id)
	WHERE s.organization_id = $1 AND s.session_id = l.session_id AND s.machine_id = $2
		AND s.state = 'released' AND s.release_reason <> 'ended'
	RETURNING s.*
), ` + adoptedEvents + `
SELECT ` + slotColumns + ` FROM changed s`

// listedHeldSQL finds those of the listed sessions that hold a slot of the machine.
const listedHeldSQL = `
SELECT s.session_id FROM license_slots s JOIN unnest($3::uuid[]) AS l (session_id) USING (session_id)
WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL`

// Heartbeat takes in what a machine runs (specification 3.2). The machine is the
// authority: what it omits is released, unless that started after the report
// was taken; what it lists is held for HeartbeatTTL, and taken in again where it
// had been given up, even above the limit. A heartbeat that changes nothing is
// one statement.
func (s *Service) Heartbeat(ctx context.Context, report HeartbeatReport) (HeartbeatResult, error) {
	report.Sessions = combine.Distinct(report.Sessions)
	result, err := s.heartbeat(ctx, report)
	return result, notFoundIfRemoved(err)
}

func (s *Service) heartbeat(ctx context.Context, report HeartbeatReport) (HeartbeatResult, error) {
	if err := s.registerHeartbeat(ctx, report); err != nil {
		return HeartbeatResult{}, err
	}
	row, err := s.refresh(ctx, report)
	if err != nil {
		return HeartbeatResult{}, err
	}
	if !row.Applied {
		return s.applyStaleHeartbeat(ctx, report)
	}
	if row.Held == len(report.Sessions) {
		row.Accepted = report.Sessions
	}
	omits := false
	if row.Live > row.Held { // what waits for its launch or started since, mostly
		err := s.db.get(ctx, s.stmts.hasOmitted, &omits, report.OrgID, report.MachineID, report.BootID,
			uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq)
		if err != nil {
			return HeartbeatResult{}, fmt.Errorf("look for what the heartbeat omits: %w", err)
		}
	}
	result, err := s.applyChanges(ctx, report, row.Accepted, omits, false)
	result.Next = s.pacer.nextPause(report.OrgID, report.MachineID, row.silence())
	return result, err
}

// refreshResult is what refreshSQL tells.
type refreshResult struct {
	Applied  bool     `db:"applied"`
	Held     int      `db:"held"` // belongsTo the listed ones
	Live     int      `db:"live"` // active the machine before
	Accepted uuidList `db:"accepted"`
	Silence  *float64 `db:"silence"` // seconds; nil for a new machine
}

func (r refreshResult) silence() time.Duration {
	if r.Silence == nil {
		return HeartbeatTTL
	}
	return time.Duration(*r.Silence * float64(time.Second))
}

// refresh runs refreshSQL, again after a deadlock with somebody who changes the
// same sessions in another order.
func (s *Service) refresh(ctx context.Context, report HeartbeatReport) (row refreshResult, err error) {
	for range maxAttempts {
		row = refreshResult{}
		err = s.db.get(ctx, s.stmts.refresh, &row, report.OrgID, report.MachineID, report.BootID,
			uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq)
		if !isLostRace(err) {
			break
		}
	}
	if err != nil {
		return refreshResult{}, fmt.Errorf("take in the heartbeat: %w", err)
	}
	return row, nil
}

// applyChanges does what is left to do of a heartbeat that held the accepted sessions.
func (s *Service) applyChanges(ctx context.Context, report HeartbeatReport, accepted []uuid.UUID, omits, late bool) (HeartbeatResult, error) {
	result := HeartbeatResult{Applied: true, Accepted: accepted, Next: HeartbeatInterval}
	var missing []uuid.UUID
	if len(accepted) < len(report.Sessions) {
		missing = without(report.Sessions, accepted)
	}
	if !omits && len(missing) == 0 {
		return result, nil
	}
	var adopted int
	err := s.db.tx(ctx, report.OrgID, func(tx *sqlx.Tx) (err error) {
		result.Accepted, result.Released, result.Unknown = accepted, nil, nil
		adopted, err = s.reconcile(ctx, tx, report, missing, late, &result)
		return err
	})
	if err != nil {
		return HeartbeatResult{}, err
	}
	s.totals.omitted.Add(int64(len(result.Released)))
	s.totals.adopted.Add(int64(adopted))
	return result, nil
}

// reconcile releases what the heartbeat omits and adopts what it lists and the
// refresh did not find; it returns how many it adopted. A later heartbeat that
// came in between does it instead.
func (s *Service) reconcile(ctx context.Context, tx *sqlx.Tx, report HeartbeatReport, missing []uuid.UUID, late bool, result *HeartbeatResult) (int, error) {
	past, ok, err := s.lockReporter(ctx, tx, report, late)
	if err != nil || !ok {
		return 0, err
	}
	var gone, back []slot
	err = tx.StmtxContext(ctx, s.stmts.releaseOmitted).SelectContext(ctx, &gone, report.OrgID, report.MachineID, report.BootID,
		uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq, uuidArray(past))
	if err != nil {
		return 0, fmt.Errorf("release what the heartbeat omits: %w", err)
	}
	err = tx.StmtxContext(ctx, s.stmts.adopt).SelectContext(ctx, &back,
		report.OrgID, report.MachineID, report.BootID, uuidArray(missing), HeartbeatTTL.Seconds())
	if err != nil {
		return 0, fmt.Errorf("take sessions in again: %w", err)
	}
	var held []uuid.UUID // besides those taken in now, what somebody else took in since the refresh
	err = tx.StmtxContext(ctx, s.stmts.listedHeld).SelectContext(ctx, &held, report.OrgID, report.MachineID, uuidArray(missing))
	if err != nil {
		return 0, fmt.Errorf("look for the listed sessions: %w", err)
	}
	if err := s.notifyObserver(ctx, tx, gone, back); err != nil {
		return 0, err
	}
	result.Released = sessionIDs(gone)
	result.Accepted = slices.Concat(result.Accepted, held)
	result.Unknown = without(missing, result.Accepted)
	return len(back), adjustCounter(ctx, tx, s.stmts.adjustCounter, report.OrgID, len(back)-len(gone))
}

// notifyObserver the observer what is over and what runs again.
func (s *Service) notifyObserver(ctx context.Context, tx *sqlx.Tx, gone, back []slot) error {
	if len(gone) > 0 {
		if err := s.observer.SessionsEnded(ctx, tx, toEndedAll(gone)); err != nil {
			return fmt.Errorf("tell of the ends: %w", err)
		}
	}
	var started []Started
	for i := range back {
		if back[i].State == running {
			again := back[i].toStarted()
			again.Resumed = true
			started = append(started, again)
		}
	}
	if len(started) > 0 {
		if err := s.observer.SessionsStarted(ctx, tx, started); err != nil {
			return fmt.Errorf("tell of the sessions that are back: %w", err)
		}
	}
	return nil
}
