package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// StartReport reports that the browser of a session runs.
type StartReport struct {
	OrgID          uuid.UUID
	KeyID          uuid.UUID
	ProfileID      uuid.UUID
	SessionID      uuid.UUID
	SlotID         *uuid.UUID // if the worker knows it
	MachineID      string
	BootID         uuid.UUID
	Seq            int64 // order among the starts and heartbeats of its boot
	LaunchID       uuid.UUID
	BrowserVersion int
	StartedAt      time.Time // by the worker's clock; clamped to the time between reservation, or maxReportDelay ago, and now
	Predecessors   Predecessors
	Recording      *Recording // nil if the session is not recorded
	Labels         Labels
	// RequireProfile returns an error if the organization has no such profile. It is
	// called only for sessions that were not authorized for a profile.
	RequireProfile func(ctx context.Context, tx *sqlx.Tx) error
}

func (r StartReport) requireProfile(ctx context.Context, tx *sqlx.Tx) error {
	if r.RequireProfile == nil {
		return nil
	}
	return r.RequireProfile(ctx, tx)
}

// outdatedBoot is true if the reporting boot (excluded) is not newer than the
// machine's boot (m): it was replaced before, or its version 7 id is older. It applies
// only while the machine's boot sends heartbeats, so that a wrong decision corrects
// itself.
const outdatedBoot = `(m.heartbeat_at > clock_timestamp() - make_interval(secs => $5) AND (
	excluded.boot_id = ANY (m.past_boots)
	OR substr(excluded.boot_id::text, 15, 1) = '7' AND substr(m.boot_id::text, 15, 1) = '7' AND excluded.boot_id < m.boot_id))`

// pastBoots is the machine's list of superseded boots after a report of the boot
// excluded: latest first, at most sixteen.
const pastBoots = `CASE WHEN m.boot_id = excluded.boot_id THEN m.past_boots
	ELSE (m.boot_id || array_remove(m.past_boots, excluded.boot_id))[:16] END`

// registerSQL makes a new boot the machine's boot, so that a late heartbeat of the
// previous boot can't release sessions of the new one. It locks nothing if the boot is
// known. It returns the database's time.
const registerSQL = `
WITH registered AS (
	INSERT INTO license_machines AS m (organization_id, machine_id, boot_id, seq, heartbeat_at)
	SELECT $1, $2, $3, $4, clock_timestamp()
	WHERE NOT EXISTS (SELECT FROM license_machines k WHERE k.organization_id = $1 AND k.machine_id = $2 AND k.boot_id = $3)
	ON CONFLICT (organization_id, machine_id) DO UPDATE
	SET boot_id = excluded.boot_id, seq = excluded.seq, heartbeat_at = excluded.heartbeat_at, past_boots = ` + pastBoots + `
	WHERE m.boot_id <> excluded.boot_id AND NOT ` + outdatedBoot + `
)
SELECT clock_timestamp()`

const lockSQL = `SELECT ` + slotColumns + ` FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = $2 FOR UPDATE`

// startSlotSQL sets a locked slot to running, from any state. Until the first
// heartbeat the lease counts from the start (specification 3.2), which is never before
// the reservation, regardless of the worker's clock. A session that had no reservation
// counts as reserved when it started.
const startSlotSQL = `
UPDATE license_slots s
SET state = 'running', profile_id = $3, seq = $4, launch_id = $5, browser_version = $6, reserved_at = COALESCE($9::timestamptz, s.reserved_at),
	started_at = GREATEST($7::timestamptz, COALESCE($9::timestamptz, s.reserved_at)), first_heartbeat_at = NULL, heartbeat_at = NULL,
	lease_until = GREATEST($7::timestamptz, COALESCE($9::timestamptz, s.reserved_at)) + make_interval(secs => $8),
	released_at = NULL, release_reason = NULL, ended_at = NULL, end_status = NULL, end_reason = NULL
WHERE s.id = $2 AND ` + orgFilter + `
RETURNING ` + slotColumns

