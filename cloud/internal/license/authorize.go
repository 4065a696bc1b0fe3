package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Reason is why a launch is refused (specification 2.6).
type Reason string

// The reasons.
const (
	ConcurrencyLimit Reason = "concurrency_limit" // db slots are taken
	ProfileLimit     Reason = "profile_limit"     // no room for the profile that a spec needs
)

// Request asks for a slot. The worker chooses the session's id, so asking again
// is about the same slot.
type Request struct {
	OrgID     uuid.UUID
	KeyID     uuid.UUID
	Unchecked bool // whether the key is good is still to be looked up
	MachineID string
	BootID    uuid.UUID
	SessionID uuid.UUID
	ProfileID *uuid.UUID
	// NewProfile, when set, makes the profile of this one launch, in the
	// transaction that takes the slot and only when the slot is new. It returns
	// a ProfileLimitError when there is no room for one.
	NewProfile func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error)
	// Ends are applied before the launch is decided: sessions of this machine
	// that are over.
	Ends []EndReport
}

// uncheckedKey is Nil where the key was checked.
func (req *Request) uncheckedKey() uuid.UUID {
	if req.Unchecked {
		return req.KeyID
	}
	return uuid.Nil
}

// ProfileLimitError says that the organization has all the profiles that its
// plan allows.
type ProfileLimitError struct{ Current, Limit int }

// Error implements error.
func (e ProfileLimitError) Error() string {
	return fmt.Sprintf("%d of %d profiles are taken", e.Current, e.Limit)
}

// Grant is the verdict on a launch. Reason is set on a refusal, SlotID and
// ProfileID otherwise. Current counts slots, for every Reason (specification
// 2.6); ProfileCount counts profiles, and is set when these are the Reason. Limit
// is the profileLimit, which holds for both. Config is as Options.Profiles
// prepared it, for a slot that was just taken for a profile that was there before.
type Grant struct {
	Allowed      bool
	Reason       Reason
	Current      int
	Limit        *int
	ProfileCount *int
	SlotID       uuid.UUID
	ProfileID    *uuid.UUID
	Config       any
}

// current is what there is of the things that Reason is about.
func (g Grant) current() int {
	if g.ProfileCount != nil {
		return *g.ProfileCount
	}
	return g.Current
}

// renewSQL makes the lease of a reservation longer, so that it is told from one
// that nobody heard of.
const renewSQL = `
UPDATE license_slots s
SET lease_until = CASE state WHEN 'reserved' THEN GREATEST(lease_until + interval '1 microsecond', clock_timestamp() + make_interval(secs => $3)) ELSE lease_until END
WHERE s.id = $2 AND ` + orgFilter + ` AND s.released_at IS NULL
RETURNING s.id`

// Authorize reserves a slot for a launch, or refuses it (specification 4.2).
// Asked again for a session that has its slot, it gives the same answer. It
// returns a Conflict when that session is over or belongs to another boot,
// machine or profile; any error means: don't launch. A slot that was taken for
// a caller who can't be told is given back. The ends that it carries are applied
// first.
func (s *Service) Authorize(ctx context.Context, req Request) (Grant, error) {
	grant, err := s.authorize(ctx, req)
	if err == nil && !grant.Allowed {
		s.recordRefusal(req, grant)
	}
	return grant, notFoundIfRemoved(err)
}

func (s *Service) authorize(ctx context.Context, req Request) (Grant, error) {
	if err := s.applyCarriedEnds(ctx, &req); err != nil {
		return Grant{}, err
	}
	reserve := s.reserve
	if req.NewProfile != nil {
		reserve = s.reserveWithProfile
	}
	for lost, looks := 0, 0; lost < maxAttempts && looks < maxLookups; looks++ {
		if !s.fullCache.recentlyFull(req.OrgID) {
			grant, err := reserve(ctx, req)
			if isLostRace(err) {
				lost++
				continue
			}
			if err != nil || grant.Allowed {
				return grant, err
			}
			if grant.Reason == ProfileLimit { // what lapsed holds profiles, too
				if freed, err := s.reclaimForLaunch(ctx, req.OrgID); err != nil || !freed {
					return grant, err
				}
				continue
			}
		}
		seen, err := s.lookup(ctx, req)
		if err != nil {
			return Grant{}, err
		}
		if seen.slot != nil {
			grant, err := s.repeatGrant(ctx, req, seen)
			if errors.Is(err, errNotTaken) {
				lost++
				continue
			}
			return grant, err
		}
		if !seen.full() {
			continue // somebody left since; as often as somebody else was quicker
		}
		freed, err := s.reclaimForLaunch(ctx, req.OrgID)
		if err != nil || !freed {
			return limitReached(seen.Usage), err
		}
		s.fullCache.set(req.OrgID, false)
	}
	return Grant{}, errContention()
}

