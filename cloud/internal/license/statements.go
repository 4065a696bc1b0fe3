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
	renew                             *sqlx.Stmt
	register, lock, run, claim        *sqlx.Stmt
	introduce                         *sqlx.Stmt
	takeOne, count                    *sqlx.Stmt
	refresh, omits, late              *sqlx.Stmt
	fence, omit, adopt, held          *sqlx.Stmt
	lapsing, lapse, usage, lapsedOrgs *sqlx.Stmt
}

func (s *statements) all() []statement {
	return []statement{
		{&s.renew, renewSQL},
		{&s.register, registerSQL},
		{&s.introduce, introduceSQL},
		{&s.lock, lockSQL},
		{&s.run, runSQL},
		{&s.claim, claimSQL},
		{&s.takeOne, takeOneSQL},
		{&s.count, countSQL},
		{&s.refresh, refreshSQL},
		{&s.omits, omitsSQL},
		{&s.late, lateSQL},
		{&s.fence, fenceSQL},
		{&s.omit, omitSQL},
		{&s.adopt, adoptSQL},
		{&s.held, heldSQL},
		{&s.lapsing, lapsingSQL},
		{&s.lapse, lapseSQL},
		{&s.usage, usageSQL},
		{&s.lapsedOrgs, lapsedOrgsSQL},
	}
}

// together is the pool for what is done for several callers at once, and its
// statements. An organization has few of its connections: one for each kind.
type together struct {
	db                     *sqlx.DB
	look, goodKeys         *sqlx.Stmt
	take, takeOne          *sqlx.Stmt
	withdraw, withdrawOne  *sqlx.Stmt
	release, endOne        *sqlx.Stmt
	undo, tombstone, count *sqlx.Stmt
	forgetTombstones       *sqlx.Stmt
	carried                *sqlx.Stmt
}

func (s *together) all() []statement {
	return []statement{
		{&s.look, lookSQL},
		{&s.goodKeys, goodKeysSQL},
		{&s.take, takeSQL},
		{&s.takeOne, takeOneSQL},
		{&s.withdraw, withdrawSQL},
		{&s.withdrawOne, withdrawOneSQL},
		{&s.release, releaseSQL},
		{&s.endOne, endOneSQL},
		{&s.undo, undoSQL},
		{&s.tombstone, tombstoneSQL},
		{&s.forgetTombstones, forgetTombstonesSQL},
		{&s.count, countSQL},
		{&s.carried, carriedSQL},
	}
}

type statement struct {
	stmt **sqlx.Stmt
	text string
}

func prepare(ctx context.Context, db *sqlx.DB, all []statement) error {
	for _, each := range all {
		stmt, err := db.PreparexContext(ctx, each.text)
		if err != nil {
			return fmt.Errorf("prepare the license statements: %w", err)
		}
		*each.stmt = stmt
	}
	return nil
}

// unprepare closes the statements, as far as they were prepared.
func unprepare(all []statement) error {
	var errs []error
	for _, each := range all {
		if *each.stmt != nil {
			errs = append(errs, (*each.stmt).Close())
		}
	}
	return errors.Join(errs...)
}
