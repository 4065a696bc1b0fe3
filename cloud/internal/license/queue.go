package license

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// The queue of launches that wait for a free slot.
//
//   - A waiting launch is a row of license_queue, keyed by its session. place is the
//     order of arrival, which all replicas share: rows are inserted, taken and deleted
//     under the lock of the counter.
//   - license_org.queued counts the rows. A launch that does not wait leaves that many slots free
//     (in_use + queued < max_slots), so nobody overtakes, and a launch of an
//     organization without a queue costs the same statements as before.
//   - A waiting launch takes a slot if fewer launches are ahead of it than slots are free.
//     It is decided under the lock, so no limit is exceeded and no place is skipped.
//   - Waiting calls are held in memory. One goroutine of the replica finds the launches
//     whose turn it is, of all organizations in one statement per pollInterval, so no
//     wake-up is lost and no call holds a connection. A release at this replica is seen
//     at once.
//   - The replica extends the leases of its rows. If it dies, its places last for the
//     rest of queueTTL: the worker repeats the request at another replica, which takes
//     over the row. call_id is the latest request; an older one can neither take the
//     slot nor delete the row. Rows whose lease is over are ignored and deleted.
//   - The row of a caller that leaves is deleted at once, and so is a slot that was just
//     taken for it (Combiner.OnLost).
//   - Only concurrency_limit has a queue. A launch that gets profile_limit tries again
//     every profileRetry, in no order, and holds no place: a free slot that it cannot use
//     goes to the others.
//   - Start reports and heartbeats ignore the queue: their browsers already run.

const (
	// queueTTL is how long a place lasts without its replica.
	queueTTL = 15 * time.Second
	// queueRenewal is the interval at which a replica extends the leases of its rows.
	queueRenewal = 5 * time.Second
	// profileRetry is the interval at which a launch tries again after profile_limit.
	profileRetry = 500 * time.Millisecond
	// answerTime is what remains of the caller's deadline at the end of a wait.
	answerTime = 10 * time.Second
)

var errSuperseded = conflict("A later request waits for this session.")

// wait waits for a slot for a refused launch, up to req.Wait and req.Poll. A Grant that is
// Queued means that the launch can wait longer.
func (s *Service) wait(ctx context.Context, req Request, refused Grant) (Grant, error) {
	w := newWaiter(req.OrgID, req.SessionID)
	if !s.queue.add(w) {
		refused.Queued = true
		return refused, nil
	}
	defer s.queue.remove(w)
	req.Ends = nil // applied
	if deadline, ok := ctx.Deadline(); ok {
		req.Poll = min(req.Poll, time.Until(deadline)-answerTime)
	}
	over := time.NewTimer(min(req.Wait, req.Poll))
	defer over.Stop()
	for next := refused; ; {
		var err error
		if next, err = s.tryQueued(ctx, req, w, next); err != nil {
			return Grant{}, s.leaveAfter(w, err)
		}
		if next.Allowed {
			return next, nil
		}
		var retry <-chan time.Time
		if next.Reason == ProfileLimit {
			retry = time.After(profileRetry)
		}
		select {
		case <-w.wake:
		case <-retry:
		case <-over.C:
			if req.Poll >= req.Wait {
				return next, s.leave(ctx, w)
			}
			return s.stillQueued(ctx, req, w, next)
		case <-s.queue.stopped:
			return s.stillQueued(ctx, req, w, next)
		case <-ctx.Done():
			return Grant{}, s.leaveAfter(w, ctx.Err())
		}
		if !w.isQueued() {
			if next, err = s.authorize(ctx, req); err != nil || next.Allowed {
				return next, err
			}
		}
	}
}

// tryQueued takes a slot for a refused launch if it is its turn. At the concurrency limit
// it joins the queue first.
func (s *Service) tryQueued(ctx context.Context, req Request, w *waiter, refused Grant) (next Grant, err error) {
	next = refused
	switch w.takeLoss() {
	case superseded:
		return Grant{}, errSuperseded
	case leaseOver: // its session may have got a slot or have ended
		if next, err = s.authorize(ctx, req); err != nil || next.Allowed {
			return next, err
		}
	}
	if next.Reason != ConcurrencyLimit {
		return next, nil
	}
	if !w.isQueued() {
		if _, err := s.joins.Do(ctx, req.OrgID, w.entry); err != nil {
			return Grant{}, err
		}
		w.setQueued(true)
	}
	return s.takeTurn(ctx, req, w, next)
}

// takeTurn takes a slot if it is the launch's turn. A launch that can't have a profile
// leaves the queue.
func (s *Service) takeTurn(ctx context.Context, req Request, w *waiter, refused Grant) (Grant, error) {
	take := s.reserveTurn
	if req.NewProfile != nil {
		take = s.reserveTurnWithProfile
	}
	grant, err := take(ctx, req, w.entry)
	switch {
	case isLostRace(err):
		return refused, nil
	case err == nil && grant.Reason == ProfileLimit:
		return grant, s.leave(ctx, w)
	case err != nil || grant.Allowed:
		return grant, err
	}
	return refused, nil
}

