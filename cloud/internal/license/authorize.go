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

// takeOneSQL takes a slot for one session that has none: the counter first, if
// there is room, and then the row. A full organization is not locked.
const takeOneSQL = `
WITH counted AS (
	UPDATE license_org SET in_use = in_use + 1
	WHERE org_id = $1 AND (max_slots IS NULL OR in_use < max_slots)
		AND NOT EXISTS (SELECT FROM license_slots s WHERE s.org_id = $1 AND s.session_id = $3)
	RETURNING in_use, max_slots
), taken AS (
	INSERT INTO license_slots (id, org_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT $2, $1, $3, $4, $5, $6, $7, 'reserved', now, now + make_interval(secs => $8)
	FROM counted, clock_timestamp() AS now
)
SELECT in_use, max_slots FROM counted`

// takeSQL grants slots of one organization to the sessions wanted, in their
// order and as far as there is room; a session that has a slot is left out. It
// locks the counter, reads its newest value, inserts that many rows and counts
// what it inserted. A full organization is not locked.
const takeSQL = `
WITH wanted AS (
	SELECT w.*, row_number() OVER (ORDER BY w.place) AS rank
	FROM unnest((SELECT $2::uuid[]), $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[]) WITH ORDINALITY
		AS w (id, session_id, profile_id, key_id, machine_id, boot_id, place)
	WHERE NOT EXISTS (SELECT FROM license_slots s WHERE s.org_id = $1 AND s.session_id = w.session_id OFFSET 0)
), room AS (
	SELECT max_slots - in_use AS free FROM license_org
	WHERE org_id = $1 AND (max_slots IS NULL OR in_use < max_slots) AND EXISTS (SELECT FROM wanted)
	FOR UPDATE
), taken AS (
	INSERT INTO license_slots (id, org_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT w.id, $1, w.session_id, w.profile_id, w.key_id, w.machine_id, w.boot_id, 'reserved',
		now, now + make_interval(secs => $8)
	FROM wanted w, room, clock_timestamp() AS now WHERE room.free IS NULL OR w.rank <= room.free
	ORDER BY w.rank
	ON CONFLICT (org_id, session_id) DO NOTHING
	RETURNING id
), counted AS (
	UPDATE license_org SET in_use = in_use + (SELECT count(*) FROM taken)
	WHERE org_id = $1 AND EXISTS (SELECT FROM taken)
	RETURNING in_use, max_slots
)
SELECT taken.id, counted.in_use, counted.max_slots FROM taken, counted`

// lookSQL reads, without a lock, the counter and the slots of sessions: a row
// for each, and one without a slot when there are none.
const lookSQL = `
SELECT o.in_use, o.max_slots, s.id, s.session_id, s.profile_id, s.machine_id, s.boot_id, s.state
FROM license_org o LEFT JOIN (
	unnest($2::uuid[]) AS w (session_id)
	CROSS JOIN LATERAL (SELECT * FROM license_slots s WHERE s.org_id = $1 AND s.session_id = w.session_id LIMIT 1) s) ON true
WHERE o.org_id = $1`

// renewSQL makes the lease of a reservation longer, so that it is told from one
// that nobody heard of.
const renewSQL = `
UPDATE license_slots
SET lease_until = CASE state WHEN 'reserved' THEN GREATEST(lease_until + interval '1 microsecond', clock_timestamp() + make_interval(secs => $2)) ELSE lease_until END
WHERE id = $1 AND released_at IS NULL
RETURNING id`

// Authorize reserves a slot for a launch, or refuses it (specification 4.2).
// Asked again for a session that has its slot, it gives the same answer. It
// returns a Conflict when that session is over or belongs to another boot,
// machine or profile; any error means: don't launch. A slot that was taken for
// a caller who can't be told is given back.
func (s *Service) Authorize(ctx context.Context, req Request) (Grant, error) {
	grant, err := s.authorize(ctx, req)
	if err == nil && !grant.Allowed {
		s.refused(req, grant)
	}
	return grant, err
}

func (s *Service) authorize(ctx context.Context, req Request) (Grant, error) {
	reserve := s.reserve
	if req.NewProfile != nil {
		reserve = s.reserveWithProfile
	}
	var last Usage
	for range attempts {
		if !s.full.lately(req.OrgID) {
			grant, err := reserve(ctx, req)
			if lostRace(err) {
				continue
			}
			if err != nil || grant.Allowed || grant.Reason == ProfileLimit {
				return grant, err
			}
		}
		seen, err := s.look(ctx, req.OrgID, req.SessionID)
		if err != nil {
			return Grant{}, err
		}
		if seen.slot != nil {
			grant, err := s.again(ctx, req, seen)
			if errors.Is(err, errNotTaken) {
				continue
			}
			return grant, err
		}
		last = seen.Usage
		s.full.is(req.OrgID, last.full())
		if !last.full() {
			continue // somebody left since
		}
		freed, err := s.makeRoom(ctx, req.OrgID)
		if err != nil || !freed {
			return refuse(last), err
		}
		s.full.is(req.OrgID, false)
	}
	return refuse(last), nil
}

