package profiledata

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Acquire gives a session the data of a profile. Errors: NotFound for the profile;
// Conflict if another session has the lease, with its holder in the details, or if the
// session has no license slot.
func (s *Service) Acquire(ctx context.Context, orgID uuid.UUID, r Request) (access Access, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		current, err := lock(ctx, tx, orgID, r.ProfileID)
		if err != nil {
			return err
		}
		if !r.ReadOnly {
			if err := lease(ctx, tx, orgID, current, r); err != nil {
				return err
			}
		}
		access.VersionID = current.CurrentVersion
		access.Key, err = s.key(ctx, tx, orgID)
		return err
	})
	if err != nil {
		return Access{}, err
	}
	return access, nil
}

// lock returns the row of a profile and locks it. It creates the row if the profile has
// none. Errors: NotFound.
func lock(ctx context.Context, tx *sqlx.Tx, orgID, profileID uuid.UUID) (row, error) {
	var found uuid.UUID
	err := tx.GetContext(ctx, &found, `SELECT id FROM profiles WHERE organization_id = $1 AND id = $2 FOR KEY SHARE`, orgID, profileID)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, fault.Missing("profile")
	}
	if err != nil {
		return row{}, fmt.Errorf("read a profile: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO profile_data (profile_id, organization_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, profileID, orgID)
	if err != nil {
		return row{}, fmt.Errorf("create the row of profile data: %w", err)
	}
	var r row
	err = tx.GetContext(ctx, &r, `SELECT current_version, lease_session, lease_machine FROM profile_data
		WHERE organization_id = $1 AND profile_id = $2 FOR UPDATE`, orgID, profileID)
	if err != nil {
		return row{}, fmt.Errorf("lock the row of profile data: %w", err)
	}
	return r, nil
}

// lease gives the session the lease, unless another session has it.
func lease(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, current row, r Request) error {
	var live bool
	err := tx.GetContext(ctx, &live, `SELECT EXISTS (SELECT FROM license_slots
		WHERE organization_id = $1 AND session_id = $2 AND released_at IS NULL)`, orgID, r.SessionID)
	switch {
	case err != nil:
		return fmt.Errorf("read the slot of a session: %w", err)
	case !live:
		return fault.New(fault.Conflict, "The session has no license slot. Authorize the launch first.")
	}
	if !current.leasedBy(r.SessionID) {
		until, live, err := currentLease(ctx, tx, orgID, current)
		if err != nil {
			return err
		}
		if live {
			return inUse(current, until)
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE profile_data SET lease_session = $3, lease_machine = $4 WHERE organization_id = $1 AND profile_id = $2`,
		orgID, r.ProfileID, r.SessionID, r.MachineID)
	if err != nil {
		return fmt.Errorf("lease profile data: %w", err)
	}
	return nil
}

// reportGrace is how much longer a lease lasts than the slot of a session whose worker is
// silent: the worker may have saved a version that it cannot report yet. A worker that
// sends heartbeats again lists the session, or has nothing to report.
const reportGrace = 30 * time.Minute

// currentLeaseSQL compares with the heartbeat before the last one: the last one may not
// have adopted the slot yet.
const currentLeaseSQL = `
SELECT s.lease_until + make_interval(secs => $3) FROM license_slots s
WHERE s.organization_id = $1 AND s.session_id = $2
	AND (s.released_at IS NULL OR s.release_reason = 'lapsed' AND s.lease_until + make_interval(secs => $3) > now()
		AND NOT EXISTS (SELECT FROM license_machines m
			WHERE m.organization_id = $1 AND m.machine_id = s.machine_id AND m.previous_at > s.released_at))`

// currentLease returns until when the lease of the row lasts, and whether there is one.
func currentLease(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, r row) (until time.Time, live bool, err error) {
	if r.LeaseSession == nil {
		return time.Time{}, false, nil
	}
	err = tx.GetContext(ctx, &until, currentLeaseSQL, orgID, *r.LeaseSession, reportGrace.Seconds())
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read the slot of a lease: %w", err)
	}
	return until.UTC(), true, nil
}

// inUse is the error for data that another session has.
func inUse(r row, until time.Time) error {
	message := fmt.Sprintf("The profile's data is in use by machine %s until %s, or until its session ends.", *r.LeaseMachine, until.Format(time.RFC3339))
	return fault.New(fault.Conflict, message, fault.Detail{
		Field: "profileId", Code: fault.Custom, Message: "Its data is in use. End that session first, or launch with readOnly.",
		Constraint: map[string]any{"machineId": *r.LeaseMachine, "sessionId": *r.LeaseSession, "until": until},
	})
}
