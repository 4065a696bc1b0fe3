package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

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

func (g granted) grant(w want) Grant {
	if !g.ok {
		return Grant{}
	}
	return Grant{Allowed: true, Current: g.Current, Limit: g.Limit, SlotID: w.id, ProfileID: w.profileID}
}
