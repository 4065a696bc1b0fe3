package profile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

const secretColumns = `id, organization_id, proxy_secret, client_certificate_secret`

// ReencryptSecrets re-encrypts the proxy passwords and client certificates of all
// organizations with the current key, so that older keys can be removed. It returns the
// number of their profiles. A secret that cannot be decrypted is an error and stays
// unchanged.
func ReencryptSecrets(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, err error) {
	return pg.InBatches(ctx, system, "the secrets of profiles", `
		SELECT `+secretColumns+` FROM profiles
		WHERE id > $1 AND (proxy_secret IS NOT NULL OR client_certificate_secret IS NOT NULL)
		ORDER BY id LIMIT $2 FOR UPDATE`,
		func(r *row) uuid.UUID { return r.ID },
		func(ctx context.Context, tx *sqlx.Tx, r *row) error { return r.reencrypt(ctx, tx, sealer) })
}

// CheckPasswords decrypts the proxy passwords of all organizations. It returns their
// number, and an error for each that cannot be decrypted.
func CheckPasswords(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	return checkSecrets(ctx, system, "proxy_secret", func(r *row) error {
		_, err := r.decryptPassword(sealer)
		return err
	})
}

// CheckCertificates is CheckPasswords for the client certificates; it returns the number of
// profiles.
func CheckCertificates(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	return checkSecrets(ctx, system, "client_certificate_secret", func(r *row) error {
		_, err := r.decryptCertificates(sealer)
		return err
	})
}

func checkSecrets(ctx context.Context, system *sqlx.DB, column string, decrypt func(*row) error) (total int, unreadable []error, err error) {
	rows, err := system.QueryxContext(ctx, `SELECT `+secretColumns+` FROM profiles WHERE `+column+` IS NOT NULL`)
	if err != nil {
		return 0, nil, fmt.Errorf("read the secrets of profiles: %w", err)
	}
	defer rows.Close()
	for ; rows.Next(); total++ {
		var r row
		if err := rows.StructScan(&r); err != nil {
			return 0, nil, fmt.Errorf("read the secrets of profiles: %w", err)
		}
		if err := decrypt(&r); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	return total, unreadable, rows.Err()
}

func (r *row) reencrypt(ctx context.Context, tx *sqlx.Tx, sealer Sealer) error {
	password, err := r.decryptPassword(sealer)
	if err != nil {
		return err
	}
	if err := r.encryptPassword(sealer, password); err != nil {
		return err
	}
	clients, err := r.decryptCertificates(sealer)
	if err != nil {
		return err
	}
	if err := r.encryptCertificates(sealer, clients); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE profiles SET proxy_secret = $3, client_certificate_secret = $4
		WHERE organization_id = $1 AND id = $2`, r.OrganizationID, r.ID, r.ProxySecret, r.ClientSecret)
	if err != nil {
		return fmt.Errorf("write the secrets of profile %s: %w", r.ID, err)
	}
	return nil
}
