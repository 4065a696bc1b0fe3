package license

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
)

// lookSQL reads, without a lock, the counter, the slots of sessions and which of
// the keys are good: a row for each slot, and one without a slot when there are
// none.
const lookSQL = `
SELECT k.keys, o.in_use, o.max_slots, s.id, s.session_id, s.profile_id, s.machine_id, s.boot_id, s.state
FROM (SELECT ARRAY (` + goodKeysSQL + `) AS keys) k
LEFT JOIN license_org o ON o.org_id = $3
LEFT JOIN (
	unnest($4::uuid[]) AS w (session_id)
	CROSS JOIN LATERAL (SELECT * FROM license_slots s WHERE s.org_id = $3 AND s.session_id = w.session_id LIMIT 1) s) ON true`

// sight is what look sees.
type sight struct {
	Usage
	slot *slot // id, profile, machine, boot and state only; nil when there is none
}

func (s *Service) look(ctx context.Context, req Request) (sight, error) {
	seen, err := s.looks.Do(ctx, req.OrgID, keyed[uuid.UUID]{req.SessionID, req.keyToCheck()})
	return seen.result(err)
}

// view is what lookAll sees.
type view struct {
	usage *Usage // nil when there is no such organization
	slots rows
	keys  []uuid.UUID // that are good
}

// gone is an error when there is no such organization.
func (v view) gone() error {
	if v.usage == nil {
		return fmt.Errorf("read the license counter: %w", sql.ErrNoRows)
	}
	return nil
}

// of is what is seen of a session.
func (v view) of(sessionID uuid.UUID) (sight, error) {
	if err := v.gone(); err != nil {
		return sight{}, err
	}
	return sight{*v.usage, v.slots[sessionID]}, nil
}

// lookAll looks for sessions of one organization, and for keys.
func (s *Service) lookAll(ctx context.Context, orgID uuid.UUID, sessionIDs, keys []uuid.UUID) (view, error) {
	found, err := s.together.look.QueryContext(ctx, uuidArray(keys), s.opts.Clock.Now(), orgID, uuidArray(sessionIDs))
	if err != nil {
		return view{}, fmt.Errorf("read the license counter: %w", err)
	}
	defer found.Close()
	seen := view{slots: rows{}}
	for found.Next() {
		var row slot
		var inUse, limit *int
		var id, sessionID *uuid.UUID
		var state *string
		err := found.Scan((*uuidList)(&seen.keys), &inUse, &limit, &id, &sessionID, &row.ProfileID, &row.MachineID, &row.BootID, &state)
		if err != nil {
			return view{}, fmt.Errorf("read the license counter: %w", err)
		}
		if inUse != nil {
			seen.usage = &Usage{Current: *inUse, Limit: limit}
		}
		if id != nil {
			row.ID, row.State = *id, *state
			seen.slots[*sessionID] = &row
		}
	}
	if err := found.Err(); err != nil {
		return view{}, fmt.Errorf("read the license counter: %w", err)
	}
	return seen, nil
}
