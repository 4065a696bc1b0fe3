package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/fault"
)

// Reason is why a launch is refused (specification 2.6).
type Reason string

// The reasons.
const (
	ConcurrencyLimit Reason = "concurrency_limit" // all slots are taken
	ProfileLimit     Reason = "profile_limit"     // the profile limit does not allow the profile of a spec
)

// Request asks for a slot. The worker chooses the session id, so that a repeated
// request refers to the same slot.
type Request struct {
	OrgID      uuid.UUID
	KeyID      uuid.UUID
	KeyPending bool // the key still has to be verified
	MachineID  string
	BootID     uuid.UUID
	SessionID  uuid.UUID
	ProfileID  *uuid.UUID
	// NewProfile, if set, creates the profile of this launch, in the transaction that
	// takes the slot and only for a new slot. It returns a ProfileLimitError at the
	// profile limit.
	NewProfile func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error)
	// Ends are applied before the launch is decided: sessions of this machine that have
	// ended.
	Ends []EndReport
	// Wait is how long the launch can wait for a free slot, and Poll how long this call
	// can wait for it. If Poll is shorter, the answer can be Queued: the launch keeps its
	// place for a few seconds, and the caller repeats the request.
	Wait, Poll time.Duration
}

// pendingKey returns the key that still has to be verified, or Nil.
func (req *Request) pendingKey() uuid.UUID {
	if req.KeyPending {
		return req.KeyID
	}
	return uuid.Nil
}

// ProfileLimitError means that the organization has as many profiles as its plan
// allows.
type ProfileLimitError struct{ Current, Limit int }

// Error implements error.
func (e ProfileLimitError) Error() string {
	return fmt.Sprintf("%d of %d profiles exist", e.Current, e.Limit)
}

// Grant is the result of an authorize. Reason is set on a refusal, SlotID and
// ProfileID otherwise. Current is the number of slots, for every Reason (specification
// 2.6). ProfileCount is the number of profiles, set for ProfileLimit only. Limit is
// the profileLimit, which applies to both. Config is the result of Options.Profiles
// for a new slot of an existing profile. Queued is set on a refusal if the launch still
// waits; Position is then its place in the queue, from 1, or 0 if it holds none.
type Grant struct {
	Allowed      bool
	Reason       Reason
	Current      int
	Limit        *int
	ProfileCount *int
	SlotID       uuid.UUID
	ProfileID    *uuid.UUID
	Config       any
	Queued       bool
	Position     int
}

// current returns the count that Reason refers to.
func (g Grant) current() int {
	if g.ProfileCount != nil {
		return *g.ProfileCount
	}
	return g.Current
}

// renewSQL extends the lease of a reservation. The new lease always differs from the
// original one, so that undoSQL does not remove a renewed reservation.
const renewSQL = `
UPDATE license_slots s
SET lease_until = CASE state WHEN 'reserved' THEN GREATEST(lease_until + interval '1 microsecond', clock_timestamp() + make_interval(secs => $3)) ELSE lease_until END
WHERE s.id = $2 AND ` + orgFilter + ` AND s.released_at IS NULL
RETURNING s.id`

// Authorize reserves a slot for a launch, or refuses it (specification 4.2). A
// repeated request for a session with a slot gets the same answer. It returns Conflict
// if the session has ended or belongs to another boot, machine or profile. On any
// error the worker must not launch. A slot that was taken for a cancelled caller is
// released. req.Ends are applied first. A launch that can wait joins the queue of its
// organization; one that can't is refused while others wait for the free slots.
func (s *Service) Authorize(ctx context.Context, req Request) (Grant, error) {
	began := time.Now()
	grant, err := s.authorize(ctx, req)
	if err == nil && !grant.Allowed && req.Wait > 0 {
		grant, err = s.wait(ctx, req, grant)
	}
	if err == nil && !grant.Allowed && !grant.Queued {
		s.recordRefusal(req, grant)
	}
	err = notFoundIfRemoved(err)
	s.opts.Metrics.observe(ctx, grant, err, time.Since(began))
	return grant, err
}

func (s *Service) authorize(ctx context.Context, req Request) (Grant, error) {
	if err := s.applyCarriedEnds(ctx, &req); err != nil {
		return Grant{}, err
	}
	reserve := s.reserve
	if req.NewProfile != nil {
		reserve = s.reserveWithProfile
	}
	for attempts, lookups := 0, 0; attempts < maxAttempts && lookups < maxLookups; lookups++ {
		if !s.fullCache.recentlyFull(req.OrgID) {
			grant, err := reserve(ctx, req)
			if isLostRace(err) {
				attempts++
				continue
			}
			if err != nil || grant.Allowed {
				return grant, err
			}
			if grant.Reason == ProfileLimit { // expired slots also hold profiles
				if freed, err := s.reclaimForLaunch(ctx, req.OrgID); err != nil || !freed {
					return grant, err
				}
				continue
			}
		}
		state, err := s.lookup(ctx, req)
		if err != nil {
			return Grant{}, err
		}
		if state.slot != nil {
			grant, err := s.repeatGrant(ctx, req, state)
			if errors.Is(err, errNotTaken) {
				attempts++
				continue
			}
			return grant, err
		}
		if !state.reserved() {
			continue // a slot was released since then: try again
		}
		freed, err := s.freeForLaunch(ctx, req.OrgID, state)
		if err != nil || !freed {
			return limitReached(state.Usage), err
		}
		s.fullCache.set(req.OrgID, false)
	}
	return Grant{}, errContention()
}

