package profiledata

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

const versionColumns = `v.id, v.profile_id, v.session_id, v.machine_id, v.size_bytes, v.sent_bytes, v.created_at, v.id = d.current_version AS current`

const versionTables = `profile_data_versions v JOIN profile_data d ON d.organization_id = v.organization_id AND d.profile_id = v.profile_id`

// maxVersions is the maximum number of versions of a profile.
const maxVersions = 1000

// List returns the versions of a profile's data, newest first. Errors: NotFound for the
// profile.
func (s *Service) List(ctx context.Context, orgID, profileID uuid.UUID) (all []Version, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		var found bool
		err := tx.GetContext(ctx, &found, `SELECT EXISTS (SELECT FROM profiles WHERE organization_id = $1 AND id = $2)`, orgID, profileID)
		if err != nil {
			return fmt.Errorf("read a profile: %w", err)
		}
		if !found {
			return fault.Missing("profile")
		}
		all = nil
		err = tx.SelectContext(ctx, &all, `SELECT `+versionColumns+` FROM `+versionTables+`
			WHERE v.organization_id = $1 AND v.profile_id = $2 ORDER BY v.created_at DESC, v.id DESC LIMIT $3`, orgID, profileID, maxVersions)
		if err != nil {
			return fmt.Errorf("read the versions of profile data: %w", err)
		}
		return nil
	})
	return all, err
}

// Commit makes a saved version the current one, and deletes the oldest versions above
// the limit. A repeated commit has no effect. Errors: NotFound for the profile; Conflict
// if the session has lost its lease or another version became current meanwhile.
func (s *Service) Commit(ctx context.Context, orgID uuid.UUID, c Commit) (version Version, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		current, err := lock(ctx, tx, orgID, c.ProfileID)
		if err != nil {
			return err
		}
		if !current.leasedBy(c.SessionID) {
			return fault.New(fault.Conflict, "The session has lost the lease of the profile's data. The version is not saved.")
		}
		if current.hasCurrent(&c.ID) {
			version, err = find(ctx, tx, orgID, c.ProfileID, c.ID)
			return err
		}
		if !current.hasCurrent(c.Previous) {
			return fault.New(fault.Conflict, "Another version became the current one since the session acquired the data. The version is not saved.")
		}
		if err := insert(ctx, tx, orgID, c.Version); err != nil {
			return err
		}
		if err := setCurrent(ctx, tx, orgID, c.ProfileID, &c.ID); err != nil {
			return err
		}
		if err := prune(ctx, tx, orgID, c.ProfileID, c.Keep); err != nil {
			return err
		}
		version, err = find(ctx, tx, orgID, c.ProfileID, c.ID)
		return err
	})
	return version, err
}

// Restore makes an older version the current one. The next launch starts with it. Errors:
// NotFound; Conflict while a session has the lease.
func (s *Service) Restore(ctx context.Context, orgID, profileID, id uuid.UUID) (now Version, err error) {
	err = s.change(ctx, orgID, profileID, id, func(tx *sqlx.Tx, _ Version) error {
		if err := setCurrent(ctx, tx, orgID, profileID, &id); err != nil {
			return err
		}
		if err := s.record(ctx, tx, orgID, restored, profileID, id); err != nil {
			return err
		}
		now, err = find(ctx, tx, orgID, profileID, id)
		return err
	})
	return now, err
}

// Delete deletes a version. If it is the current one, the newest remaining version becomes
// the current one. Errors: NotFound; Conflict while a session has the lease.
func (s *Service) Delete(ctx context.Context, orgID, profileID, id uuid.UUID) error {
	return s.change(ctx, orgID, profileID, id, func(tx *sqlx.Tx, version Version) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM profile_data_versions WHERE organization_id = $1 AND profile_id = $2 AND id = $3`, orgID, profileID, id)
		if err != nil {
			return fmt.Errorf("delete a version of profile data: %w", err)
		}
		if version.Current {
			if err := setNewestCurrent(ctx, tx, orgID, profileID); err != nil {
				return err
			}
		}
		return s.record(ctx, tx, orgID, versionDeleted, profileID, id)
	})
}

// change runs fn for a version of a profile that no session uses.
func (s *Service) change(ctx context.Context, orgID, profileID, id uuid.UUID, fn func(*sqlx.Tx, Version) error) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		current, err := lock(ctx, tx, orgID, profileID)
		if err != nil {
			return err
		}
		v, err := find(ctx, tx, orgID, profileID, id)
		if err != nil {
			return err
		}
		until, live, err := currentLease(ctx, tx, orgID, current)
		if err != nil {
			return err
		}
		if live {
			return inUse(current, until)
		}
		return fn(tx, v)
	})
}

func find(ctx context.Context, tx *sqlx.Tx, orgID, profileID, id uuid.UUID) (Version, error) {
	var v Version
	err := tx.GetContext(ctx, &v, `SELECT `+versionColumns+` FROM `+versionTables+`
		WHERE v.organization_id = $1 AND v.profile_id = $2 AND v.id = $3`, orgID, profileID, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Version{}, fault.Missing("version of the profile's data")
	}
	if err != nil {
		return Version{}, fmt.Errorf("read a version of profile data: %w", err)
	}
	return v, nil
}

func insert(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, v Version) error {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO profile_data_versions (id, organization_id, profile_id, session_id, machine_id, size_bytes, sent_bytes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp()) ON CONFLICT (id) DO NOTHING`,
		v.ID, orgID, v.ProfileID, v.SessionID, v.MachineID, v.SizeBytes, v.SentBytes)
	if err != nil {
		return fmt.Errorf("insert a version of profile data: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil {
		return fmt.Errorf("insert a version of profile data: %w", err)
	} else if n == 0 {
		return fault.New(fault.Conflict, "A version with this id exists. Choose a new id for each version.")
	}
	return nil
}

func setCurrent(ctx context.Context, tx *sqlx.Tx, orgID, profileID uuid.UUID, id *uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `UPDATE profile_data SET current_version = $3 WHERE organization_id = $1 AND profile_id = $2`, orgID, profileID, id)
	if err != nil {
		return fmt.Errorf("set the current version of profile data: %w", err)
	}
	return nil
}

func setNewestCurrent(ctx context.Context, tx *sqlx.Tx, orgID, profileID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `UPDATE profile_data SET current_version = (
			SELECT id FROM profile_data_versions WHERE organization_id = $1 AND profile_id = $2 ORDER BY created_at DESC, id DESC LIMIT 1)
		WHERE organization_id = $1 AND profile_id = $2`, orgID, profileID)
	if err != nil {
		return fmt.Errorf("set the current version of profile data: %w", err)
	}
	return nil
}

// prune deletes the oldest versions above the limit. The current version is the newest.
func prune(ctx context.Context, tx *sqlx.Tx, orgID, profileID uuid.UUID, keep int) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM profile_data_versions WHERE organization_id = $1 AND profile_id = $2 AND id IN (
			SELECT id FROM profile_data_versions WHERE organization_id = $1 AND profile_id = $2 ORDER BY created_at DESC, id DESC OFFSET $3)`,
		orgID, profileID, min(max(keep, 1), maxVersions))
	if err != nil {
		return fmt.Errorf("delete old versions of profile data: %w", err)
	}
	return nil
}

func (s *Service) record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action string, profileID, id uuid.UUID) error {
	if s.Recorder == nil {
		return nil
	}
	if err := s.Recorder.Record(ctx, tx, orgID, action, profileID.String(), map[string]any{"versionId": id}); err != nil {
		return fmt.Errorf("record a change of profile data: %w", err)
	}
	return nil
}
