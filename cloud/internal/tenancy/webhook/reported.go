package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// reportTime is how long after the end of a session its worker can report events.
const reportTime = 24 * time.Hour

// SessionEvent is an event of a session that its worker reports.
type SessionEvent struct {
	ID   uuid.UUID      `json:"id"` // chosen by the worker; a repeated one has no effect
	Type string         `json:"type"`
	Data map[string]any `json:"data"` // added to the fields of the session
}

// reportSQL records events in their order, if the organization has the session, on the
// machine if that is known, and wants events.
const reportSQL = `
INSERT INTO events (id, organization_id, type, subject, data, created_at)
SELECT (r.event->>'id')::uuid, $1, r.event->>'type', 'session:' || s.id, jsonb_build_object('sessionId', s.id, 'profileId', s.profile_id,
	'profileName', s.profile_name, 'machineId', s.machine_id, 'launchId', s.launch_id, 'name', s.name, 'metadata', coalesce(s.metadata, '{}'))
	|| (r.event->'data'), clock_timestamp()
FROM activity_sessions s, jsonb_array_elements($4::jsonb) WITH ORDINALITY AS r (event, n)
WHERE s.organization_id = $1 AND s.id = $2 AND s.machine_id = COALESCE($3, s.machine_id)
	AND (s.ended_at IS NULL OR s.ended_at > clock_timestamp() - make_interval(secs => $5)) AND event_wanted($1)
ORDER BY r.n
ON CONFLICT (id) DO NOTHING`

// Report records events of a session. A nil machine is not checked. Events of a session
// that the organization does not have, or that has ended before reportTime, are ignored.
func (s *Service) Report(ctx context.Context, orgID, sessionID uuid.UUID, machineID *string, events []SessionEvent) error {
	if len(events) == 0 {
		return nil
	}
	for i := range events { // other organizations cannot occupy the id
		events[i].ID = uuid.NewSHA1(orgID, events[i].ID[:])
	}
	encoded, err := json.Marshal(events)
	if err != nil {
		return fmt.Errorf("encode reported events: %w", err)
	}
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, reportSQL, orgID, sessionID, machineID, string(encoded), reportTime.Seconds()); err != nil {
			return fmt.Errorf("record reported events: %w", err)
		}
		return nil
	})
}
