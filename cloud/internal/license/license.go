// Package license counts the concurrent sessions of organizations: how many slots the
// plan allows, which sessions hold them, and when they are released (specification
// 3.2, 8). A slot is one row of license_slots from its reservation to its end. Each
// organization has one counter row. Slot and counter change in one transaction, the
// counter last.
//
// All times are the database's, so that replicas agree on which leases have expired.
package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Lease durations of a slot (specification 3.2).
const (
	ReservationTTL = 2 * time.Minute // from authorize to the start report
	UnreportedTTL  = 6 * time.Hour   // from the start to the first heartbeat
	HeartbeatTTL   = 5 * time.Minute // from one heartbeat to the next
)

// maxReportDelay is how long before its report a session without a reservation can have
// started.
const maxReportDelay = time.Hour

// HeartbeatInterval is the interval at which workers send heartbeats.
const HeartbeatInterval = 30 * time.Second

// closeTimeout bounds how long Close waits for calls in progress.
const closeTimeout = 15 * time.Second

const (
	// maxAttempts bounds the attempts of a call that loses races for its own session.
	// maxLookups bounds the attempts of a call that sees a free slot but does not get
	// it.
	maxAttempts = 4
	maxLookups  = 100
)

// Options configure a Service. The zero value is right for production, except for
// BatchDB.
type Options struct {
	// BatchDB is the pool for batched statements. No organization can exhaust it,
	// because each uses at most one connection per kind of statement. Default: the
	// Service's own pool.
	BatchDB *sqlx.DB
	// ReclaimEvery is the minimum interval between searches for expired slots when
	// launches of an organization find no free slot; default 1 s.
	ReclaimEvery time.Duration
	// AuditEvery is the interval of the audits of RunReaper; default 10 min.
	AuditEvery time.Duration
	// ReapGrace is the time after the start of the process, or after a database outage,
	// during which no session expires; default 90 s. Every worker that lost the cloud
	// retries within that time.
	ReapGrace time.Duration
	// Retention is how long released slots and events are kept; 0 keeps them forever.
	Retention time.Duration
	// Keys verifies pending keys. By default they are rejected.
	Keys Keys
	// Profiles, if set, is called before a slot is taken for a profile. It is not called
	// for a launch that is refused for another reason.
	Profiles Profiles
	// KnownProfiles, if set, is called before a tombstone is inserted for an unknown
	// session.
	KnownProfiles KnownProfiles
	// Clock is used for reclaim intervals, audits and the grace period; default
	// clock.System.
	Clock clock.Clock
	// Metrics measures the authorizes; by default they are not exported.
	Metrics *Metrics
}

// Service is the license accounting of all organizations. Any number of replicas may
// share one database. A call whose organization is removed while it runs returns
// NotFound.
type Service struct {
	db              *orgPool
	observer        Observer
	logger          *slog.Logger
	opts            Options
	stmts           statements // of db
	batch           batchStatements
	reclaimThrottle *throttle
	pacer           *heartbeatPacer
	grace           *gracePeriod
	refusals        *refusals
	totals          totals
	reapedAt        atomic.Int64 // when the reaper last succeeded, in Unix nanoseconds; 0 for never
	fullCache       *fullCache
	reservations    reservations
	lookups         *combine.Combiner[uuid.UUID, withKey[uuid.UUID], result[slotState]] // keyed by organization, like those below
	grants          *grantCombiner
	cancellations   *combine.Combiner[uuid.UUID, release, *time.Time]
	releases        *combine.Combiner[uuid.UUID, release, outcome]
	carriedEnds     *combine.Combiner[uuid.UUID, withKey[carriedEnds], result[[]EndReport]]
	turns           *grantCombiner
	joins, leaves   *combine.Combiner[uuid.UUID, entry, struct{}]
	queue           *queuePoller
}

// New prepares the statements on a migrated database. The pools must be opened with
// pg.Open, because statements pass arrays in binary. The observer is called for each
// session that starts or ends. Close the Service before its pools.
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
	if opts.Keys == nil {
		opts.Keys = noKeys{}
	}
	if opts.Clock == nil {
		opts.Clock = clock.System{}
	}
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	s := &Service{
		db: newOrgPool(db), observer: observer, logger: logger, opts: opts, batch: batchStatements{db: opts.BatchDB},
		reclaimThrottle: newThrottle(opts.ReclaimEvery, opts.Clock),
		pacer:           &heartbeatPacer{clock: opts.Clock}, grace: &gracePeriod{clock: opts.Clock, duration: opts.ReapGrace}, refusals: newRefusals(db, logger, opts.Clock),
		fullCache: newFullCache(opts.Clock),
	}
	s.grace.begin()
	s.combine()
	s.queue = newQueuePoller(s)
	err := prepare(ctx, db, s.stmts.all())
	if err == nil {
		err = prepare(ctx, opts.BatchDB, s.batch.all(opts.Keys))
	}
	if err != nil {
		return nil, errors.Join(err, s.unprepare())
	}
	return s, nil
}

