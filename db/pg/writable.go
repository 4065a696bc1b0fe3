package pg

import (
	"context"
	"database/sql/driver"

	"github.com/jmoiron/sqlx"
)

// Writable asks the database whether it takes writes, with one statement. It
// returns nil, ErrReadOnly, or why the database did not answer. Connections that
// are read-only are not used again: they may stay so when the database does not.
func Writable(ctx context.Context, db *sqlx.DB) error {
	asked, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = asked.Close() }()
	var writable bool
	err = asked.GetContext(ctx, &writable, `SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'`)
	if err != nil || writable {
		return err
	}
	_ = asked.Raw(func(of any) error {
		if c, ok := of.(*conn); ok {
			c.markReadOnly()
		}
		return driver.ErrBadConn // the pool lets go of it
	})
	return ErrReadOnly
}