// relabelSQL records that the labels of a running session are those of a later report.
const relabelSQL = `UPDATE license_slots s SET seq = $3 WHERE s.id = $2 AND ` + orgFilter + ` AND s.seq < $3`

// acquireSQL increments the counter below the limit.
const acquireSQL = `
UPDATE license_org SET in_use = in_use + 1
WHERE organization_id = $1 AND (max_slots IS NULL OR in_use < max_slots)
RETURNING in_use`

// Start marks a session as running (specification 3.2). It consumes the reservation,
// also an expired one that was not reclaimed yet. Without a reservation it takes a
// slot, or returns PaymentRequired with the counts; the worker then ends the browser.
// A repeated report returns the same session; one with a higher Seq replaces its labels. It returns Conflict for a session that
// has ended or belongs to another boot, machine, slot or profile.
func (s *Service) Start(ctx context.Context, report StartReport) (Session, error) {
	s.reservations.forget(report.SessionID)
	session, err := s.start(ctx, report)
	return session, notFoundIfRemoved(err)
}

func (s *Service) start(ctx context.Context, report StartReport) (Session, error) {
	for attempts, lookups := 0, 0; attempts < maxAttempts && lookups < maxLookups; lookups++ {
		var session Session
		err := s.db.tx(ctx, report.OrgID, func(tx *sqlx.Tx) (err error) {
			session, err = s.startOnce(ctx, tx, report)
			return err
		})
		if isLostRace(err) {
			attempts++
			continue
		}
		if !errors.Is(err, errNotTaken) {
			return session, err
		}
		state, err := s.lookup(ctx, Request{OrgID: report.OrgID, SessionID: report.SessionID})
		if err != nil {
			return Session{}, err
		}
		if !state.full() || state.slot != nil && state.slot.State != released {
			continue // a slot was released or the session was authorized since then
		}
		if freed, err := s.reclaimForLaunch(ctx, report.OrgID); err != nil {
			return Session{}, err
		} else if !freed {
			s.recordRefusal(Request{
				OrgID: report.OrgID, KeyID: report.KeyID, MachineID: report.MachineID, BootID: report.BootID,
				SessionID: report.SessionID, ProfileID: &report.ProfileID,
			}, limitReached(state.Usage))
			return Session{}, errNoSlot(state.Usage)
		}
	}
	return Session{}, errContention()
}

func errNoSlot(u Usage) error {
	return fault.New(fault.PaymentRequired, "All slots of the organization are in use.", fault.Detail{
		Field: "profileId", Code: fault.Custom, Message: string(ConcurrencyLimit),
		Constraint: map[string]any{"reason": ConcurrencyLimit, "current": u.Current, "limit": u.Limit},
	})
}

// startOnce locks in the order of the package: machine, slot, counter.
func (s *Service) startOnce(ctx context.Context, tx *sqlx.Tx, report StartReport) (Session, error) {
	if err := s.flagDuplicates(ctx, tx, report.OrgID, report.MachineID, report.BootID, report.Predecessors); err != nil {
		return Session{}, err
	}
	var now time.Time
	err := tx.StmtxContext(ctx, s.stmts.register).GetContext(ctx, &now,
		report.OrgID, report.MachineID, report.BootID, 0, HeartbeatTTL.Seconds())
	if err != nil {
		return Session{}, fmt.Errorf("register the boot: %w", err)
	}
	if report.StartedAt.After(now) {
		report.StartedAt = now
	}
	var found slot
	err = tx.StmtxContext(ctx, s.stmts.lock).GetContext(ctx, &found, report.OrgID, report.SessionID)
	if errors.Is(err, sql.ErrNoRows) {
		if report.StartedAt.Before(now.Add(-maxReportDelay)) {
			report.StartedAt = now // the worker's clock is wrong
		}
		return s.startWithoutSlot(ctx, tx, report)
	}
	if err != nil {
		return Session{}, fmt.Errorf("lock the slot: %w", err)
	}
	return s.startExisting(ctx, tx, report, found)
}

