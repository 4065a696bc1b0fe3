package mail

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// CheckQueued decrypts the queued mails. It returns their number, and an error for each
// that cannot be decrypted.
func CheckQueued(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	rows, err := system.QueryContext(ctx, `SELECT id, encrypted_text FROM mail_outbox WHERE encrypted_text IS NOT NULL`)
	if err != nil {
		return 0, nil, fmt.Errorf("read queued mail: %w", err)
	}
	defer rows.Close()
	for ; rows.Next(); total++ {
		var id uuid.UUID
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return 0, nil, fmt.Errorf("read queued mail: %w", err)
		}
		if _, err := sealer.Open(sealed, associatedData(id)); err != nil {
			unreadable = append(unreadable, fmt.Errorf("decrypt mail %s: %w", id, err))
		}
	}
	return total, unreadable, rows.Err()
}
