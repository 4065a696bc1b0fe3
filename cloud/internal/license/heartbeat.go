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

// HeartbeatReport lists the sessions that a machine runs, at the moment that Seq marks
// among the starts and heartbeats of its boot.
type HeartbeatReport struct {
	OrgID     uuid.UUID
	MachineID string
	BootID    uuid.UUID
	Seq       int64
	Sessions  []uuid.UUID
	// Predecessors are sent until a heartbeat of the boot was applied.
	Predecessors Predecessors
	Machine      *MachineReport // nil if it is not reported this time
}

// HeartbeatResult is the result of a heartbeat. Applied is false for a heartbeat that
// is older than the last one or comes from a superseded boot; it changed nothing.
type HeartbeatResult struct {
	Applied  bool
	Accepted []uuid.UUID   // listed and holding a slot
	Released []uuid.UUID   // not listed, and released now
	Unknown  []uuid.UUID   // listed, but unknown or reported as ended
	Next     time.Duration // pause until the next heartbeat
}

// omitted selects the live slots (s) of a machine that a heartbeat of the boot (m)
// does not list ($4) and may release: a session of the same boot that started before
// the heartbeat; a session of another boot; and a reservation of a superseded boot.
// While several workers share the machine id, a heartbeat releases only sessions of
// its own boot.
const omitted = `s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL
	AND s.session_id NOT IN (SELECT unnest($4::uuid[]))
	AND CASE WHEN s.boot_id = m.boot_id THEN s.state = 'running' AND s.seq <= m.seq
		ELSE (s.state = 'running' OR s.boot_id = ANY (m.past_boots)) AND NOT EXISTS (
			SELECT FROM license_superseded_boots l
			WHERE l.organization_id = $1 AND l.machine_id = $2 AND l.alive_since IS NOT NULL AND ` + supersededBootIsFresh + `) END`

// refreshSQL is all that an ordinary heartbeat needs: it updates the machine's row and
// the leases of the listed live slots, and counts these and all live slots. It returns
// the ids of the refreshed slots only if some are missing.
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

// hasOmittedSQL reports whether there are slots to release.
const hasOmittedSQL = `
SELECT EXISTS (SELECT FROM license_slots s, license_machines m
	WHERE m.organization_id = $1 AND m.machine_id = $2 AND m.boot_id = $3 AND m.seq = $6 AND ` + omitted + `)`

// lockMachineSQL locks the machine if this heartbeat is still its latest.
const lockMachineSQL = `
SELECT past_boots FROM license_machines
WHERE organization_id = $1 AND machine_id = $2 AND boot_id = $3 AND seq = $4 FOR UPDATE`

// releaseOmittedSQL releases the slots that a heartbeat omits.
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

// adoptSQL restores listed slots that were released without an end report. One that
// never started becomes a reservation again.
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

// listedHeldSQL finds the listed sessions that hold a slot of the machine.
const listedHeldSQL = `
SELECT s.session_id FROM license_slots s JOIN unnest($3::uuid[]) AS l (session_id) USING (session_id)
WHERE s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL`

// Heartbeat applies the session list of a machine (specification 3.2). The machine is
// authoritative: sessions that it omits are released, unless they started after the
// list was taken; the leases of listed sessions are extended to HeartbeatTTL; and
// listed sessions that were omitted or have expired are restored, even above the
// limit. A heartbeat that changes nothing else is one statement, or two if it reports
// the machine.
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
		return s.applySupersededHeartbeat(ctx, report)
	}
	s.recordMachine(ctx, report)
	if row.Held == len(report.Sessions) {
		row.Accepted = report.Sessions
	}
	omits := false
	if row.Live > row.Held { // usually reservations and sessions that started since
		err := s.db.get(ctx, s.stmts.hasOmitted, &omits, report.OrgID, report.MachineID, report.BootID,
			uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq)
		if err != nil {
			return HeartbeatResult{}, fmt.Errorf("look for omitted slots: %w", err)
		}
	}
	result, err := s.applyChanges(ctx, report, row.Accepted, omits, false)
	result.Next = s.pacer.nextPause(report.OrgID, report.MachineID, row.silence())
	return result, err
}

