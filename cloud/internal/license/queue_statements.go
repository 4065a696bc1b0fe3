package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// entry identifies a request in the queue.
type entry struct{ sessionID, callID uuid.UUID }

// waits selects the rows of license_queue (q) that count: their lease is not over, and
// their session has neither a slot nor an end.
const waits = `q.lease_until > clock_timestamp()
	AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = q.organization_id AND s.session_id = q.session_id)`

// turnsOf are the requests of organizations whose turn it is: as many as slots are free.
const turnsOf = `
	SELECT q.session_id, q.call_id FROM license_org o CROSS JOIN LATERAL (
		SELECT q.session_id, q.call_id FROM license_queue q
		WHERE q.organization_id = o.organization_id AND ` + waits + `
		ORDER BY q.place
		LIMIT CASE WHEN o.max_slots IS NOT NULL THEN GREATEST(o.max_slots - o.in_use, 0) END
	) q WHERE (o.max_slots IS NULL OR o.in_use < o.max_slots)`

const findTurnsSQL = `SELECT call_id FROM (` + turnsOf + ` AND o.organization_id = ANY ($1::uuid[])) t`

const lockFreeSQL = `
SELECT organization_id FROM license_org WHERE organization_id = $1 AND (max_slots IS NULL OR in_use < max_slots) FOR NO KEY UPDATE`

// takeTurnsSQL takes slots for the requests whose turn it is, and deletes their places.
// The counter is locked by an earlier statement, so that this one sees every change of
// the queue.
const takeTurnsSQL = `
WITH turn AS (
	SELECT w.* FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $9::uuid[])
		AS w (id, session_id, profile_id, key_id, machine_id, boot_id, call_id)
	JOIN (` + turnsOf + ` AND o.organization_id = $1) t USING (session_id, call_id)
), taken AS (
	INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT id, $1, session_id, profile_id, key_id, machine_id, boot_id, 'reserved', now, now + make_interval(secs => $8)
	FROM turn, clock_timestamp() AS now
	ON CONFLICT (organization_id, session_id) DO NOTHING
	RETURNING id
), served AS (
	DELETE FROM license_queue q USING turn WHERE q.organization_id = $1 AND q.session_id = turn.session_id
	RETURNING q.session_id
), counted AS (
	UPDATE license_org SET in_use = in_use + (SELECT count(*) FROM taken), queued = queued - (SELECT count(*) FROM served)
	WHERE organization_id = $1 AND EXISTS (SELECT FROM turn)
	RETURNING in_use, max_slots
)
SELECT in_use, max_slots, n AS taken, CASE WHEN n < cardinality($2::uuid[]) THEN ARRAY (SELECT id FROM taken) END AS ids
FROM counted, (SELECT count(*) AS n FROM taken) t`

// joinSQL adds requests to the queue, in their order. A session that waits keeps its
// place, and the request takes over its row. Places are drawn after the counter is
// locked, so their order is that of the commits.
const joinSQL = `
WITH org AS (
	SELECT organization_id FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE
), joined AS (
	INSERT INTO license_queue AS q (organization_id, session_id, call_id, lease_until)
	SELECT org.organization_id, c.session_id, c.call_id, clock_timestamp() + make_interval(secs => $4)
	FROM org, unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS c (session_id, call_id, n)
	ORDER BY c.n
	ON CONFLICT (organization_id, session_id) DO UPDATE SET call_id = excluded.call_id, lease_until = excluded.lease_until,
		place = CASE WHEN q.lease_until > clock_timestamp() THEN q.place ELSE excluded.place END
	RETURNING xmax = 0 AS inserted
)
UPDATE license_org SET queued = queued + (SELECT count(*) FROM joined WHERE inserted)
WHERE organization_id = $1
RETURNING queued`

// leaveSQL deletes requests from the queue, unless a later request took over the row.
const leaveSQL = `
WITH org AS (
	SELECT organization_id FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE
), gone AS (
	DELETE FROM license_queue q USING org, unnest($2::uuid[], $3::uuid[]) AS c (session_id, call_id)
	WHERE q.organization_id = org.organization_id AND q.session_id = c.session_id AND q.call_id = c.call_id
	RETURNING q.session_id
)
UPDATE license_org SET queued = queued - (SELECT count(*) FROM gone)
WHERE organization_id = $1 AND EXISTS (SELECT FROM gone)`

const hasStaleSQL = `SELECT EXISTS (SELECT FROM license_queue q WHERE q.organization_id = $1 AND NOT (` + waits + `))`

