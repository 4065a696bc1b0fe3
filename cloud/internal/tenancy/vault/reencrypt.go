package vault

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// Reencrypt re-encrypts the passwords and TOTP seeds of all organizations with the current
// key, so that older keys can be removed. It returns the number of secrets. A value that
// cannot be decrypted is an error and stays unchanged.
func Reencrypt(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, err error) {
	return pg.InBatches(ctx, system, "the secrets", `SELECT `+columns+` FROM secrets WHERE id > $1 ORDER BY id LIMIT $2 FOR UPDATE`,
		func(r *row) uuid.UUID { return r.ID },
		func(ctx context.Context, tx *sqlx.Tx, r *row) error { return r.reencrypt(ctx, tx, sealer) })
}

func (r *row) reencrypt(ctx context.Context, tx *sqlx.Tx, sealer Sealer) error {
	for _, f := range []Field{Password, TOTP} {
		plain, err := r.decrypt(sealer, f)
		if err != nil {
			return err
		}
		if err := r.encrypt(sealer, f, plain); err != nil {
			return err
		}
	}
	return r.write(ctx, tx)
}

// Check decrypts the passwords and TOTP seeds of all organizations. It returns their
// number, and an error for each that cannot be decrypted.
func Check(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	rows, err := system.QueryxContext(ctx, `SELECT `+columns+` FROM secrets`)
	if err != nil {
		return 0, nil, fmt.Errorf("read the secrets: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.StructScan(&r); err != nil {
			return 0, nil, fmt.Errorf("read the secrets: %w", err)
		}
		for _, f := range []Field{Password, TOTP} {
			switch plain, err := r.decrypt(sealer, f); {
			case err != nil:
				unreadable = append(unreadable, err)
				total++
			case plain != nil:
				total++
			}
		}
	}
	return total, unreadable, rows.Err()
}
