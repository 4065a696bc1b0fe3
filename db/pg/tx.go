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

// InTx runs fn in a transaction. The transaction is committed if fn returns nil,
// and rolled back if fn returns an error or panics. After a deadlock or a
// serialization failure, InTx retries fn in a new transaction, up to four attempts,
// so fn must not have other side effects. Errors of fn are returned unchanged.
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

// InOrg is InTx for one organization: in tables with row-level security, the
// transaction can access only the rows of the organization.
func InOrg(ctx context.Context, db *sqlx.DB, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return InTx(ctx, db, func(tx *sqlx.Tx) error {
		if err := EnterOrg(ctx, tx, orgID); err != nil {
			return err
		}
		return fn(tx)
	})
}

// EnterOrg restricts the rest of a transaction to the organization, as InOrg does.
func EnterOrg(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	// Without arguments it is one round trip. A UUID needs no quoting.
	if _, err := tx.ExecContext(ctx, `SET LOCAL svc.organization = '`+orgID.String()+`'`); err != nil {
		return fmt.Errorf("enter organization %s: %w", orgID, err)
	}
	return nil
}

// CountForLimit returns the number of rows of an organization in a table. It blocks
// concurrent calls until tx ends, and counts in a separate statement, which sees what
// those before have committed.
func CountForLimit(ctx context.Context, tx *sqlx.Tx, table string, orgID uuid.UUID) (count int, err error) {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, table+" of "+orgID.String()); err != nil {
		return 0, fmt.Errorf("lock the %s of an organization: %w", table, err)
	}
	if err := tx.GetContext(ctx, &count, `SELECT count(*) FROM `+table+` WHERE organization_id = $1`, orgID); err != nil {
		return 0, fmt.Errorf("count the %s of an organization: %w", table, err)
	}
	return count, nil
}

func runTx(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) (err error) {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	committed := false
	defer func() { // also runs on a panic
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