const dropStaleSQL = `
WITH org AS (
	SELECT organization_id FROM license_org WHERE organization_id = $1 FOR NO KEY UPDATE
), gone AS (
	DELETE FROM license_queue q USING org WHERE q.organization_id = org.organization_id AND NOT (` + waits + `)
	RETURNING q.session_id
)
UPDATE license_org SET queued = queued - (SELECT count(*) FROM gone)
WHERE organization_id = $1 AND EXISTS (SELECT FROM gone)`

const staleOrgsSQL = `SELECT DISTINCT organization_id FROM license_queue q WHERE NOT (` + waits + `) LIMIT $1`

// queuePositionSQL counts the requests up to that of the session.
const queuePositionSQL = `
SELECT count(*) FROM license_queue q WHERE q.organization_id = $1 AND ` + waits + `
	AND q.place <= (SELECT place FROM license_queue WHERE organization_id = $1 AND session_id = $2)`

// renewQueueSQL extends the leases of requests, and returns those that have lost their
// place: holder is the request that took over the row, or null. It skips rows that
// another statement changes, so that it never waits.
const renewQueueSQL = `
WITH mine AS (
	SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS c (organization_id, session_id, call_id)
), free AS (
	SELECT q.organization_id, q.session_id FROM license_queue q JOIN mine USING (organization_id, session_id, call_id)
	WHERE q.lease_until > clock_timestamp()
	FOR NO KEY UPDATE OF q SKIP LOCKED
), renewed AS (
	UPDATE license_queue q SET lease_until = clock_timestamp() + make_interval(secs => $4)
	FROM free WHERE q.organization_id = free.organization_id AND q.session_id = free.session_id
)
SELECT mine.call_id, q.call_id AS holder FROM mine LEFT JOIN license_queue q USING (organization_id, session_id)
WHERE q.call_id IS DISTINCT FROM mine.call_id OR q.lease_until <= clock_timestamp()`

// queueStatements are the statements that both pools use.
type queueStatements struct{ lockFree, takeTurns *sqlx.Stmt }

func (s *queueStatements) all() []statement {
	return []statement{{&s.lockFree, lockFreeSQL}, {&s.takeTurns, takeTurnsSQL}}
}

// takeTurns takes slots for those requests whose turn it is.
func (s *Service) takeTurns(ctx context.Context, tx *sqlx.Tx, stmts queueStatements, orgID uuid.UUID, wants []slotRequest) ([]takeResult, error) {
	var locked uuid.UUID
	err := tx.StmtxContext(ctx, stmts.lockFree).GetContext(ctx, &locked, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return make([]takeResult, len(wants)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the license counter: %w", err)
	}
	calls := binaryArray(uuidElement, wants, func(raw []byte, w slotRequest) []byte { return appendUUID(raw, w.callID) })
	return takeMany(ctx, tx.StmtxContext(ctx, stmts.takeTurns), orgID, wants, calls)
}

// join adds the requests of a batch to the queue.
func (s *Service) join(ctx context.Context, orgID uuid.UUID, batch []entry) ([]struct{}, error) {
	var queued int
	sessions, calls := entryArrays(batch)
	if err := s.batch.join.GetContext(ctx, &queued, orgID, sessions, calls, queueTTL.Seconds()); err != nil {
		return nil, fmt.Errorf("join the queue: %w", err)
	}
	return make([]struct{}, len(batch)), nil
}

// leaveBatch deletes the requests of a batch from the queue.
func (s *Service) leaveBatch(ctx context.Context, orgID uuid.UUID, batch []entry) ([]struct{}, error) {
	sessions, calls := entryArrays(batch)
	if _, err := s.batch.leave.ExecContext(ctx, orgID, sessions, calls); err != nil {
		return nil, fmt.Errorf("leave the queue: %w", err)
	}
	return make([]struct{}, len(batch)), nil
}

// findTurns returns the requests whose turn it is.
func (s *Service) findTurns(ctx context.Context, orgs []uuid.UUID) (map[uuid.UUID]bool, error) {
	var calls []uuid.UUID
	if err := s.batch.findTurns.SelectContext(ctx, &calls, uuidArray(orgs)); err != nil {
		return nil, fmt.Errorf("find the launches whose turn it is: %w", err)
	}
	turns := make(map[uuid.UUID]bool, len(calls))
	for _, call := range calls {
		turns[call] = true
	}
	return turns, nil
}

func entryArrays(batch []entry) (sessions, calls []byte) {
	return binaryArray(uuidElement, batch, func(raw []byte, e entry) []byte { return appendUUID(raw, e.sessionID) }),
		binaryArray(uuidElement, batch, func(raw []byte, e entry) []byte { return appendUUID(raw, e.callID) })
}
