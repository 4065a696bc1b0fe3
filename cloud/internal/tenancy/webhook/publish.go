package webhook

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// publishBatch is the maximum number of events that one statement publishes.
const publishBatch = 1000

// publishSQL gives committed events their positions, in the order of their inserts, and
// creates the deliveries. An event that a change caused is inserted after that change has
// been committed, so it follows the event of the change. The lock of an endpoint waits for
// its deletion, which would otherwise make the foreign key fail.
const publishSQL = `
WITH batch AS MATERIALIZED (
	SELECT id, organization_id FROM events WHERE position IS NULL ORDER BY seq LIMIT $1
), endpoints AS MATERIALIZED (
	SELECT id, organization_id, types FROM webhook_endpoints
	WHERE enabled AND organization_id IN (SELECT organization_id FROM batch) FOR KEY SHARE
), numbered AS MATERIALIZED (
	SELECT id, nextval('event_positions') AS position FROM batch
), published AS (
	UPDATE events e SET position = n.position FROM numbered n WHERE e.id = n.id RETURNING e.*
), queued AS (
	INSERT INTO webhook_deliveries (id, organization_id, endpoint_id, event_id, position, type, subject, due_at, created_at)
	SELECT license_event_id(clock_timestamp()), p.organization_id, w.id, p.id, p.position, p.type, p.subject, clock_timestamp(), clock_timestamp()
	FROM published p JOIN endpoints w ON w.organization_id = p.organization_id AND (w.types IS NULL OR p.type = ANY (w.types))
)
SELECT count(*) FROM published`

// publish publishes a batch of events and returns their number. Only one replica
// publishes at a time, and the lock ends with the commit: so the positions become visible
// in their order, and a reader that has seen a position misses no event before it.
func (s *Service) publish(ctx context.Context) (n int, err error) {
	err = pg.InTx(ctx, s.System, func(tx *sqlx.Tx) error {
		n = 0
		var locked bool
		if err := tx.GetContext(ctx, &locked, `SELECT pg_try_advisory_xact_lock(hashtextextended('publish events', 0))`); err != nil || !locked {
			return err
		}
		return tx.GetContext(ctx, &n, publishSQL, publishBatch)
	})
	if err != nil {
		return 0, fmt.Errorf("publish events: %w", err)
	}
	return n, nil
}

// lostSQL records the machines that became silent in the last hour, and those that report
// again. $1 is how long a lost machine is silent.
const lostSQL = `
WITH wanted AS (
	SELECT organization_id FROM webhook_endpoints WHERE enabled UNION SELECT organization_id FROM event_readers WHERE read_until > now()
), recovered AS (
	DELETE FROM event_lost_machines l USING license_machines m
	WHERE m.organization_id = l.organization_id AND m.machine_id = l.machine_id AND m.heartbeat_at > now() - make_interval(secs => $1)
	RETURNING l.organization_id, l.machine_id
), lost AS (
	INSERT INTO event_lost_machines (organization_id, machine_id)
	SELECT m.organization_id, m.machine_id FROM license_machines m JOIN wanted USING (organization_id)
	WHERE m.heartbeat_at <= now() - make_interval(secs => $1) AND m.heartbeat_at > now() - interval '1 hour'
	ON CONFLICT DO NOTHING
	RETURNING organization_id, machine_id
), changed AS (
	SELECT *, 'machine.lost' AS type FROM lost UNION ALL SELECT *, 'machine.recovered' FROM recovered JOIN wanted USING (organization_id)
)
INSERT INTO events (id, organization_id, type, subject, data, created_at)
SELECT license_event_id(clock_timestamp()), c.organization_id, c.type, 'machine:' || c.machine_id, jsonb_build_object('machineId', c.machine_id,
	'name', m.name, 'hostName', i.host_name, 'draining', coalesce(i.draining, false), 'lastHeartbeatAt', event_time(m.heartbeat_at)), clock_timestamp()
FROM changed c JOIN license_machines m USING (organization_id, machine_id)
LEFT JOIN license_machine_info i USING (organization_id, machine_id)`

// findLostMachines records machine.lost and machine.recovered.
func (s *Service) findLostMachines(ctx context.Context) error {
	if _, err := s.System.ExecContext(ctx, lostSQL, s.OfflineAfter.Seconds()); err != nil {
		return fmt.Errorf("find lost machines: %w", err)
	}
	return nil
}

// newEventsSQL finds the events that were published after a position. Tests take their
// positions without the lock of the publisher, and streams do not contain them.
const newEventsSQL = `SELECT organization_id, max(position) AS position FROM events WHERE position > $1 AND NOT is_test GROUP BY 1`

// lastEventSQL finds the last published event.
const lastEventSQL = `SELECT organization_id, position FROM events WHERE position > $1 AND NOT is_test ORDER BY position DESC LIMIT 1`

// notifyStreams wakes the streams of this replica for which there are events. When it
// finds the first ones open, it wakes all, and does not read what was published before.
func (s *Service) notifyStreams(ctx context.Context) error {
	s.streams.mu.Lock()
	if len(s.streams.open) == 0 {
		s.streams.position = 0
		s.streams.mu.Unlock()
		return nil
	}
	last, query := s.streams.position, newEventsSQL
	if last == 0 {
		query = lastEventSQL
	}
	s.streams.mu.Unlock()
	var found []struct {
		OrgID    uuid.UUID `db:"organization_id"`
		Position int64     `db:"position"`
	}
	if err := s.System.SelectContext(ctx, &found, query, last); err != nil {
		return fmt.Errorf("find events for the streams: %w", err)
	}
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	woken := map[uuid.UUID]bool{}
	for _, each := range found {
		s.streams.position, woken[each.OrgID] = max(s.streams.position, each.Position), true
	}
	for orgID, streams := range s.streams.open {
		for stream := range streams {
			if last == 0 || woken[orgID] {
				stream.wake()
			}
		}
	}
	return nil
}

// lastPosition returns the position of the last event that is visible; 0 for none.
func lastPosition(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (last int64, err error) {
	if err := tx.GetContext(ctx, &last, lastPositionSQL, orgID); err != nil {
		return 0, fmt.Errorf("read the position of the last event: %w", err)
	}
	return last, nil
}

const lastPositionSQL = `SELECT COALESCE(max(position), 0) FROM events WHERE organization_id = $1 AND NOT is_test`
