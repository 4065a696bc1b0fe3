package profiledata

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// keySize is the size of an organization's key in bytes.
const keySize = 32

// key returns the key of the organization, and creates it if there is none.
func (s *Service) key(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) ([]byte, error) {
	k := keyRow{OrganizationID: orgID}
	const query = `SELECT key_secret FROM profile_data_keys WHERE organization_id = $1`
	err := tx.GetContext(ctx, &k.Secret, query, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		if err := s.createKey(ctx, tx, k); err != nil {
			return nil, err
		}
		err = tx.GetContext(ctx, &k.Secret, query, orgID) // a concurrent request may have created it
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of profile data: %w", err)
	}
	return k.open(s.Sealer)
}

func (s *Service) createKey(ctx context.Context, tx *sqlx.Tx, k keyRow) error {
	plain := make([]byte, keySize)
	_, _ = rand.Read(plain) // never returns an error
	sealed, err := s.Sealer.Seal(plain, k.associatedData())
	if err != nil {
		return fmt.Errorf("encrypt the key of profile data: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO profile_data_keys (organization_id, key_secret) VALUES ($1, $2) ON CONFLICT DO NOTHING`, k.OrganizationID, sealed)
	if err != nil {
		return fmt.Errorf("store the key of profile data: %w", err)
	}
	return nil
}

// keyRow is a row of profile_data_keys.
type keyRow struct {
	OrganizationID uuid.UUID `db:"organization_id"`
	Secret         []byte    `db:"key_secret"`
}

// associatedData identifies the place of the key, so that it cannot be decrypted as the
// key of another organization or as another secret.
func (k keyRow) associatedData() []byte {
	return append([]byte("profile data "), k.OrganizationID[:]...)
}

func (k keyRow) open(s Sealer) ([]byte, error) {
	plain, err := s.Open(k.Secret, k.associatedData())
	if err != nil {
		return nil, fmt.Errorf("decrypt the profile data key of organization %s: %w", k.OrganizationID, err)
	}
	return plain, nil
}

// ReencryptKeys re-encrypts the keys of all organizations with the current secret key, so
// that older ones can be removed. It returns their number.
func ReencryptKeys(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, err error) {
	err = pg.InTx(ctx, system, func(tx *sqlx.Tx) error {
		var rows []keyRow
		if err := tx.SelectContext(ctx, &rows, `SELECT organization_id, key_secret FROM profile_data_keys FOR UPDATE`); err != nil {
			return fmt.Errorf("read the keys of profile data: %w", err)
		}
		total = len(rows)
		for _, k := range rows {
			plain, err := k.open(sealer)
			if err != nil {
				return err
			}
			sealed, err := sealer.Seal(plain, k.associatedData())
			if err != nil {
				return fmt.Errorf("encrypt the key of profile data: %w", err)
			}
			if _, err := tx.ExecContext(ctx, `UPDATE profile_data_keys SET key_secret = $2 WHERE organization_id = $1`, k.OrganizationID, sealed); err != nil {
				return fmt.Errorf("store the key of profile data: %w", err)
			}
		}
		return nil
	})
	return total, err
}

// CheckKeys decrypts the keys of all organizations. It returns their number, and an error
// for each that cannot be decrypted.
func CheckKeys(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	var rows []keyRow
	if err := system.SelectContext(ctx, &rows, `SELECT organization_id, key_secret FROM profile_data_keys`); err != nil {
		return 0, nil, fmt.Errorf("read the keys of profile data: %w", err)
	}
	for _, k := range rows {
		if _, err := k.open(sealer); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	return len(rows), unreadable, nil
}
