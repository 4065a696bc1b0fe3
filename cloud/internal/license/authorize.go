package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

// Reason is why a launch is refused (specification 2.6).
type Reason string

// The reasons.
const (
	ConcurrencyLimit Reason = "concurrency_limit" // all slots are taken
	ProfileLimit     Reason = "profile_limit"     // no room for the profile that a spec needs
)

// Request asks for a slot. The worker chooses the session's id, so asking again
// is about the same slot.
type Request struct {
	OrgID     uuid.UUID
	KeyID     uuid.UUID
	MachineID string
	BootID    uuid.UUID
	SessionID uuid.UUID
	ProfileID *uuid.UUID
	// NewProfile, when set, makes the profile of this one launch, in the
	// transaction that takes the slot and only when the slot is new. It returns
	// a ProfileLimitError when there is no room for one.
	NewProfile func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error)
}

// ProfileLimitError says that the organization has all the profiles that its
// plan allows.
type ProfileLimitError struct{ Current, Limit int }

// Error implements error.
func (e ProfileLimitError) Error() string {
	return fmt.Sprintf("%d of %d profiles are taken", e.Current, e.Limit)
}

// Grant is the verdict on a launch. Reason is set on a refusal, SlotID and
// ProfileID otherwise; Current and Limit count slots, or profiles when these
// are the Reason.
type Grant struct {
	Allowed   bool
	Reason    Reason
	Current   int
	Limit     *int
	SlotID    uuid.UUID
	ProfileID *uuid.UUID
}

// takeSQL grants slots of one organization to the sessions wanted, in their
// order and as far as there is room; a session that has a slot is left out. It
// locks the counter, reads its newest value, inserts that many rows and counts
// what it inserted. A full organization is not locked.
const takeSQL = `
WITH wanted AS (
	SELECT w.*, row_number() OVER (ORDER BY w.place) AS rank
	FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[]) WITH ORDINALITY
		AS w (id, session_id, profile_id, key_id, machine_id, boot_id, place)
	WHERE NOT EXISTS (SELECT FROM license_slots s WHERE s.org_id = $1 AND s.session_id = w.session_id)
), room AS (
	SELECT max_slots - in_use AS free FROM license_org
	WHERE org_id = $1 AND (max_slots IS NULL OR in_use < max_slots) AND EXISTS (SELECT FROM wanted)
	FOR UPDATE
), taken AS (
	INSERT INTO license_slots (id, org_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT w.id, $1, w.session_id, w.profile_id, w.key_id, w.machine_id, w.boot_id, 'reserved',
		clock_timestamp(), clock_timestamp() + make_interval(secs => $8)
	FROM wanted w, room WHERE room.free IS NULL OR w.rank <= room.free
	RETURNING id
), counted AS (
	UPDATE license_org SET in_use = in_use + (SELECT count(*) FROM taken)
	WHERE org_id = $1 AND EXISTS (SELECT FROM taken)
	RETURNING in_use, max_slots
)
SELECT taken.id, counted.in_use, counted.max_slots FROM taken, counted`

// lookSQL reads, without a lock, the counter and the session's slot.
const lookSQL = `
SELECT o.in_use, o.max_slots, s.id IS NOT NULL AS known,
	s.id, s.profile_id, s.machine_id, s.boot_id, s.state
FROM license_org o LEFT JOIN license_slots s ON s.org_id = o.org_id AND s.session_id = $2
WHERE o.org_id = $1`

const renewSQL = `
UPDATE license_slots
SET lease_until = CASE state WHEN 'reserved' THEN GREATEST(lease_until, clock_timestamp() + make_interval(secs => $2)) ELSE lease_until END
WHERE id = $1 AND released_at IS NULL
RETURNING id`

// Authorize reserves a slot for a launch, or refuses it (specification 4.2).
// Asked again for a session that has its slot, it gives the same answer. It
// returns a Conflict when that session is over or belongs to another boot,
// machine or profile; any error means: don't launch.
func (s *Service) Authorize(ctx context.Context, req Request) (Grant, error) {
	reserve := s.reserve
	if req.NewProfile != nil {
		reserve = s.reserveWithProfile
	}
	var last Usage
	for range attempts {
		grant, err := reserve(ctx, req)
		if lostRace(err) {
			continue
		}
		if err != nil || grant.Allowed || grant.Reason == ProfileLimit {
			return grant, err
		}
		seen, err := s.look(ctx, req.OrgID, req.SessionID)
		if err != nil {
			return Grant{}, err
		}
		if seen.slot != nil {
			return s.again(ctx, req, seen)
		}
		if last = seen.Usage; !last.full() {
			continue // somebody left since
		}
		if freed, err := s.makeRoom(ctx, req.OrgID); err != nil || !freed {
			return refusal(last), err
		}
	}
	return refusal(last), nil
}

func refusal(u Usage) Grant {
	return Grant{Reason: ConcurrencyLimit, Current: u.Current, Limit: u.Limit}
}

// want is one slot to take.
type want struct {
	id        uuid.UUID
	sessionID uuid.UUID
	profileID *uuid.UUID
	keyID     uuid.UUID
	machineID string
	bootID    uuid.UUID
}

// taken is a slot that was granted, and the usage after its statement.
type taken struct {
	ID uuid.UUID `db:"id"`
	Usage
}

