package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// Filter filters events; nil fields do not filter.
type Filter struct {
	Action   *string
	ActorID  *uuid.UUID // a user, a key or a service account
	TargetID *string
	From     *time.Time // inclusive
	To       *time.Time // exclusive
}

// sortColumns maps sortBy of the API to columns.
var sortColumns = map[string]string{
	"createdAt": "created_at",
	"action":    "action",
}

// List returns a page of the organization's events.
func (l *Log) List(ctx context.Context, orgID uuid.UUID, filter Filter, req page.Request) (page.Page[Event], error) {
	where, args := filter.where(orgID)
	result := page.Page[Event]{Request: req, Items: []Event{}}
	err := pg.InOrg(ctx, l.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM audit_events`+where, args...); err != nil {
			return fmt.Errorf("count the audit events: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, fmt.Sprintf(`
			SELECT id, action, target_id, actor_type, actor_id, actor_email, actor_name, client_address, request_id, details, created_at
			FROM audit_events%s%s LIMIT %d OFFSET %d`, where, req.OrderBy(sortColumns), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the audit events: %w", err)
		}
		return nil
	})
	return result, err
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	w := pg.NewWhere("organization_id = $1", orgID)
	pg.And(w, "action = ?", f.Action)
	pg.And(w, "actor_id = ?", f.ActorID)
	pg.And(w, "target_id = ?", f.TargetID)
	pg.And(w, "created_at >= ?", f.From)
	pg.And(w, "created_at < ?", f.To)
	return w.SQL()
}
