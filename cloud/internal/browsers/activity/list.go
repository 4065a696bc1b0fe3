package activity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// Filter filters sessions; nil fields do not filter.
type Filter struct {
	Status    *string
	ProfileID *uuid.UUID
	MachineID *string
	KeyID     *uuid.UUID
	From      *time.Time // earliest start, inclusive
	To        *time.Time // latest start, exclusive
	Name      *string
	Metadata  []Metadata // a session must have all of them
}

// sortColumns maps sortBy of the API to columns. PostgreSQL sorts null last, so
// running sessions sort after all ended ones.
var sortColumns = map[string]string{
	byStart:   "started_at",
	"endedAt": "ended_at",
}

const byStart = "startedAt" // the only order with cursors

// Listing is a page of sessions, or the sessions after a cursor; the latter has no
// total count.
type Listing struct {
	page.Page[Session]
	Next string // cursor of the next page; empty at the end and for other orders than by start
}

// List returns a page of the organization's sessions.
func (f *Feed) List(ctx context.Context, orgID uuid.UUID, filter Filter, req page.Request) (Listing, error) {
	where, args := filter.where(orgID)
	result := Listing{Page: page.Page[Session]{Request: req}}
	err := pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM activity_sessions`+where, args...); err != nil {
			return fmt.Errorf("count the sessions: %w", err)
		}
		limit, offset, order := req.Limit, req.Offset(), req
		if after := result.Total - offset - limit; offset > after { // closer to the end: read backward
			offset, limit, order.Desc = max(after, 0), min(limit, result.Total-offset), !req.Desc
		}
		err := f.read(ctx, tx, &result.Items, where, args, order, max(limit, 0), offset)
		if order.Desc != req.Desc {
			slices.Reverse(result.Items)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	if req.SortBy == byStart && result.HasNext() && len(result.Items) > 0 {
		result.Next = cursorAfter(result.Items[len(result.Items)-1])
	}
	return result, nil
}

// ListAfter returns the sessions after a cursor of a listing with the same filter and
// order. Its cost does not depend on the position.
func (f *Feed) ListAfter(ctx context.Context, orgID uuid.UUID, filter Filter, req page.Request, cursor string) (Listing, error) {
	result := Listing{Page: page.Page[Session]{Request: req}}
	after, err := parseCursor(cursor, req)
	if err != nil {
		return result, err
	}
	where, args := filter.where(orgID)
	comparison := ">"
	if req.Desc {
		comparison = "<"
	}
	where += fmt.Sprintf(" AND (started_at, id) %s ($%d, $%d)", comparison, len(args)+1, len(args)+2)
	err = pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		return f.read(ctx, tx, &result.Items, where, append(args, after.StartedAt, after.ID), req, req.Limit+1, 0)
	})
	if len(result.Items) > req.Limit {
		result.Items = result.Items[:req.Limit]
		result.Next = cursorAfter(result.Items[req.Limit-1])
	}
	return result, err
}

// sessionColumns are the columns of Session.
const sessionColumns = `id, profile_id, profile_name, machine_id, key_id, launch_id, browser_version, status, end_reason, started_at, ended_at, recording, name, metadata, connections, bytes_sent, bytes_received, denied`

func (f *Feed) read(ctx context.Context, tx *sqlx.Tx, into *[]Session, where string, args []any, order page.Request, limit, offset int) error {
	*into = []Session{}
	err := tx.SelectContext(ctx, into, fmt.Sprintf(`
		SELECT `+sessionColumns+`
		FROM activity_sessions%s%s LIMIT %d OFFSET %d`, where, order.OrderBy(sortColumns), limit, offset), args...)
	if err != nil {
		return fmt.Errorf("list the sessions: %w", err)
	}
	now := f.Clock.Now()
	for i := range *into {
		(*into)[i].Duration = (*into)[i].duration(now)
	}
	return nil
}

// duration is never negative, although the worker's clock may be ahead.
func (s *Session) duration(now time.Time) time.Duration {
	if s.EndedAt != nil {
		now = *s.EndedAt
	}
	return max(now.Sub(s.StartedAt), 0)
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	w := pg.NewWhere("organization_id = $1", orgID)
	pg.And(w, "status = ?", f.Status)
	pg.And(w, "profile_id = ?", f.ProfileID)
	pg.And(w, "machine_id = ?", f.MachineID)
	pg.And(w, "key_id = ?", f.KeyID)
	pg.And(w, "started_at >= ?", f.From)
	pg.And(w, "started_at < ?", f.To)
	pg.And(w, "name = ?", f.Name)
	for i := range f.Metadata {
		pg.And(w, "metadata @> ?", &f.Metadata[i])
	}
	return w.SQL()
}