// take runs takeSQL, on the pool or in a transaction, for slots of one
// organization. It returns those granted.
func (s *Service) take(ctx context.Context, stmt *sqlx.Stmt, orgID uuid.UUID, wants ...want) ([]taken, error) {
	n := len(wants)
	ids, sessions, boots := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	profiles, keys := make([]uuid.NullUUID, n), make([]uuid.NullUUID, n)
	machines := make([]string, n)
	for i, w := range wants {
		ids[i], sessions[i], machines[i], boots[i] = w.id, w.sessionID, w.machineID, w.bootID
		if w.profileID != nil {
			profiles[i] = uuid.NullUUID{UUID: *w.profileID, Valid: true}
		}
		keys[i] = uuid.NullUUID{UUID: w.keyID, Valid: w.keyID != uuid.Nil}
	}
	var granted []taken
	err := stmt.SelectContext(ctx, &granted, orgID, pq.Array(ids), pq.Array(sessions), pq.Array(profiles),
		pq.Array(keys), pq.Array(machines), pq.Array(boots), ReservationTTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("take a slot: %w", err)
	}
	return granted, nil
}

// reserve takes the slot in one statement. A Grant that is not allowed and has
// no reason says only that nothing was taken.
func (s *Service) reserve(ctx context.Context, req Request) (Grant, error) {
	return s.reserveWith(ctx, s.stmts.take, req)
}

func (s *Service) reserveWith(ctx context.Context, stmt *sqlx.Stmt, req Request) (Grant, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Grant{}, fmt.Errorf("make a slot id: %w", err)
	}
	granted, err := s.take(ctx, stmt, req.OrgID, want{id, req.SessionID, req.ProfileID, req.KeyID, req.MachineID, req.BootID})
	if err != nil || len(granted) == 0 {
		return Grant{}, err
	}
	return Grant{
		Allowed: true, Current: granted[0].Current, Limit: granted[0].Limit, SlotID: id, ProfileID: req.ProfileID,
	}, nil
}

var errNotTaken = errors.New("license: no slot was taken")

// reserveWithProfile makes the profile and takes the slot in one transaction:
// without the slot there is no profile. It makes none when it can see
// beforehand that there is no slot to take.
func (s *Service) reserveWithProfile(ctx context.Context, req Request) (Grant, error) {
	seen, err := s.look(ctx, req.OrgID, req.SessionID)
	if err != nil || seen.slot != nil || seen.full() {
		return Grant{}, err
	}
	var grant Grant
	err = pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		profileID, err := req.NewProfile(ctx, tx)
		if err != nil {
			return err
		}
		with := req
		with.ProfileID = &profileID
		grant, err = s.reserveWith(ctx, tx.StmtxContext(ctx, s.stmts.take), with)
		if err == nil && !grant.Allowed {
			err = errNotTaken
		}
		return err
	})
	if full, ok := errors.AsType[ProfileLimitError](err); ok {
		return Grant{Reason: ProfileLimit, Current: full.Current, Limit: &full.Limit}, nil
	}
	if errors.Is(err, errNotTaken) {
		return Grant{}, nil
	}
	if err != nil {
		return Grant{}, err
	}
	return grant, nil
}

// sight is what look sees.
type sight struct {
	Usage
	slot *slot // id, profile, machine, boot and state only; nil when there is none
}

func (s *Service) look(ctx context.Context, orgID, sessionID uuid.UUID) (sight, error) {
	var row struct {
		Usage
		Known     bool       `db:"known"`
		ID        *uuid.UUID `db:"id"`
		ProfileID *uuid.UUID `db:"profile_id"`
		MachineID *string    `db:"machine_id"`
		BootID    *uuid.UUID `db:"boot_id"`
		State     *string    `db:"state"`
	}
	if err := s.stmts.look.GetContext(ctx, &row, orgID, sessionID); err != nil {
		return sight{}, fmt.Errorf("read the license counter: %w", err)
	}
	if !row.Known {
		return sight{Usage: row.Usage}, nil
	}
	return sight{Usage: row.Usage, slot: &slot{
		ID: *row.ID, ProfileID: row.ProfileID, MachineID: row.MachineID, BootID: row.BootID, State: *row.State,
	}}, nil
}

// again answers a repeated request, and gives its reservation the full time
// from now.
func (s *Service) again(ctx context.Context, req Request, seen sight) (Grant, error) {
	slot := seen.slot
	switch {
	case slot.State == released:
		return Grant{}, conflict("That session is over.")
	case !slot.of(req.MachineID, req.BootID):
		return Grant{}, conflict("That session belongs to another worker.")
	case req.ProfileID != nil && !slot.isFor(*req.ProfileID):
		return Grant{}, conflict("That session is of another profile.")
	case slot.State == reserved:
		var id uuid.UUID
		err := s.stmts.renew.GetContext(ctx, &id, slot.ID, ReservationTTL.Seconds())
		if errors.Is(err, sql.ErrNoRows) {
			return Grant{}, conflict("That session is over.") // it lapsed this moment
		}
		if err != nil {
			return Grant{}, fmt.Errorf("renew the reservation: %w", err)
		}
	}
	return Grant{
		Allowed: true, Current: seen.Current, Limit: seen.Limit, SlotID: slot.ID, ProfileID: slot.ProfileID,
	}, nil
}
