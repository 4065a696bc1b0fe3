package idempotency

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// CheckAnswers decrypts the stored answers. It returns their number, and an error for
// each that cannot be decrypted.
func CheckAnswers(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	rows, err := system.QueryContext(ctx, `SELECT id, answer FROM idempotency_keys WHERE answer IS NOT NULL`)
	if err != nil {
		return 0, nil, fmt.Errorf("read stored answers: %w", err)
	}
	defer rows.Close()
	for ; rows.Next(); total++ {
		var id, sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return 0, nil, fmt.Errorf("read stored answers: %w", err)
		}
		if _, err := sealer.Open(sealed, associatedData(id)); err != nil {
			unreadable = append(unreadable, fmt.Errorf("decrypt a stored answer: %w", err))
		}
	}
	return total, unreadable, rows.Err()
}
