package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// deliveryColumns are the columns of a Delivery, without the data of its event.
const deliveryColumns = `id, event_id, type, state, attempts, created_at, last_attempt_at, last_status, last_error, last_duration_ms,
	CASE WHEN state = 'pending' THEN due_at END AS next_attempt_at`

// withData are the columns of a Delivery.
const withData = deliveryColumns + `, (SELECT e.data FROM events e WHERE e.id = event_id) AS data`

// deliveryOrder maps sortBy of the API to columns.
var deliveryOrder = map[string]string{"createdAt": "created_at"}

// Deliveries returns a page of the deliveries to an endpoint; a nil state does not
// filter. Errors: NotFound.
func (s *Service) Deliveries(ctx context.Context, orgID, endpointID uuid.UUID, state *State, req page.Request) (page.Page[Delivery], error) {
	result := page.Page[Delivery]{Request: req, Items: []Delivery{}}
	w := pg.NewWhere("organization_id = $1 AND endpoint_id = $2", orgID, endpointID)
	pg.And(w, "state = ?", state)
	where, args := w.SQL()
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if _, err := find(ctx, tx, orgID, endpointID, ""); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM webhook_deliveries`+where, args...); err != nil {
			return fmt.Errorf("count the deliveries: %w", err)
		}
		result.Items = []Delivery{}
		err := tx.SelectContext(ctx, &result.Items, fmt.Sprintf(`SELECT %s FROM webhook_deliveries%s%s LIMIT %d OFFSET %d`,
			withData, where, req.OrderBy(deliveryOrder), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the deliveries: %w", err)
		}
		return nil
	})
	for i := range result.Items {
		result.Items[i].inUTC()
	}
	return result, err
}

func (d *Delivery) inUTC() {
	d.CreatedAt, d.LastAttemptAt, d.NextAttemptAt = d.CreatedAt.UTC(), inUTC(d.LastAttemptAt), inUTC(d.NextAttemptAt)
}

// sendTestSQL creates an event for one endpoint, and its delivery. The event has a
// position, so it is not published to other endpoints; the stream omits it.
const sendTestSQL = `
WITH event AS (
	INSERT INTO events (id, organization_id, position, type, data, is_test, created_at)
	SELECT license_event_id(at), $1, nextval('event_positions'), $3, jsonb_build_object('endpointId', $2::uuid), true, at FROM clock_timestamp() AS at
	RETURNING *
)
INSERT INTO webhook_deliveries (id, organization_id, endpoint_id, event_id, position, type, due_at, created_at)
SELECT license_event_id(created_at), $1, $2, id, position, type, created_at, created_at FROM event
RETURNING ` + deliveryColumns + `, (SELECT data FROM event) AS data`

// SendTest queues an event of TestType for one endpoint. Errors: NotFound; Conflict if the
// endpoint is disabled.
func (s *Service) SendTest(ctx context.Context, orgID, endpointID uuid.UUID) (d Delivery, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := unpause(ctx, tx, orgID, endpointID); err != nil {
			return err
		}
		if err := tx.GetContext(ctx, &d, sendTestSQL, orgID, endpointID, TestType); err != nil {
			return fmt.Errorf("queue a test event: %w", err)
		}
		return nil
	})
	d.inUTC()
	return d, err
}

// Resend queues a delivery again, with all attempts. One that is pending is due now.
// Errors: NotFound, also if the event is not stored any more; Conflict if the endpoint is
// disabled.
func (s *Service) Resend(ctx context.Context, orgID, endpointID, id uuid.UUID) (d Delivery, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := unpause(ctx, tx, orgID, endpointID); err != nil {
			return err
		}
		err := tx.GetContext(ctx, &d, `
			UPDATE webhook_deliveries d SET state = 'pending', attempts = 0, due_at = clock_timestamp()
			WHERE organization_id = $1 AND endpoint_id = $2 AND id = $3 AND EXISTS (SELECT FROM events e WHERE e.id = d.event_id)
			RETURNING `+withData, orgID, endpointID, id)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("delivery")
		}
		if err != nil {
			return fmt.Errorf("queue a delivery again: %w", err)
		}
		return nil
	})
	d.inUTC()
	return d, err
}

// unpause ends the pause of an endpoint, which must be enabled.
func unpause(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID) error {
	r, err := find(ctx, tx, orgID, id, forChange)
	if err != nil {
		return err
	}
	if !r.Enabled {
		return fault.New(fault.Conflict, "The endpoint is disabled. Enable it first.")
	}
	_, err = tx.ExecContext(ctx, `UPDATE webhook_endpoints SET paused_until = '-infinity' WHERE organization_id = $1 AND id = $2`, orgID, id)
	if err != nil {
		return fmt.Errorf("end the pause of an endpoint: %w", err)
	}
	return nil
}