// errContention is for a call that was always too late: for somebody else's change
// of its session, or for room that it saw.
func errContention() error {
	return fault.New(fault.Unavailable, "Too many requests for this session at once.")
}

func limitReached(u Usage) Grant {
	return Grant{Reason: ConcurrencyLimit, Current: u.Current, Limit: u.Limit}
}

// reserve takes the slot with whoever else asks. A Grant that is not allowed and
// has no reason says only that nothing was taken.
func (s *Service) reserve(ctx context.Context, req Request) (Grant, error) {
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	answer, err := s.grants.Do(ctx, req.OrgID, withKey[slotRequest]{w, req.uncheckedKey()})
	got, err := answer.unwrap(err)
	if err != nil {
		return Grant{}, err
	}
	if got.ok {
		s.reservations.add(w.sessionID, w.id)
	}
	return got.grant(w), nil
}

// reserveInTx is reserve in a transaction.
func (s *Service) reserveInTx(ctx context.Context, tx *sqlx.Tx, req Request) (Grant, error) {
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	got, err := s.takeOne(ctx, tx.StmtxContext(ctx, s.stmts.takeOne), req.OrgID, w)
	if err != nil {
		return Grant{}, err
	}
	return got.grant(w), nil
}

var errNotTaken = errors.New("license: no slot was taken")

// reserveWithProfile makes the profile and takes the slot in one transaction:
// without the slot there is no profile. It makes none when it can see
// beforehand that there is no slot to take.
func (s *Service) reserveWithProfile(ctx context.Context, req Request) (Grant, error) {
	seen, err := s.lookup(ctx, req)
	if err != nil || seen.slot != nil || seen.full() {
		return Grant{}, err
	}
	w, err := req.slotRequest()
	if err != nil {
		return Grant{}, err
	}
	var got takeResult
	err = s.db.tx(ctx, req.OrgID, func(tx *sqlx.Tx) error {
		profileID, err := req.NewProfile(ctx, tx)
		if err != nil {
			return err
		}
		w.profileID = &profileID
		got, err = s.takeOne(ctx, tx.StmtxContext(ctx, s.stmts.takeOne), req.OrgID, w)
		if err == nil && !got.ok {
			err = errNotTaken
		}
		return err
	})
	if full, ok := errors.AsType[ProfileLimitError](err); ok {
		// The one that took the last profile may be for this very session.
		seen, err := s.lookup(ctx, req)
		if err != nil || seen.slot != nil {
			return Grant{}, err
		}
		return Grant{Reason: ProfileLimit, Current: seen.Current, Limit: &full.Limit, ProfileCount: &full.Current}, nil
	}
	if errors.Is(err, errNotTaken) {
		return Grant{}, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.undoReservation(req.OrgID, w) // it may be there all the same
		return Grant{}, err
	}
	return got.grant(w), nil
}

// requeue answers a repeated request, and gives its reservation the full time
// from now. It returns errNotTaken for one that went this moment.
func (s *Service) repeatGrant(ctx context.Context, req Request, seen slotState) (Grant, error) {
	slot := seen.slot
	switch {
	case slot.State == released:
		return Grant{}, conflict("That session is over.")
	case !slot.belongsTo(req.MachineID, req.BootID):
		return Grant{}, conflict("That session belongs to another worker.")
	case req.ProfileID != nil && !slot.acceptsProfile(*req.ProfileID):
		return Grant{}, conflict("That session is of another profile.")
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
		Allowed: true, Current: seen.Current, Limit: seen.Limit, SlotID: slot.ID, ProfileID: slot.ProfileID,
	}, nil
}