func refuse(u Usage) Grant {
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

// granted is whether a slot was taken, and the usage with it.
type granted struct {
	ok bool
	Usage
}

// takeOne takes one slot, on the pool or in a transaction.
func (s *Service) takeOne(ctx context.Context, stmt *sqlx.Stmt, orgID uuid.UUID, w want) (granted, error) {
	g := granted{ok: true}
	err := stmt.GetContext(ctx, &g.Usage, orgID, w.id, w.sessionID, w.profileID,
		uuid.NullUUID{UUID: w.keyID, Valid: w.keyID != uuid.Nil}, w.machineID, w.bootID, ReservationTTL.Seconds())
	if errors.Is(err, sql.ErrNoRows) {
		return granted{}, nil
	}
	if err != nil {
		return granted{}, fmt.Errorf("take a slot: %w", err)
	}
	return g, nil
}

// takeAll takes slots of one organization for a batch, and says of each whether
// it was granted.
func (s *Service) takeAll(ctx context.Context, orgID uuid.UUID, wants []want) ([]granted, error) {
	if len(wants) == 1 {
		g, err := s.takeOne(ctx, s.stmts.takeOne, orgID, wants[0])
		return []granted{g}, err
	}
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
	var taken []struct {
		ID uuid.UUID `db:"id"`
		Usage
	}
	err := s.stmts.take.SelectContext(ctx, &taken, orgID, pq.Array(ids), pq.Array(sessions), pq.Array(profiles),
		pq.Array(keys), pq.Array(machines), pq.Array(boots), ReservationTTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("take a slot: %w", err)
	}
	grants := make([]granted, n)
	if len(taken) == 0 {
		return grants, nil
	}
	has := make(map[uuid.UUID]bool, len(taken))
	for _, row := range taken {
		has[row.ID] = true
	}
	usage := taken[0].Usage
	usage.Current -= len(taken)
	for i := range wants { // as if they had come one by one
		if has[ids[i]] {
			usage.Current++
			grants[i] = granted{true, usage}
		}
	}
	return grants, nil
}

// forget gives back the slot of a caller who won't hear of it.
func (s *Service) forget(orgID uuid.UUID, w want) {
	s.releases.post(orgID, release{undo: &undo{w.sessionID, w.id}})
}

func (req *Request) want() (want, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return want{}, fmt.Errorf("make a slot id: %w", err)
	}
	return want{id, req.SessionID, req.ProfileID, req.KeyID, req.MachineID, req.BootID}, nil
}

// reserve takes the slot with whoever else asks. A Grant that is not allowed and
// has no reason says only that nothing was taken.
func (s *Service) reserve(ctx context.Context, req Request) (Grant, error) {
	w, err := req.want()
	if err != nil {
		return Grant{}, err
	}
	got, err := s.grants.do(ctx, req.OrgID, w)
	if err != nil {
		return Grant{}, err
	}
	return got.grant(w), nil
}

// reserveWith is reserve in a transaction.
func (s *Service) reserveWith(ctx context.Context, tx *sqlx.Tx, req Request) (Grant, error) {
	w, err := req.want()
	if err != nil {
		return Grant{}, err
	}
	got, err := s.takeOne(ctx, tx.StmtxContext(ctx, s.stmts.takeOne), req.OrgID, w)
	if err != nil {
		return Grant{}, err
	}
	return got.grant(w), nil
}

func (g granted) grant(w want) Grant {
	if !g.ok {
		return Grant{}
	}
	return Grant{Allowed: true, Current: g.Current, Limit: g.Limit, SlotID: w.id, ProfileID: w.profileID}
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
	w, err := req.want()
	if err != nil {
		return Grant{}, err
	}
	var got granted
	err = pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
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
		return Grant{Reason: ProfileLimit, Current: full.Current, Limit: &full.Limit}, nil
	}
	if errors.Is(err, errNotTaken) {
		return Grant{}, nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.forget(req.OrgID, w) // it may be there all the same
		return Grant{}, err
	}
	return got.grant(w), nil
}

// sight is what look sees.
type sight struct {
	Usage
	slot *slot // id, profile, machine, boot and state only; nil when there is none
}

func (s *Service) look(ctx context.Context, orgID, sessionID uuid.UUID) (sight, error) {
	return s.looks.do(ctx, orgID, sessionID)
}

// lookAll looks for a batch of sessions of one organization.
func (s *Service) lookAll(ctx context.Context, orgID uuid.UUID, sessionIDs []uuid.UUID) ([]sight, error) {
	var found []struct {
		Usage
		ID        *uuid.UUID `db:"id"`
		SessionID *uuid.UUID `db:"session_id"`
		ProfileID *uuid.UUID `db:"profile_id"`
		MachineID *string    `db:"machine_id"`
		BootID    *uuid.UUID `db:"boot_id"`
		State     *string    `db:"state"`
	}
	if err := s.stmts.look.SelectContext(ctx, &found, orgID, pq.Array(sessionIDs)); err != nil {
		return nil, fmt.Errorf("read the license counter: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("read the license counter: %w", sql.ErrNoRows)
	}
	slots := map[uuid.UUID]*slot{}
	for _, row := range found {
		if row.ID != nil {
			slots[*row.SessionID] = &slot{
				ID: *row.ID, ProfileID: row.ProfileID, MachineID: row.MachineID, BootID: row.BootID, State: *row.State,
			}
		}
	}
	sights := make([]sight, len(sessionIDs))
	for i, id := range sessionIDs {
		sights[i] = sight{found[0].Usage, slots[id]}
	}
	return sights, nil
}

// again answers a repeated request, and gives its reservation the full time
// from now. It returns errNotTaken for one that went this moment.
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