// freeForLaunch frees a slot for a launch that does not wait: it deletes places that are
// over if free slots are kept for them, or reclaims.
func (s *Service) freeForLaunch(ctx context.Context, orgID uuid.UUID, state slotState) (bool, error) {
	if !state.full() {
		if dropped, err := s.dropStale(ctx, orgID); err != nil || dropped {
			return dropped, err
		}
	}
	return s.reclaimForLaunch(ctx, orgID)
}

// errContention is the error of a call that lost too many races, for its own session
// or for a free slot.
func errContention() error {
	return fault.New(fault.Unavailable, "Too many concurrent requests for this session. Try again.")
}

func limitReached(u Usage) Grant {
	return Grant{Reason: ConcurrencyLimit, Current: u.Current, Limit: u.Limit}
}

// reserve takes a slot in a batch with other callers. A Grant that is neither allowed
// nor has a reason means only that no slot was taken.
func (s *Service) reserve(ctx context.Context, req Request) (Grant, error) {
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	return s.reserveWith(ctx, s.grants, req, w)
}

// grantCombiner takes slots in batches.
type grantCombiner = combine.Combiner[uuid.UUID, withKey[slotRequest], result[takeResult]]

func (s *Service) reserveWith(ctx context.Context, grants *grantCombiner, req Request, w slotRequest) (Grant, error) {
	answer, err := grants.Do(ctx, req.OrgID, withKey[slotRequest]{w, req.pendingKey()})
	got, err := answer.unwrap(err)
	if err != nil {
		return Grant{}, err
	}
	if got.ok {
		s.reservations.add(w.sessionID, w.id)
	}
	return got.grant(w), nil
}

// reserveRunning takes a slot for a browser that runs already.
func (s *Service) reserveRunning(ctx context.Context, tx *sqlx.Tx, req Request) (Grant, error) {
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	got, err := s.takeOne(ctx, tx.StmtxContext(ctx, s.stmts.takeRunning), req.OrgID, w)
	if err != nil {
		return Grant{}, err
	}
	return got.grant(w), nil
}

var errNotTaken = errors.New("no slot was taken")

// reserveWithProfile creates the profile and takes the slot in one transaction. It
// returns early if a lookup shows that no slot is free.
func (s *Service) reserveWithProfile(ctx context.Context, req Request) (Grant, error) {
	state, err := s.lookup(ctx, req)
	if err != nil || state.slot != nil || state.reserved() {
		return Grant{}, err
	}
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	return s.takeWithProfile(ctx, req, w, func(ctx context.Context, tx *sqlx.Tx, w slotRequest) (takeResult, error) {
		return s.takeOne(ctx, tx.StmtxContext(ctx, s.stmts.takeOne), req.OrgID, w)
	})
}

// takeWithProfile creates the profile and takes the slot with take.
func (s *Service) takeWithProfile(
	ctx context.Context, req Request, w slotRequest, take func(context.Context, *sqlx.Tx, slotRequest) (takeResult, error),
) (Grant, error) {
	var got takeResult
	err := s.db.tx(ctx, req.OrgID, func(tx *sqlx.Tx) error {
		profileID, err := req.NewProfile(ctx, tx)
		if err != nil {
			return err
		}
		w.profileID = &profileID
		got, err = take(ctx, tx, w)
		if err == nil && !got.ok {
			err = errNotTaken
		}
		return err
	})
	if full, ok := errors.AsType[ProfileLimitError](err); ok {
		// The request that took the last profile may be for this session.
		state, err := s.lookup(ctx, req)
		if err != nil || state.slot != nil {
			return Grant{}, err
		}
		return Grant{Reason: ProfileLimit, Current: state.Current, Limit: &full.Limit, ProfileCount: &full.Current}, nil
	}
	if errors.Is(err, errNotTaken) {
		return Grant{}, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.undoReservation(req.OrgID, w) // the slot may have been taken
		return Grant{}, err
	}
	return got.grant(w), nil
}

// repeatGrant answers a repeated request and renews its reservation. It returns
// errNotTaken if the slot has just been released.
func (s *Service) repeatGrant(ctx context.Context, req Request, state slotState) (Grant, error) {
	slot := state.slot
	switch {
	case slot.State == released:
		return Grant{}, conflict("The session has ended.")
	case !slot.belongsTo(req.MachineID, req.BootID):
		return Grant{}, conflict("The session belongs to another worker.")
	case req.ProfileID != nil && !slot.acceptsProfile(*req.ProfileID):
		return Grant{}, conflict("The session belongs to another profile.")
	case slot.State == reserved:
		var id uuid.UUID
		err := s.db.get(ctx, s.stmts.renew, &id, req.OrgID, slot.ID, ReservationTTL.Seconds())
		if errors.Is(err, sql.ErrNoRows) {
			return Grant{}, errNotTaken
		}
		if err != nil {
			return Grant{}, fmt.Errorf("renew the reservation: %w", err)
		}
	}
	return Grant{
		Allowed: true, Current: state.Current, Limit: state.Limit, SlotID: slot.ID, ProfileID: slot.ProfileID,
	}, nil
}