// startExisting starts a session that has a row. A slot that was reserved for a
// profile can start even if the profile was deleted since.
func (s *Service) startExisting(ctx context.Context, tx *sqlx.Tx, report StartReport, found slot) (Session, error) {
	switch {
	case found.releasedBy(reasonEnded), found.releasedBy(reasonOmitted):
		return Session{}, conflict("The session has ended.")
	case !found.belongsTo(report.MachineID, report.BootID):
		return Session{}, conflict("The session belongs to another worker.")
	case !found.acceptsProfile(report.ProfileID):
		return Session{}, conflict("The session belongs to another profile.")
	case report.SlotID != nil && *report.SlotID != found.ID:
		return Session{}, conflict("The session has another slot.")
	case found.State == running:
		return found.toSession(), s.relabel(ctx, tx, report, &found)
	}
	if found.ProfileID == nil {
		if err := report.requireProfile(ctx, tx); err != nil {
			return Session{}, err
		}
	}
	slot, err := s.startSlot(ctx, tx, found.ID, report, nil, found.wasGivenUp())
	if err != nil {
		return Session{}, err
	}
	if found.State == reserved {
		return slot.toSession(), nil
	}
	var inUse int
	err = tx.StmtxContext(ctx, s.stmts.acquire).GetContext(ctx, &inUse, report.OrgID)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, errNotTaken
	}
	if err != nil {
		return Session{}, fmt.Errorf("acquire a slot again: %w", err)
	}
	return slot.toSession(), nil
}

// relabel replaces the labels of a running session if the report is later than theirs.
func (s *Service) relabel(ctx context.Context, tx *sqlx.Tx, report StartReport, found *slot) error {
	result, err := tx.StmtxContext(ctx, s.stmts.relabel).ExecContext(ctx, report.OrgID, found.ID, report.Seq)
	if err != nil {
		return fmt.Errorf("record the change of a session: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return s.notifyStarted(ctx, tx, report, found, false)
}

// startWithoutSlot takes a slot for a session that was never authorized. Like
// authorize it changes the counter before it inserts the row; no other transaction can
// hold that row yet.
func (s *Service) startWithoutSlot(ctx context.Context, tx *sqlx.Tx, report StartReport) (Session, error) {
	if err := report.requireProfile(ctx, tx); err != nil {
		return Session{}, err
	}
	grant, err := s.reserveRunning(ctx, tx, Request{
		OrgID: report.OrgID, KeyID: report.KeyID, MachineID: report.MachineID, BootID: report.BootID,
		SessionID: report.SessionID, ProfileID: &report.ProfileID,
	})
	if err != nil {
		return Session{}, err
	}
	if !grant.Allowed {
		return Session{}, errNotTaken
	}
	slot, err := s.startSlot(ctx, tx, grant.SlotID, report, &report.StartedAt, false)
	if err != nil {
		return Session{}, err
	}
	return slot.toSession(), nil
}

// startSlot sets a slot that the transaction holds to running, and notifies the
// observer. reservedAt replaces the time of the reservation if it is not nil.
func (s *Service) startSlot(ctx context.Context, tx *sqlx.Tx, id uuid.UUID, report StartReport, reservedAt *time.Time, again bool) (*slot, error) {
	var row slot
	err := tx.StmtxContext(ctx, s.stmts.startSlot).GetContext(ctx, &row, report.OrgID, id, report.ProfileID, report.Seq,
		report.LaunchID, report.BrowserVersion, report.StartedAt, UnreportedTTL.Seconds(), reservedAt)
	if err != nil {
		return nil, fmt.Errorf("start the session: %w", err)
	}
	return &row, s.notifyStarted(ctx, tx, report, &row, again)
}

func (s *Service) notifyStarted(ctx context.Context, tx *sqlx.Tx, report StartReport, row *slot, again bool) error {
	started := row.toStarted()
	started.Resumed, started.KeyID, started.Recording, started.Labels = again, report.KeyID, report.Recording, &report.Labels
	if err := s.observer.SessionsStarted(ctx, tx, []Started{started}); err != nil {
		return fmt.Errorf("notify the observer of the start: %w", err)
	}
	return nil
}
