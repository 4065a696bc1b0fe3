package activity

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

// Filter narrows the feed; nil leaves it as it is.
type Filter struct {
	Status    *string
	ProfileID *uuid.UUID
	MachineID *string
	From      *time.Time // started at it or later
	To        *time.Time // started before it
}

// sortColumns maps the sortBy of the API to what it sorts by. PostgreSQL holds
// null for the greatest, so that a session that runs ends after all others.
var sortColumns = map[string]string{
	"startedAt": "started_at",
	"endedAt":   "ended_at",
}

// List returns a page of the organization's sessions.
func (f *Feed) List(ctx context.Context, orgID uuid.UUID, filter Filter, req page.Request) (page.Page[Session], error) {
	where, args := filter.where(orgID)
	result := page.Page[Session]{Request: req, Items: []Session{}}
	err := pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM activity_sessions`+where, args...); err != nil {
			return fmt.Errorf("count the sessions of a list: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, fmt.Sprintf(`
			SELECT id, profile_id, profile_name, machine_id, launch_id, browser_version, status, end_reason, started_at, ended_at
			FROM activity_sessions%s%s LIMIT %d OFFSET %d`, where, req.Order(sortColumns), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the sessions: %w", err)
		}
		return nil
	})
	if err != nil {
		return result, err
	}
	now := f.Clock.Now()
	for i := range result.Items {
		result.Items[i].Duration = result.Items[i].duration(now)
	}
	return result, nil
}

// duration is never negative, though the worker's clock may be ahead of ours.
func (s *Session) duration(now time.Time) time.Duration {
	if s.EndedAt != nil {
		now = *s.EndedAt
	}
	return max(now.Sub(s.StartedAt), 0)
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	where, args := strings.Builder{}, []any{orgID}
	where.WriteString(` WHERE organization_id = $1`)
	and := func(condition string, arg any) {
		args = append(args, arg)
		fmt.Fprintf(&where, " AND %s $%d", condition, len(args))
	}
	if f.Status != nil {
		and("status =", *f.Status)
	}
	if f.ProfileID != nil {
		and("profile_id =", *f.ProfileID)
	}
	if f.MachineID != nil {
		and("machine_id =", *f.MachineID)
	}
	if f.From != nil {
		and("started_at >=", *f.From)
	}
	if f.To != nil {
		and("started_at <", *f.To)
	}
	return where.String(), args
}
