// Package license counts the concurrency of organizations: how many slots the
// plan allows, who holds them, and when they are given back (specification 3.2,
// 8). A slot is one row from its reservation to its end, and each organization
// has one counter row; both change in one transaction, the counter last.
//
// Time is the database's clock, so that replicas agree on what has lapsed.
package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// How long a slot is held without a sign of life (specification 3.2).
const (
	ReservationTTL = 2 * time.Minute // from authorize to the report of the start
	UnreportedTTL  = 6 * time.Hour   // from the start to the first heartbeat
	HeartbeatTTL   = 5 * time.Minute // from one heartbeat to the next
)

// HeartbeatInterval is how often workers are asked to report.
const HeartbeatInterval = 30 * time.Second

// closeTimeout bounds how long Close waits for the calls under way.
const closeTimeout = 15 * time.Second

// maxAttempts bounds how often a call tries again that lost a race for its own
// session, and maxLookups how often one that saw room and found none.
const (
	maxAttempts = 4
	maxLookups  = 100
)

// Options tune a Service; the zero value is right for production, but for
// BatchDB.
type Options struct {
	// BatchDB is the pool for what is done for several callers at once, which no
	// organization can exhaust; default the Service's own.
	BatchDB *sqlx.DB
	// ReclaimEvery is how often at most a full organization is searched for
	// lapsed slots on behalf of a launch; default 1 s.
	ReclaimEvery time.Duration
	// AuditEvery is how often RunReaper also audits; default 10 min.
	AuditEvery time.Duration
	// ReapGrace is how long no session is given up after the start of the process,
	// or after the database was away; default 90 s, in which every worker that lost
	// the cloud tries again.
	ReapGrace time.Duration
	// Keys, when set, is told which keys of launches were found to be good.
	Keys Keys
	// Profiles, when set, is asked before a slot is taken for a profile, and not
	// for a launch that is refused anyway.
	Profiles Profiles
	// KnownProfiles, when set, is asked before the end of an unknown session is
	// remembered.
	KnownProfiles KnownProfiles
	// Clock paces reclaims, audits and the grace; default clock.System.
	Clock clock.Clock
	// NoBatching runs every call by itself: for tests and benchmarks that
	// compare.
	NoBatching bool
}

// Service is the license accounting of all organizations. Any number of
// replicas may share one database. A call whose organization is removed
// meanwhile returns NotFound.
type Service struct {
	db              *orgPool
	observer        Observer
	logger          *slog.Logger
	opts            Options
	stmts           statements // belongsTo db
	batch           batchStatements
	reclaimThrottle *throttle
	pacer           *heartbeatPacer
	grace           *gracePeriod
	refusals        *refusals
	totals          totals
	fullCache       *fullCache
	reservations    reservations
	lookups         *combine.Combiner[uuid.UUID, withKey[uuid.UUID], result[slotState]] // by organization, as the next three
	grants          *combine.Combiner[uuid.UUID, withKey[slotRequest], result[takeResult]]
	cancellations   *combine.Combiner[uuid.UUID, release, *time.Time]
	releases        *combine.Combiner[uuid.UUID, release, outcome]
	carriedEnds     *combine.Combiner[uuid.UUID, withKey[carriedEnds], result[[]EndReport]]
}

// New prepares the statements on a migrated database, whose pools are pg.Open's:
// they send bytes as binary. The observer is told of each session that starts or
// ends. Close the Service before the pool.
func New(ctx context.Context, db *sqlx.DB, observer Observer, logger *slog.Logger, opts Options) (*Service, error) {
	if opts.BatchDB == nil {
		opts.BatchDB = db
	}
	if opts.ReapGrace == 0 {
		opts.ReapGrace = 90 * time.Second
	}
	if opts.ReclaimEvery == 0 {
		opts.ReclaimEvery = time.Second
	}
	if opts.AuditEvery == 0 {
		opts.AuditEvery = 10 * time.Minute
	}
	if opts.Clock == nil {
		opts.Clock = clock.System{}
	}
	s := &Service{
		db: newOrgPool(db), observer: observer, logger: logger, opts: opts, batch: batchStatements{db: opts.BatchDB},
		reclaimThrottle: newThrottle(opts.ReclaimEvery, opts.Clock),
		pacer:           &heartbeatPacer{clock: opts.Clock}, grace: &gracePeriod{clock: opts.Clock, duration: opts.ReapGrace}, refusals: newRefusals(db, logger),
		fullCache: newFullCache(opts.Clock),
	}
	s.grace.begin()
	s.combine()
	err := prepare(ctx, db, s.stmts.all())
	if err == nil {
		err = prepare(ctx, opts.BatchDB, s.batch.all())
	}
	if err != nil {
		return nil, errors.Join(err, s.unprepare())
	}
	return s, nil
}

