package profiledata

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/profilekey"
)

// EndOrganization records, before an organization is deleted, that workers can delete the
// data of its profiles. Without a key no data was ever saved.
func (s *Service) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	k := keyRow{OrganizationID: orgID}
	err := tx.GetContext(ctx, &k.Secret, `SELECT key_secret FROM profile_data_keys WHERE organization_id = $1`, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the key of profile data: %w", err)
	}
	key, err := k.open(s.Sealer)
	if err != nil {
		return err
	}
	directory, err := profilekey.Directory(key)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO deleted_profile_data (directory, organization_id, deleted_at) VALUES ($1, $2, now())`, directory, orgID)
	if err != nil {
		return fmt.Errorf("record the deleted profile data: %w", err)
	}
	return nil
}

// Deleted reports whether a directory of an object store has the data of a deleted
// organization.
func (s *Service) Deleted(ctx context.Context, directory string) (deleted bool, err error) {
	err = s.System.GetContext(ctx, &deleted, `SELECT EXISTS (SELECT FROM deleted_profile_data WHERE directory = $1)`, directory)
	if err != nil {
		return false, fmt.Errorf("look for deleted profile data: %w", err)
	}
	return deleted, nil
}
