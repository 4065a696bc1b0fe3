package license

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// statements are prepared once. database/sql prepares them again on each connection
// that runs them.
type statements struct {
	renew                                          *sqlx.Stmt
	register, lock, startSlot, relabel, acquire    *sqlx.Stmt
	flagDuplicates                                 *sqlx.Stmt
	takeOne, takeRunning, adjustCounter            *sqlx.Stmt
	refresh, hasOmitted, supersededBoot            *sqlx.Stmt
	lockMachine, releaseOmitted, adopt, listedHeld *sqlx.Stmt
	hasExpired, expire, usage, expiredOrgs         *sqlx.Stmt
	recordMachine                                  *sqlx.Stmt
	hasStale, dropStale, staleOrgs, queuePosition  *sqlx.Stmt
	queueStatements
}

func (s *statements) all() []statement {
	return append(s.queueStatements.all(), []statement{
		{&s.renew, renewSQL},
		{&s.register, registerSQL},
		{&s.flagDuplicates, flagDuplicatesSQL},
		{&s.lock, lockSQL},
		{&s.startSlot, startSlotSQL},
		{&s.relabel, relabelSQL},
		{&s.acquire, acquireSQL},
		{&s.takeOne, takeOneSQL},
		{&s.takeRunning, takeRunningSQL},
		{&s.adjustCounter, adjustCounterSQL},
		{&s.refresh, refreshSQL},
		{&s.hasOmitted, hasOmittedSQL},
		{&s.supersededBoot, supersededBootSQL},
		{&s.lockMachine, lockMachineSQL},
		{&s.releaseOmitted, releaseOmittedSQL},
		{&s.adopt, adoptSQL},
		{&s.listedHeld, listedHeldSQL},
		{&s.hasExpired, hasExpiredSQL},
		{&s.expire, expireSQL},
		{&s.usage, usageSQL},
		{&s.expiredOrgs, expiredOrgsSQL},
		{&s.recordMachine, recordMachineSQL},
		{&s.hasStale, hasStaleSQL},
		{&s.dropStale, dropStaleSQL},
		{&s.staleOrgs, staleOrgsSQL},
		{&s.queuePosition, queuePositionSQL},
	}...)
}

// batchStatements are the batched statements and their pool. An organization uses at
// most one of its connections for each kind of statement.
type batchStatements struct {
	db                             *sqlx.DB
	lookup, validKeys              *sqlx.Stmt
	take, takeOne                  *sqlx.Stmt
	cancel, cancelOne              *sqlx.Stmt
	release, endOne                *sqlx.Stmt
	undo, tombstone, adjustCounter *sqlx.Stmt
	deleteTombstones               *sqlx.Stmt
	carriedSlots                   *sqlx.Stmt
	join, leave                    *sqlx.Stmt
	findTurns, renewQueue          *sqlx.Stmt
	queueStatements
}

func (s *batchStatements) all(keys Keys) []statement {
	return append(s.queueStatements.all(), []statement{
		{&s.lookup, lookupSQL(keys)},
		{&s.validKeys, keys.ValidSQL()},
		{&s.take, takeSQL},
		{&s.takeOne, takeOneSQL},
		{&s.cancel, cancelSQL},
		{&s.cancelOne, cancelOneSQL},
		{&s.release, releaseSQL},
		{&s.endOne, endOneSQL},
		{&s.undo, undoSQL},
		{&s.tombstone, tombstoneSQL},
		{&s.deleteTombstones, deleteTombstonesSQL},
		{&s.adjustCounter, adjustCounterSQL},
		{&s.carriedSlots, carriedSlotsSQL},
		{&s.join, joinSQL},
		{&s.leave, leaveSQL},
		{&s.findTurns, findTurnsSQL},
		{&s.renewQueue, renewQueueSQL},
	}...)
}

type statement struct {
	stmt  **sqlx.Stmt
	query string
}

func prepare(ctx context.Context, db *sqlx.DB, all []statement) error {
	for _, each := range all {
		stmt, err := db.PreparexContext(ctx, each.query)
		if err != nil {
			return fmt.Errorf("prepare the license statements: %w", err)
		}
		*each.stmt = stmt
	}
	return nil
}

// unprepare closes the prepared statements.
func unprepare(all []statement) error {
	var errs []error
	for _, each := range all {
		if *each.stmt != nil {
			errs = append(errs, (*each.stmt).Close())
		}
	}
	return errors.Join(errs...)
}
