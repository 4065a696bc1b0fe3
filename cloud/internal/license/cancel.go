package license

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A failed launch ends its reservation soon after it was taken, usually at the replica
// that took it. That replica knows that the profile existed before, so the observer need
// not be called and one statement is enough.

// cancelOneSQL ends the reservation of one session.
const cancelOneSQL = `
WITH ended AS (` + endSQL + ` AND s.state = 'reserved' AND s.id = $7
	RETURNING s.ended_at
), counted AS (
	UPDATE license_org SET in_use = in_use - 1 WHERE organization_id = $1 AND EXISTS (SELECT FROM ended)
)
SELECT ended_at FROM ended`

// cancelSQL ends the listed reservations, each identified by session and slot. It
// locks slots in the order of the list, and the counter last. Rows are found by their
// keys and updated by ctid, so that no plan reads the whole table. A row that changed
// concurrently is skipped.
const cancelSQL = `
WITH ended AS (
	UPDATE license_slots s SET state = 'released', released_at = now, release_reason = 'ended',
		ended_at = LEAST(w.at, now), end_status = w.status::license_end_status, end_reason = w.reason
	FROM clock_timestamp() AS now, (SELECT w.*, s.ctid AS row
		FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::uuid[])
			AS w (session_id, profile_id, at, status, reason, slot_id)
		CROSS JOIN LATERAL (SELECT s.ctid FROM license_slots s
			WHERE s.organization_id = $1 AND s.session_id = w.session_id AND s.id = w.slot_id OFFSET 0) s) w
	WHERE s.ctid = w.row AND s.state = 'reserved' AND COALESCE(s.profile_id = w.profile_id, true)
	RETURNING s.session_id, s.ended_at
), counted AS (
	UPDATE license_org SET in_use = in_use - (SELECT count(*) FROM ended) WHERE organization_id = $1 AND EXISTS (SELECT FROM ended)
)
SELECT session_id, ended_at FROM ended`

// cancelReservation ends a session that is known to be a reservation. It returns nil
// if the session has started or has already ended.
func (s *Service) cancelReservation(ctx context.Context, r release) (*Session, error) {
	endedAt, err := s.cancellations.Do(ctx, r.report.OrgID, r)
	if err != nil || endedAt == nil {
		return nil, err
	}
	return &Session{
		SessionID: r.report.SessionID, SlotID: &r.slotID, EndedAt: endedAt, Status: &r.report.Status, EndReason: &r.report.EndReason,
	}, nil
}

// cancelBatch ends the reservations of a batch and returns the time of each end, nil
// if there was no reservation.
func (s *Service) cancelBatch(ctx context.Context, orgID uuid.UUID, batch []release) ([]*time.Time, error) {
	ended, err := s.endReservations(ctx, orgID, batch)
	if isLostRace(err) {
		ended = nil // an authorize of the same session holds the counter and waits for the slot
	} else if err != nil {
		return nil, fmt.Errorf("end the reservations: %w", err)
	}
	s.queue.kick()
	times := make([]*time.Time, len(batch))
	for i, r := range batch {
		if endedAt, ok := ended[r.report.SessionID]; ok {
			times[i] = new(endedAt.UTC())
		}
	}
	return times, nil
}

// endReservations returns the end time of each session that it ended.
func (s *Service) endReservations(ctx context.Context, orgID uuid.UUID, batch []release) (map[uuid.UUID]time.Time, error) {
	ended := make(map[uuid.UUID]time.Time, len(batch))
	if len(batch) == 1 {
		r, endedAt := batch[0].report, time.Time{}
		err := s.batch.cancelOne.QueryRowContext(ctx, orgID, r.SessionID, r.ProfileID, r.EndedAt, r.Status, r.EndReason, batch[0].slotID).Scan(&endedAt)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		ended[r.SessionID] = endedAt
		return ended, err
	}
	batch = slices.SortedFunc(slices.Values(batch), func(a, b release) int { // the lock order of releaseSQL
		return bytes.Compare(a.report.SessionID[:], b.report.SessionID[:])
	})
	l := newReleaseArrays(batch)
	slotIDs := binaryArray(uuidElement, batch, func(raw []byte, r release) []byte { return appendUUID(raw, r.slotID) })
	result, err := s.batch.cancel.QueryContext(ctx, orgID, l.sessions, l.profiles, l.times, l.statuses, l.reasons, slotIDs)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	for result.Next() {
		var session uuid.UUID
		var endedAt time.Time
		if err := result.Scan(&session, &endedAt); err != nil {
			return nil, err
		}
		ended[session] = endedAt
	}
	return ended, result.Err()
}

// maxReservations bounds the remembered reservations.
const maxReservations = 10_000

// reservations remembers the slots that this replica took and that are not known to
// run, except those whose profile was created with them. It is a hint: the statement
// that ends a slot checks its state.
type reservations struct {
	mu    sync.Mutex
	slots map[uuid.UUID]uuid.UUID // by session id
}

func (r *reservations) add(sessionID, slotID uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots == nil || len(r.slots) >= maxReservations {
		r.slots = map[uuid.UUID]uuid.UUID{}
	}
	r.slots[sessionID] = slotID
}

func (r *reservations) forget(sessionID uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.slots, sessionID)
}

// take returns and removes the slot of a session.
func (r *reservations) take(sessionID uuid.UUID) (slotID uuid.UUID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slotID, ok = r.slots[sessionID]
	delete(r.slots, sessionID)
	return slotID, ok
}
