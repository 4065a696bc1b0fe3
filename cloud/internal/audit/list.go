package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// Filter narrows a list; nil leaves it as it is.
type Filter struct {
	Action   *string
	ActorID  *uuid.UUID // a user or a key
	TargetID *string
	From     *time.Time // at it or later
	To       *time.Time // before it
}

// sortColumns maps the sortBy of the API to what it sorts by.
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
			return fmt.Errorf("count the events of a list: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, fmt.Sprintf(`
			SELECT id, action, target_id, actor_type, actor_id, actor_email, client_address, request_id, details, created_at
			FROM audit_events%s%s LIMIT %d OFFSET %d`, where, req.Order(sortColumns), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the events: %w", err)
		}
		return nil
	})
	return result, err
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	where, args := strings.Builder{}, []any{orgID}
	where.WriteString(` WHERE organization_id = $1`)
	and := func(condition string, arg any) {
		args = append(args, arg)
		fmt.Fprintf(&where, " AND %s $%d", condition, len(args))
	}
	if f.Action != nil {
		and("action =", *f.Action)
	}
	if f.ActorID != nil {
		and("actor_id =", *f.ActorID)
	}
	if f.TargetID != nil {
		and("target_id =", *f.TargetID)
	}
	if f.From != nil {
		and("created_at >=", *f.From)
	}
	if f.To != nil {
		and("created_at <", *f.To)
	}
	return where.String(), args
}