// stillQueued answers a launch that keeps its place. A session without a place may have
// got a slot by another request, or have ended.
func (s *Service) stillQueued(ctx context.Context, req Request, w *waiter, refused Grant) (Grant, error) {
	if !w.isQueued() {
		refused.Queued = true
		return refused, nil
	}
	var position int
	if err := s.db.get(ctx, s.stmts.queuePosition, &position, w.orgID, w.sessionID); err != nil {
		return Grant{}, fmt.Errorf("read the position in the queue: %w", err)
	}
	if position == 0 {
		grant, err := s.authorize(ctx, req)
		if err != nil || grant.Allowed {
			return grant, err
		}
		refused = grant
	}
	refused.Queued, refused.Position = true, position
	return refused, nil
}

// leave deletes the launch from the queue.
func (s *Service) leave(ctx context.Context, w *waiter) error {
	if !w.isQueued() {
		return nil
	}
	w.setQueued(false)
	_, err := s.leaves.Do(ctx, w.orgID, w.entry)
	return err
}

// leaveAfter deletes a failed launch from the queue, without waiting, and returns the
// error. After an outage the place is kept: the caller repeats the request.
func (s *Service) leaveAfter(w *waiter, err error) error {
	if _, outage := pg.OutageOf(err); w.isQueued() && !outage {
		s.leaves.Post(w.orgID, w.entry)
	}
	return err
}

// reserveTurn is reserve for a launch in the queue.
func (s *Service) reserveTurn(ctx context.Context, req Request, e entry) (Grant, error) {
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	w.callID = e.callID
	return s.reserveWith(ctx, s.turns, req, w)
}

// reserveTurnWithProfile is reserveWithProfile for a launch in the queue.
func (s *Service) reserveTurnWithProfile(ctx context.Context, req Request, e entry) (Grant, error) {
	turns, err := s.findTurns(ctx, []uuid.UUID{req.OrgID})
	if err != nil || !turns[e.callID] {
		return Grant{}, err
	}
	if _, err := s.lookup(ctx, req); err != nil { // its key may be revoked
		return Grant{}, err
	}
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	w.callID = e.callID
	return s.takeWithProfile(ctx, req, w, func(ctx context.Context, tx *sqlx.Tx, w slotRequest) (takeResult, error) {
		all, err := s.takeTurns(ctx, tx, s.stmts.queueStatements, req.OrgID, []slotRequest{w})
		if err != nil {
			return takeResult{}, err
		}
		return all[0], nil
	})
}

// takeTurnBatch takes slots for those launches of a batch whose turn it is.
func (s *Service) takeTurnBatch(ctx context.Context, orgID uuid.UUID, wants []slotRequest) (all []takeResult, err error) {
	err = pg.InTx(ctx, s.batch.db, func(tx *sqlx.Tx) error {
		all, err = s.takeTurns(ctx, tx, s.batch.queueStatements, orgID, wants)
		return err
	})
	return all, err
}

// Waiting returns how many launches wait at this replica.
func (s *Service) Waiting() int { return s.queue.length() }

// StopWaiting answers the waiting launches, which keep their places: their workers repeat
// the requests at another replica. Later launches do not wait. Call it before the server
// is shut down.
func (s *Service) StopWaiting() { s.queue.stop() }

// dropStale deletes the places of an organization that are over. It reports whether
// there were any, or whether a slot has become free meanwhile. It locks nothing if there
// are none.
func (s *Service) dropStale(ctx context.Context, orgID uuid.UUID) (bool, error) {
	var now struct{ Stale, Free bool }
	if err := s.db.get(ctx, s.stmts.hasStale, &now, orgID); err != nil {
		return false, notFoundIfRemoved(fmt.Errorf("look for stale places: %w", err))
	}
	if !now.Stale {
		return now.Free, nil
	}
	err := s.db.run(ctx, orgID, func() error {
		_, err := s.stmts.dropStale.ExecContext(ctx, orgID)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete stale places: %w", err)
	}
	return true, nil
}

// dropAllStale is dropStale for all organizations.
func (s *Service) dropAllStale(ctx context.Context) error {
	var orgs []uuid.UUID
	if err := s.stmts.staleOrgs.SelectContext(ctx, &orgs, maxReapOrgs); err != nil {
		return fmt.Errorf("find stale places: %w", err)
	}
	var errs []error
	for _, orgID := range orgs {
		if _, err := s.dropStale(ctx, orgID); err != nil && !fault.Is(err, fault.NotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
