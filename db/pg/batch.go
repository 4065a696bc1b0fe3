package pg

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// batchSize is the maximum number of rows of a transaction of InBatches.
const batchSize = 500

// InBatches calls fn for the rows of a query, with a transaction for each batch. The query
// gets the id before the batch ($1) and the size of the batch ($2), and returns rows in the
// order of their ids. name names the rows in errors. It returns the number of rows; errors of
// fn are returned unchanged.
func InBatches[Row any](
	ctx context.Context, db *sqlx.DB, name, query string, id func(*Row) uuid.UUID, fn func(ctx context.Context, tx *sqlx.Tx, row *Row) error,
) (total int, err error) {
	for last := uuid.Nil; ; {
		var rows []Row
		err := InTx(ctx, db, func(tx *sqlx.Tx) error {
			rows = nil
			if err := tx.SelectContext(ctx, &rows, query, last, batchSize); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			for i := range rows {
				if err := fn(ctx, tx, &rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		total += len(rows)
		if len(rows) < batchSize {
			return total, nil
		}
		last = id(&rows[len(rows)-1])
	}
}