// combine sets up what is done for several callers at once.
func (s *Service) combine() {
	alone, logger := s.opts.NoBatching, s.logger
	counter := combine.NewScheduler[uuid.UUID]() // for statements that lock the counter and do little else
	s.lookups = combine.New(s.lookupChecked, combine.Options[uuid.UUID, withKey[uuid.UUID]]{NoBatching: alone, Logger: logger})
	s.carriedEnds = combine.New(s.findCarriedSlots, combine.Options[uuid.UUID, withKey[carriedEnds]]{NoBatching: alone, Logger: logger})
	s.grants = combine.New(s.takeChecked, combine.Options[uuid.UUID, withKey[slotRequest]]{
		Scheduler: counter, NoBatching: alone, Logger: logger,
		OnLost: func(orgID uuid.UUID, w withKey[slotRequest]) { s.undoReservation(orgID, w.request) },
	})
	s.cancellations = combine.New(s.cancelBatch, combine.Options[uuid.UUID, release]{Scheduler: counter, NoBatching: alone, Logger: logger})
	s.releases = combine.New(s.releaseBatch, combine.Options[uuid.UUID, release]{NoBatching: alone, Logger: logger})
}

func (s *Service) unprepare() error { return unprepare(append(s.stmts.all(), s.batch.all()...)) }

// Close answers the calls that are under way, refuses new ones, writes the
// refusals that wait, and releases the prepared statements. Calls that the
// database does not answer in closeTimeout are left, and end with the pool.
func (s *Service) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	carriers := s.carriedEnds.Close(ctx)
	looks, grants, withdrawals := s.lookups.Close(ctx), s.grants.Close(ctx), s.cancellations.Close(ctx)
	releases := s.releases.Close(ctx) // last: grants may be given back, and an end may turn out to be no withdrawal
	s.refusals.close()
	if err := errors.Join(carriers, looks, grants, withdrawals, releases); err != nil {
		return err // closing a statement would wait for who uses it
	}
	return s.unprepare()
}

// Usage is what an organization has and may have.
type Usage struct {
	Current int  `db:"in_use"`    // slots taken, reservations included
	Limit   *int `db:"max_slots"` // nil is unlimited
}

func (u Usage) full() bool { return u.Limit != nil && u.Current >= *u.Limit }

// SetLimit sets how many slots an organization may hold at once; nil is
// unlimited. A limit below the usage ends nothing: it refuses until enough
// slots are free. It creates the counter of a new organization.
func (s *Service) SetLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, limit *int) error {
	_, err := tx.ExecContext(ctx, setLimitSQL, orgID, limit)
	if err != nil {
		return fmt.Errorf("set the slot limit: %w", err)
	}
	return nil
}

// notFoundIfRemoved makes the failure of a call whose organization was removed meanwhile a
// NotFound: nothing of it is left that could be counted.
func notFoundIfRemoved(err error) error {
	if errors.Is(err, sql.ErrNoRows) || pg.IsForeignKey(err, "") {
		return fault.Missing("organization")
	}
	return err
}

// isLostRace reports whether the statement failed because another one was quicker
// with the same session: a new attempt will see what that one did.
func isLostRace(err error) bool {
	return pg.IsUnique(err, "license_slots_session") || pq.As(err, pqerror.TRDeadlockDetected) != nil
}

// EndOrganization gives up everything that an organization holds, in the
// transaction that removes it. The locks come in the house's order: machines,
// slots, the counter last. With that go the slots that were made meanwhile.
func (s *Service) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	for _, statement := range []string{
		`DELETE FROM license_machines WHERE organization_id = $1`,
		`DELETE FROM license_slots WHERE organization_id = $1`,
		`DELETE FROM license_org WHERE organization_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, orgID); err != nil {
			return fmt.Errorf("give up the license of an organization: %w", err)
		}
	}
	return nil
}
