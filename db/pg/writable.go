package pg

import (
	"context"
	"database/sql/driver"

	"github.com/jmoiron/sqlx"
)

// Writable checks with one statement whether the database accepts writes. It
// returns nil, ErrReadOnly or the error of the statement. Read-only connections are
// discarded, because they may stay read-only after the database becomes writable.
func Writable(ctx context.Context, db *sqlx.DB) error {
	connection, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	var writable bool
	err = connection.GetContext(ctx, &writable, `SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'`)
	if err != nil || writable {
		return err
	}
	_ = connection.Raw(func(driverConn any) error {
		if c, ok := driverConn.(*conn); ok {
			c.markReadOnly()
		}
		return driver.ErrBadConn // the pool discards it
	})
	return ErrReadOnly
}
