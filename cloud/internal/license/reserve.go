package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// takeOneSQL takes a slot for one session that has none: it increments the counter
// below the limit, then inserts the row. It leaves a free slot for each launch in the
// queue. At the limit it locks nothing.
const takeOneSQL = `
WITH counted AS (
	UPDATE license_org SET in_use = in_use + 1
	WHERE organization_id = $1 AND (max_slots IS NULL OR in_use + queued < max_slots)` + insertCounted

// takeRunningSQL is takeOneSQL for a browser that runs already: it ignores the queue.
const takeRunningSQL = `
WITH counted AS (
	UPDATE license_org SET in_use = in_use + 1
	WHERE organization_id = $1 AND (max_slots IS NULL OR in_use < max_slots)` + insertCounted

const insertCounted = `
		AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = $3)
	RETURNING in_use, max_slots, clock_timestamp() AS now
), taken AS (
	INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT $2, $1, $3, $4, $5, $6, $7, 'reserved', now, now + make_interval(secs => $8)
	FROM counted
)
SELECT in_use, max_slots FROM counted`

// takeSQL takes slots for sessions of one organization, in their order and up to the
// limit. A session that has a slot gets none. It locks the counter, reads its latest
// value, inserts the rows and counts them. At the limit it locks nothing. It searches
// for existing slots explicitly, because a conflict would wait for a transaction that
// changes one.
const takeSQL = `
WITH capacity AS (
	SELECT max_slots - in_use - queued AS free FROM license_org
	WHERE organization_id = $1 AND (max_slots IS NULL OR in_use + queued < max_slots)
	FOR NO KEY UPDATE
), taken AS (
	INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT w.id, $1, w.session_id, w.profile_id, w.key_id, w.machine_id, w.boot_id, 'reserved',
		now, now + make_interval(secs => $8)
	FROM capacity, clock_timestamp() AS now, unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[]) WITH ORDINALITY
		AS w (id, session_id, profile_id, key_id, machine_id, boot_id, place)
	WHERE (capacity.free IS NULL OR w.place <= capacity.free)
		AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = w.session_id OFFSET 0)
	ON CONFLICT (organization_id, session_id) DO NOTHING
	RETURNING id
), counted AS (
	UPDATE license_org SET in_use = in_use + (SELECT count(*) FROM taken)
	WHERE organization_id = $1 AND EXISTS (SELECT FROM taken)
	RETURNING in_use, max_slots
)
SELECT in_use, max_slots, n AS taken, CASE WHEN n < cardinality($2::uuid[]) THEN ARRAY (SELECT id FROM taken) END AS ids
FROM counted, (SELECT count(*) AS n FROM taken) t`

// slotRequest describes one slot to take.
type slotRequest struct {
	id        uuid.UUID
	sessionID uuid.UUID
	profileID *uuid.UUID
	keyID     uuid.UUID
	machineID string
	bootID    uuid.UUID
	callID    uuid.UUID // of a launch in the queue
}

// keyOrNil returns nil if no key was used.
func (w slotRequest) keyOrNil() *uuid.UUID {
	if w.keyID == uuid.Nil {
		return nil
	}
	return &w.keyID
}

// takeResult reports whether a slot was taken, the usage including it, and the
// profile's launch configuration.
type takeResult struct {
	ok bool
	Usage
	config any
}

// takeOne takes one slot, on the pool or in a transaction.
func (s *Service) takeOne(ctx context.Context, stmt *sqlx.Stmt, orgID uuid.UUID, w slotRequest) (takeResult, error) {
	g := takeResult{ok: true}
	err := stmt.QueryRowContext(ctx, orgID, w.id, w.sessionID, w.profileID,
		w.keyOrNil(), w.machineID, w.bootID, ReservationTTL.Seconds()).Scan(&g.Current, &g.Limit)
	if errors.Is(err, sql.ErrNoRows) {
		return takeResult{}, nil
	}
	if err != nil {
		return takeResult{}, fmt.Errorf("take a slot: %w", err)
	}
	return g, nil
}

// takeBatch takes slots of one organization for a batch.
func (s *Service) takeBatch(ctx context.Context, orgID uuid.UUID, wants []slotRequest) ([]takeResult, error) {
	if len(wants) == 1 {
		g, err := s.takeOne(ctx, s.batch.takeOne, orgID, wants[0])
		return []takeResult{g}, err
	}
	return takeMany(ctx, s.batch.take, orgID, wants)
}

// takeMany runs takeSQL or takeTurnsSQL.
func takeMany(ctx context.Context, stmt *sqlx.Stmt, orgID uuid.UUID, wants []slotRequest, more ...any) ([]takeResult, error) {
	var result struct {
		Usage
		Taken int      `db:"taken"`
		IDs   uuidList `db:"ids"`
	}
	err := stmt.GetContext(ctx, &result, append([]any{orgID,
		binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendUUID(raw, w.id) }),
		binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendUUID(raw, w.sessionID) }),
		binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendOptionalUUID(raw, w.profileID) }),
		binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendOptionalUUID(raw, w.keyOrNil()) }),
		binaryArray(textElement, wants, func(raw []byte, w slotRequest) []byte { return appendText(raw, w.machineID) }),
		binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendUUID(raw, w.bootID) }),
		ReservationTTL.Seconds()}, more...)...)
	grants := make([]takeResult, len(wants))
	if errors.Is(err, sql.ErrNoRows) {
		return grants, nil
	}
	if err != nil {
		return nil, fmt.Errorf("take a slot: %w", err)
	}
	has := make(map[uuid.UUID]bool, len(result.IDs))
	for _, id := range result.IDs {
		has[id] = true
	}
	usage := result.Usage
	usage.Current -= result.Taken
	for i, w := range wants { // count as if they were taken one by one
		if result.Taken == len(wants) || has[w.id] {
			usage.Current++
			grants[i] = takeResult{ok: true, Usage: usage}
		}
	}
	return grants, nil
}

// UndoGrant releases what Authorize granted if the answer can't be delivered: the
// reservation, and the profile that was created for it. A reservation that was
// requested again is kept. It does not wait.
func (s *Service) UndoGrant(orgID, sessionID, slotID uuid.UUID) {
	s.reservations.forget(sessionID)
	s.undoReservation(orgID, slotRequest{id: slotID, sessionID: sessionID})
}

// undoReservation releases the slot of a caller that does not receive the answer.
func (s *Service) undoReservation(orgID uuid.UUID, w slotRequest) {
	s.releases.Post(orgID, release{report: EndReport{SessionID: w.sessionID}, slotID: w.id, isUndo: true})
}

func (req *Request) slotRequest() (slotRequest, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return slotRequest{}, fmt.Errorf("generate a slot id: %w", err)
	}
	return slotRequest{
		id: id, sessionID: req.SessionID, profileID: req.ProfileID, keyID: req.KeyID, machineID: req.MachineID, bootID: req.BootID,
	}, nil
}

func (g takeResult) grant(w slotRequest) Grant {
	if !g.ok {
		return Grant{}
	}
	return Grant{Allowed: true, Current: g.Current, Limit: g.Limit, SlotID: w.id, ProfileID: w.profileID, Config: g.config}
}