// refreshResult is a row of refreshSQL.
type refreshResult struct {
	Applied  bool     `db:"applied"`
	Held     int      `db:"held"` // listed live slots
	Live     int      `db:"live"` // live slots of the machine
	Accepted uuidList `db:"accepted"`
	Silence  *float64 `db:"silence"` // seconds since the previous heartbeat; nil for a new machine
}

func (r refreshResult) silence() time.Duration {
	if r.Silence == nil {
		return HeartbeatTTL
	}
	return time.Duration(*r.Silence * float64(time.Second))
}

// refresh runs refreshSQL and retries after a deadlock with a transaction that changes
// the same sessions in another order.
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
		return refreshResult{}, fmt.Errorf("apply the heartbeat: %w", err)
	}
	return row, nil
}

// applyChanges completes a heartbeat whose accepted sessions are refreshed.
func (s *Service) applyChanges(ctx context.Context, report HeartbeatReport, accepted []uuid.UUID, omits, late bool) (HeartbeatResult, error) {
	result := HeartbeatResult{Applied: true, Accepted: accepted, Next: HeartbeatInterval}
	var missing []uuid.UUID
	if len(accepted) < len(report.Sessions) {
		missing = difference(report.Sessions, accepted)
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
	s.queue.kick()
	s.totals.omitted.Add(int64(len(result.Released)))
	s.totals.adopted.Add(int64(adopted))
	return result, nil
}

// reconcile releases the omitted slots and adopts the listed ones that the refresh did
// not find. It returns the number of adopted slots. If a later heartbeat was applied
// in between, that one does it instead.
func (s *Service) reconcile(ctx context.Context, tx *sqlx.Tx, report HeartbeatReport, missing []uuid.UUID, late bool, result *HeartbeatResult) (int, error) {
	past, ok, err := s.lockReporter(ctx, tx, report, late)
	if err != nil || !ok {
		return 0, err
	}
	var ended, restored []slot
	err = tx.StmtxContext(ctx, s.stmts.releaseOmitted).SelectContext(ctx, &ended, report.OrgID, report.MachineID, report.BootID,
		uuidArray(report.Sessions), HeartbeatTTL.Seconds(), report.Seq, uuidArray(past))
	if err != nil {
		return 0, fmt.Errorf("release omitted slots: %w", err)
	}
	err = tx.StmtxContext(ctx, s.stmts.adopt).SelectContext(ctx, &restored,
		report.OrgID, report.MachineID, report.BootID, uuidArray(missing), HeartbeatTTL.Seconds())
	if err != nil {
		return 0, fmt.Errorf("adopt sessions: %w", err)
	}
	var active []uuid.UUID // adopted now or by another call since the refresh
	err = tx.StmtxContext(ctx, s.stmts.listedHeld).SelectContext(ctx, &active, report.OrgID, report.MachineID, uuidArray(missing))
	if err != nil {
		return 0, fmt.Errorf("find the listed sessions: %w", err)
	}
	if err := s.notifyObserver(ctx, tx, ended, restored); err != nil {
		return 0, err
	}
	result.Released = sessionIDs(ended)
	result.Accepted = slices.Concat(result.Accepted, active)
	result.Unknown = difference(missing, result.Accepted)
	return len(restored), adjustCounter(ctx, tx, s.stmts.adjustCounter, report.OrgID, len(restored)-len(ended))
}

// notifyObserver reports ended and restored sessions to the observer.
func (s *Service) notifyObserver(ctx context.Context, tx *sqlx.Tx, ended, restored []slot) error {
	if len(ended) > 0 {
		if err := s.observer.SessionsEnded(ctx, tx, toEndedAll(ended)); err != nil {
			return fmt.Errorf("notify the observer of the ends: %w", err)
		}
	}
	var started []Started
	for i := range restored {
		if restored[i].State == running {
			again := restored[i].toStarted()
			again.Resumed = true
			started = append(started, again)
		}
	}
	if len(started) > 0 {
		if err := s.observer.SessionsStarted(ctx, tx, started); err != nil {
			return fmt.Errorf("notify the observer of restored sessions: %w", err)
		}
	}
	return nil
}
