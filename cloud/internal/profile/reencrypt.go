package profile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// reencryptBatch is the number of proxy passwords re-encrypted per transaction.
const reencryptBatch = 500

// ReencryptPasswords re-encrypts the proxy passwords of all organizations with
// the current key, so that older keys can be removed. It returns their number. A
// password that cannot be decrypted is an error and stays unchanged.
func ReencryptPasswords(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, err error) {
	for last := uuid.Nil; ; {
		var rows []row
		err := pg.InTx(ctx, system, func(tx *sqlx.Tx) error {
			rows = nil
			err := tx.SelectContext(ctx, &rows, `
				SELECT id, organization_id, proxy_secret FROM profiles
				WHERE id > $1 AND proxy_secret IS NOT NULL ORDER BY id LIMIT $2 FOR UPDATE`, last, reencryptBatch)
			if err != nil {
				return fmt.Errorf("read proxy passwords: %w", err)
			}
			for i := range rows {
				if err := rows[i].reencrypt(ctx, tx, sealer); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		total += len(rows)
		if len(rows) < reencryptBatch {
			return total, nil
		}
		last = rows[len(rows)-1].ID
	}
}

// CheckPasswords decrypts the proxy passwords of all organizations. It returns their
// number, and an error for each that cannot be decrypted.
func CheckPasswords(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	rows, err := system.QueryxContext(ctx, `SELECT id, organization_id, proxy_secret FROM profiles WHERE proxy_secret IS NOT NULL`)
	if err != nil {
		return 0, nil, fmt.Errorf("read proxy passwords: %w", err)
	}
	defer rows.Close()
	for ; rows.Next(); total++ {
		var r row
		if err := rows.StructScan(&r); err != nil {
			return 0, nil, fmt.Errorf("read proxy passwords: %w", err)
		}
		if _, err := r.decryptPassword(sealer); err != nil {
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
	_, err = tx.ExecContext(ctx, `UPDATE profiles SET proxy_secret = $3 WHERE organization_id = $1 AND id = $2`,
		r.OrganizationID, r.ID, r.ProxySecret)
	if err != nil {
		return fmt.Errorf("write the proxy password of profile %s: %w", r.ID, err)
	}
	return nil
}
