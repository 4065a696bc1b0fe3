package license

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
)

// lookSQL reads, without a lock, the counter and the slots of sessions: a row
// for each, and one without a slot when there are none.
const lookSQL = `
SELECT o.in_use, o.max_slots, s.id, s.session_id, s.profile_id, s.machine_id, s.boot_id, s.state
FROM license_org o LEFT JOIN (
	unnest($2::uuid[]) AS w (session_id)
	CROSS JOIN LATERAL (SELECT * FROM license_slots s WHERE s.org_id = $1 AND s.session_id = w.session_id LIMIT 1) s) ON true
WHERE o.org_id = $1`

// sight is what look sees.
type sight struct {
	Usage
	slot *slot // id, profile, machine, boot and state only; nil when there is none
}

func (s *Service) look(ctx context.Context, req Request) (sight, error) {
	seen, err := s.looks.Do(ctx, req.OrgID, keyed[uuid.UUID]{req.SessionID, req.keyToCheck()})
	return seen.result(err)
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
	if err := s.together.look.SelectContext(ctx, &found, orgID, uuidArray(sessionIDs)); err != nil {
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
