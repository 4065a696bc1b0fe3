package license

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// statements are prepared once; database/sql prepares them again on each
// connection of the pool that runs them.
type statements struct {
	take, look, renew                 *sqlx.Stmt
	register, lock, run, claim        *sqlx.Stmt
	takeOne, endOne                   *sqlx.Stmt
	withdraw, withdrawOne             *sqlx.Stmt
	release, undo, tombstone, count   *sqlx.Stmt
	refresh, fence, omit, adopt, held *sqlx.Stmt
	lapsing, lapse, usage, lapsedOrgs *sqlx.Stmt
}

func (s *statements) prepare(ctx context.Context, db *sqlx.DB) error {
	for _, each := range []struct {
		stmt **sqlx.Stmt
		text string
	}{
		{&s.take, takeSQL},
		{&s.look, lookSQL},
		{&s.renew, renewSQL},
		{&s.register, registerSQL},
		{&s.lock, lockSQL},
		{&s.run, runSQL},
		{&s.claim, claimSQL},
		{&s.takeOne, takeOneSQL},
		{&s.endOne, endOneSQL},
		{&s.withdraw, withdrawSQL},
		{&s.withdrawOne, withdrawOneSQL},
		{&s.release, releaseSQL},
		{&s.undo, undoSQL},
		{&s.tombstone, tombstoneSQL},
		{&s.count, countSQL},
		{&s.refresh, refreshSQL},
		{&s.fence, fenceSQL},
		{&s.omit, omitSQL},
		{&s.adopt, adoptSQL},
		{&s.held, heldSQL},
		{&s.lapsing, lapsingSQL},
		{&s.lapse, lapseSQL},
		{&s.usage, usageSQL},
		{&s.lapsedOrgs, lapsedOrgsSQL},
	} {
		stmt, err := db.PreparexContext(ctx, each.text)
		if err != nil {
			return fmt.Errorf("prepare the license statements: %w", err)
		}
		*each.stmt = stmt
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range []*sqlx.Stmt{
		s.take, s.look, s.renew, s.register, s.lock, s.run, s.claim, s.takeOne, s.endOne, s.withdraw, s.withdrawOne, s.release, s.undo, s.tombstone, s.count,
		s.refresh, s.fence, s.omit, s.adopt, s.held, s.lapsing, s.lapse, s.usage, s.lapsedOrgs,
	} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}
