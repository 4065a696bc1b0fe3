package profile

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Filter filters profiles; nil and empty fields do not filter.
type Filter struct {
	Search         string // in the name or the notes, ignoring case
	OS             *string
	BrowserVersion *int32
	Tag            *string
}

// sortColumns maps sortBy of the API to sort expressions. A profile that was never used
// sorts before all used ones.
var sortColumns = map[string]string{
	"createdAt":      "created_at",
	"updatedAt":      "updated_at",
	"lastUsedAt":     "COALESCE(last_used_at, '-infinity')",
	"name":           "lower(name)",
	"browserVersion": "browser_version",
}

// Get returns a profile.
func (s *Service) Get(ctx context.Context, orgID, id uuid.UUID) (Profile, error) {
	var p Profile
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, false)
		if err != nil {
			return err
		}
		p, err = s.withLiveSessions(ctx, tx, &r)
		return err
	})
	return p, err
}

// withLiveSessions converts the row to a Profile with its number of running sessions.
func (s *Service) withLiveSessions(ctx context.Context, q sqlx.QueryerContext, r *row) (Profile, error) {
	all, err := s.withLiveSessionsAll(ctx, q, r.OrganizationID, []row{*r})
	if err != nil {
		return Profile{}, err
	}
	return all[0], nil
}

// List returns a page of the organization's profiles, without ephemeral ones.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, f Filter, req page.Request) (page.Page[Profile], error) {
	result := page.Page[Profile]{Request: req}
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		where, args := f.where(orgID)
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM profiles`+where, args...); err != nil {
			return fmt.Errorf("count the profiles of a list: %w", err)
		}
		var rows []row
		err = tx.SelectContext(ctx, &rows, fmt.Sprintf(`SELECT %s FROM profiles%s%s LIMIT %d OFFSET %d`,
			columns, where, req.OrderBy(sortColumns), req.Limit, req.Offset()), args...)
		if err != nil {
			return fmt.Errorf("list the profiles: %w", err)
		}
		result.Items, err = s.withLiveSessionsAll(ctx, tx, orgID, rows)
		return err
	})
	return result, err
}

// withLiveSessionsAll converts rows of one organization.
func (s *Service) withLiveSessionsAll(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID, rows []row) ([]Profile, error) {
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	live, err := s.LiveSessions.LiveByProfile(ctx, q, orgID, ids)
	if err != nil {
		return nil, fmt.Errorf("count live sessions: %w", err)
	}
	profiles := make([]Profile, len(rows))
	for i, r := range rows {
		if profiles[i], err = r.profile(); err != nil {
			return nil, err
		}
		profiles[i].ActiveSessions = live[r.ID]
	}
	return profiles, nil
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	w := pg.NewWhere(`NOT ephemeral AND organization_id = $1`, orgID)
	if f.Search != "" {
		pg.And(w, `(name ILIKE ? OR notes ILIKE ?)`, new("%"+likeEscaper.Replace(f.Search)+"%"))
	}
	pg.And(w, `os = ?`, f.OS)
	pg.And(w, `browser_version = ?`, f.BrowserVersion)
	if f.Tag != nil {
		pg.And(w, `tags @> ?`, &pq.StringArray{*f.Tag})
	}
	return w.SQL()
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Stats returns usage and limits (specification 2.7).
func (s *Service) Stats(ctx context.Context, orgID uuid.UUID) (Stats, error) {
	var stats Stats
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if stats.Ceilings, err = s.Limits.Ceilings(ctx, tx, orgID); err != nil {
			return fmt.Errorf("read the limits: %w", err)
		}
		counts, err := countProfiles(ctx, tx, orgID)
		if err != nil {
			return err
		}
		stats.TotalProfiles, stats.EphemeralProfiles = counts.Listed, counts.Ephemeral
		if stats.ActiveProfiles, err = s.LiveSessions.LiveProfiles(ctx, tx, orgID); err != nil {
			return fmt.Errorf("count running profiles: %w", err)
		}
		return nil
	})
	return stats, err
}

// Names returns the names of the organization's profiles among ids. Deleted profiles
// are missing.
func Names(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	var rows []struct {
		ID   uuid.UUID `db:"id"`
		Name string    `db:"name"`
	}
	err := sqlx.SelectContext(ctx, q, &rows, `SELECT id, name FROM profiles WHERE organization_id = $1 AND id = ANY($2)`,
		orgID, pq.Array(ids))
	if err != nil {
		return nil, fmt.Errorf("read profile names: %w", err)
	}
	names := make(map[uuid.UUID]string, len(rows))
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	return names, nil
}

// EnsureExists returns NotFound if the organization does not have the profile.
func (s *Service) EnsureExists(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID) error {
	names, err := Names(ctx, tx, orgID, []uuid.UUID{id})
	if err != nil {
		return err
	}
	if _, ok := names[id]; !ok {
		return fault.Missing("profile")
	}
	return nil
}
