package license

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds.
const (
	Refused           EventKind = "refused"           // a launch or start got no slot
	LapsedSlot        EventKind = "lapsed"            // a slot was released because its lease expired
	OmittedSlot       EventKind = "omitted"           // a slot was released because a heartbeat omitted it
	AdoptedSlot       EventKind = "adopted"           // a heartbeat restored a released slot
	LimitChanged      EventKind = "limitChanged"      // from Previous to Limit
	MachineDuplicated EventKind = "machineDuplicated" // two boots report with one machine id
	MachineAlone      EventKind = "machineAlone"      // one boot reports with the machine id again
	CounterRepaired   EventKind = "counterRepaired"   // from Previous to Current
)

// Event is a change of an organization's concurrency. Fields that do not apply to its
// kind are nil.
type Event struct {
	ID        uuid.UUID  `db:"id"`
	OrgID     uuid.UUID  `db:"organization_id"`
	Kind      EventKind  `db:"kind"`
	At        time.Time  `db:"at"`
	LastAt    time.Time  `db:"last_at"`
	Count     int        `db:"count"` // occurrences from At to LastAt
	Reason    *Reason    `db:"reason"`
	MachineID *string    `db:"machine_id"`
	BootID    *uuid.UUID `db:"boot_id"`
	SessionID *uuid.UUID `db:"session_id"` // the latest if Count > 1
	SlotID    *uuid.UUID `db:"slot_id"`
	ProfileID *uuid.UUID `db:"profile_id"`
	KeyID     *uuid.UUID `db:"key_id"`
	Current   *int       `db:"in_use"` // slots taken, or profiles for ProfileLimit
	Limit     *int       `db:"max_slots"`
	Previous  *int       `db:"previous"`
}

// releasedEvents and adoptedEvents are the part of a statement that inserts an event for
// each slot in its common table expression changed, which has the columns of
// license_slots.
const (
	releasedEvents = `recorded AS (
	INSERT INTO license_events (id, organization_id, kind, at, last_at, machine_id, boot_id, session_id, slot_id, profile_id, key_id)
	SELECT license_event_id(released_at), organization_id, release_reason, released_at, released_at, machine_id, boot_id, session_id, id, profile_id, key_id
	FROM changed
)`
	adoptedEvents = `recorded AS (
	INSERT INTO license_events (id, organization_id, kind, at, last_at, machine_id, boot_id, session_id, slot_id, profile_id, key_id)
	SELECT license_event_id(heartbeat_at), organization_id, 'adopted', heartbeat_at, heartbeat_at, machine_id, boot_id, session_id, id, profile_id, key_id
	FROM changed
)`
)

// setLimitSQL sets a limit, and records an event if it changed.
const setLimitSQL = `
WITH before AS (
	SELECT max_slots FROM license_org WHERE organization_id = $1
), changed AS (
	INSERT INTO license_org (organization_id, max_slots) VALUES ($1, $2)
	ON CONFLICT (organization_id) DO UPDATE SET max_slots = excluded.max_slots
	RETURNING organization_id, in_use, max_slots
)
INSERT INTO license_events (organization_id, kind, in_use, max_slots, previous)
SELECT c.organization_id, 'limitChanged', c.in_use, c.max_slots, before.max_slots FROM changed c, before
WHERE before.max_slots IS DISTINCT FROM c.max_slots`

// EventFilter filters events; nil fields do not filter.
type EventFilter struct {
	Kind      *EventKind
	MachineID *string
	SessionID *uuid.UUID
	From      *time.Time // inclusive
	To        *time.Time // exclusive
}

func (f EventFilter) where(orgID uuid.UUID) (string, []any) {
	w := pg.NewWhere("organization_id = $1", orgID)
	pg.And(w, "kind = ?", f.Kind)
	pg.And(w, "machine_id = ?", f.MachineID)
	pg.And(w, "session_id = ?", f.SessionID)
	pg.And(w, "at >= ?", f.From)
	pg.And(w, "at < ?", f.To)
	return w.SQL()
}

// eventOrder maps sortBy of the API to columns.
var eventOrder = map[string]string{"at": "at"}

// Events returns a page of an organization's license events.
func (s *Service) Events(ctx context.Context, orgID uuid.UUID, filter EventFilter, req page.Request) (page.Page[Event], error) {
	where, args := filter.where(orgID)
	result := page.Page[Event]{Request: req, Items: []Event{}}
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM license_events`+where, args...); err != nil {
			return fmt.Errorf("count the license events: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, fmt.Sprintf(`SELECT * FROM license_events%s%s LIMIT %d OFFSET %d`,
			where, req.OrderBy(eventOrder), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the license events: %w", err)
		}
		return nil
	})
	for i := range result.Items {
		result.Items[i].At, result.Items[i].LastAt = result.Items[i].At.UTC(), result.Items[i].LastAt.UTC()
	}
	return result, err
}