// combine creates the Combiners.
func (s *Service) combine() {
	logger := s.logger
	counter := combine.NewScheduler[uuid.UUID]() // serializes the short statements that lock the counter
	s.lookups = combine.New(s.lookupChecked, combine.Options[uuid.UUID, withKey[uuid.UUID]]{Name: "find slots", Logger: logger})
	s.carriedEnds = combine.New(s.findCarriedSlots, combine.Options[uuid.UUID, withKey[carriedEnds]]{Name: "find ended slots", Logger: logger})
	taking := combine.Options[uuid.UUID, withKey[slotRequest]]{
		Name: "grant slots", Scheduler: counter, Logger: logger,
		OnLost:  func(orgID uuid.UUID, w withKey[slotRequest]) { s.undoReservation(orgID, w.request) },
		OnBatch: func(calls int) { s.opts.Metrics.batches.Observe(float64(calls)) },
	}
	s.grants = combine.New(s.takeChecked(s.takeBatch), taking)
	s.turns = combine.New(s.takeChecked(s.takeTurnBatch), taking)
	queueing := combine.Options[uuid.UUID, entry]{Name: "queue launches", Scheduler: counter, Logger: logger}
	s.joins, s.leaves = combine.New(s.join, queueing), combine.New(s.leaveBatch, queueing)
	s.cancellations = combine.New(s.cancelBatch, combine.Options[uuid.UUID, release]{Name: "cancel slots", Scheduler: counter, Logger: logger})
	s.releases = combine.New(s.releaseBatch, combine.Options[uuid.UUID, release]{Name: "release slots", Logger: logger})
}

func (s *Service) unprepare() error {
	return unprepare(append(s.stmts.all(), s.batch.all(s.opts.Keys)...))
}

// Close answers the calls in progress, refuses new ones, writes the queued refusal
// events and closes the prepared statements. Calls that the database does not answer
// within closeTimeout end with the pool.
func (s *Service) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	waiting := s.queue.close(ctx)
	carriers := s.carriedEnds.Close(ctx)
	joins, turns, leaves := s.joins.Close(ctx), s.turns.Close(ctx), s.leaves.Close(ctx)
	lookups, grants, cancellations := s.lookups.Close(ctx), s.grants.Close(ctx), s.cancellations.Close(ctx)
	releases := s.releases.Close(ctx) // last: grants may be undone, and ends may not find a reservation to cancel
	s.refusals.close()
	if err := errors.Join(waiting, carriers, joins, turns, leaves, lookups, grants, cancellations, releases); err != nil {
		return err // closing a statement would wait for its users
	}
	return s.unprepare()
}

// Usage is the number of slots that an organization uses, and its limit.
type Usage struct {
	Current int  `db:"in_use"`    // slots taken, reservations included
	Limit   *int `db:"max_slots"` // nil is unlimited
	queued  int  // launches that wait for a slot, if it was read
}

func (u Usage) full() bool { return u.Limit != nil && u.Current >= *u.Limit }

// reserved reports whether no slot is free for a launch that does not wait.
func (u Usage) reserved() bool { return u.Limit != nil && u.Current+u.queued >= *u.Limit }

// SetLimit sets how many slots an organization may hold; nil is unlimited. It creates
// the counter of a new organization. A limit below the current usage ends no session;
// it refuses launches until enough slots are free.
func (s *Service) SetLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, limit *int) error {
	_, err := tx.ExecContext(ctx, setLimitSQL, orgID, limit)
	if err != nil {
		return fmt.Errorf("set the slot limit: %w", err)
	}
	return nil
}

// notFoundIfRemoved converts the error of a call whose organization was removed while
// it ran into NotFound.
func notFoundIfRemoved(err error) error {
	if errors.Is(err, sql.ErrNoRows) || pg.IsForeignKey(err, "") {
		return fault.Missing("organization")
	}
	return err
}

// isLostRace reports whether a statement failed because another one changed the same
// session first. A retry sees that change.
func isLostRace(err error) bool {
	return pg.IsUnique(err, "license_slots_session") || pq.As(err, pqerror.TRDeadlockDetected) != nil
}

// EndOrganization deletes all license data of an organization, in the transaction that
// removes it. It locks in the order of the package: machines, slots, counter. Slots
// that are inserted concurrently are deleted with them.
func (s *Service) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	for _, statement := range []string{
		`DELETE FROM license_machines WHERE organization_id = $1`,
		`DELETE FROM license_slots WHERE organization_id = $1`,
		`DELETE FROM license_org WHERE organization_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, orgID); err != nil {
			return fmt.Errorf("delete the license data of an organization: %w", err)
		}
	}
	return nil
}
