package license

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
)

// lookupSQL returns the statement that reads the counter, the slots of sessions and the
// valid keys, without a lock. It returns a row for each slot, and one row without a slot
// if there is none.
func lookupSQL(keys Keys) string {
	return `
SELECT k.keys, o.in_use, o.max_slots, o.queued, s.id, s.session_id, s.profile_id, s.machine_id, s.boot_id, s.state
FROM (SELECT ARRAY (` + keys.ValidSQL() + `) AS keys) k
LEFT JOIN license_org o ON o.organization_id = $3
LEFT JOIN (
	unnest($4::uuid[]) AS w (session_id)
	CROSS JOIN LATERAL (SELECT * FROM license_slots s WHERE s.organization_id = $3 AND s.session_id = w.session_id LIMIT 1) s) ON true`
}

// slotState is the usage of an organization and the slot of one session.
type slotState struct {
	Usage
	slot *slot // only id, profile, machine, boot and state; nil if there is none
}

func (s *Service) lookup(ctx context.Context, req Request) (slotState, error) {
	found, err := s.lookups.Do(ctx, req.OrgID, withKey[uuid.UUID]{req.SessionID, req.pendingKey()})
	return found.unwrap(err)
}

// snapshot is the result of lookupBatch.
type snapshot struct {
	usage *Usage // nil if the organization does not exist
	slots slotsBySession
	keys  []uuid.UUID // valid ones
}

// missing returns an error if the organization does not exist.
func (v snapshot) missing() error {
	if v.usage == nil {
		return fmt.Errorf("read the license counter: %w", sql.ErrNoRows)
	}
	return nil
}

// slotState returns the state of a session.
func (v snapshot) slotState(sessionID uuid.UUID) (slotState, error) {
	if err := v.missing(); err != nil {
		return slotState{}, err
	}
	return slotState{*v.usage, v.slots[sessionID]}, nil
}

// lookupBatch looks up sessions of one organization, and keys.
func (s *Service) lookupBatch(ctx context.Context, orgID uuid.UUID, sessionIDs, keys []uuid.UUID) (snapshot, error) {
	found, err := s.batch.lookup.QueryContext(ctx, uuidArray(keys), s.opts.Clock.Now(), orgID, uuidArray(sessionIDs))
	if err != nil {
		return snapshot{}, fmt.Errorf("read the license counter: %w", err)
	}
	defer found.Close()
	snap := snapshot{slots: slotsBySession{}}
	for found.Next() {
		var row slot
		var inUse, limit, queued *int
		var id, sessionID *uuid.UUID
		var state *string
		err := found.Scan((*uuidList)(&snap.keys), &inUse, &limit, &queued, &id, &sessionID, &row.ProfileID, &row.MachineID, &row.BootID, &state)
		if err != nil {
			return snapshot{}, fmt.Errorf("read the license counter: %w", err)
		}
		if inUse != nil {
			snap.usage = &Usage{Current: *inUse, Limit: limit, queued: *queued}
		}
		if id != nil {
			row.ID, row.State = *id, *state
			snap.slots[*sessionID] = &row
		}
	}
	if err := found.Err(); err != nil {
		return snapshot{}, fmt.Errorf("read the license counter: %w", err)
	}
	return snap, nil
}
