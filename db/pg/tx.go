package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

const txAttempts = 4

// InTx runs fn in a transaction: committed when fn returns nil, rolled back
// when it returns an error or panics. A deadlock or a serialization failure
// runs fn again, in a new transaction after a short random pause, four times in
// all; so fn must have no effect besides the transaction. The error of fn is
// returned as it is.
func InTx(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := runTx(ctx, db, fn)
		if err == nil || attempt == txAttempts || !isTransient(err) {
			return err
		}
		pause := time.Duration(attempt)*5*time.Millisecond + rand.N(20*time.Millisecond)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// InOrg is InTx for one organization: of the tables under row-level security,
// the transaction sees and changes only that organization's rows.
func InOrg(ctx context.Context, db *sqlx.DB, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return InTx(ctx, db, func(tx *sqlx.Tx) error {
		// Without arguments it is one round trip; an id has nothing to quote.
		if _, err := tx.ExecContext(ctx, `SET LOCAL svc.organization = '`+orgID.String()+`'`); err != nil {
			return fmt.Errorf("enter organization %s: %w", orgID, err)
		}
		return fn(tx)
	})
}

func runTx(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) (err error) {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	committed := false
	defer func() { // runs on a panic too, which then goes on
		if committed {
			return
		}
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) && err == nil {
			err = fmt.Errorf("roll back: %w", undo)
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return nil
}
