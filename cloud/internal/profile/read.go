package profile

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Filter narrows a list; nil and empty leave it as it is.
type Filter struct {
	Search         string // in the name or the notes, in any case
	OS             *string
	BrowserVersion *int32
	Tag            *string
}

// sortColumns maps the sortBy of the API to what it sorts by. A profile that was
// never used counts as used before all others.
var sortColumns = map[string]string{
	"createdAt":      "created_at",
	"updatedAt":      "updated_at",
	"lastUsedAt":     "COALESCE(last_used_at, '-infinity')",
	"name":           "lower(name)",
	"browserVersion": "browser_version",
}

// Get returns a profile.
func (s *Service) Get(ctx context.Context, orgID, id uuid.UUID) (Profile, error) {
	r, err := find(ctx, s.DB, orgID, id, false)
	if err != nil {
		return Profile{}, err
	}
	return s.shown(ctx, s.DB, &r)
}

// shown is the row as a Profile with its live sessions counted.
func (s *Service) shown(ctx context.Context, q sqlx.QueryerContext, r *row) (Profile, error) {
	p, err := r.profile()
	if err != nil {
		return Profile{}, err
	}
	live, err := s.Live.LiveByProfile(ctx, q, r.OrganizationID, []uuid.UUID{r.ID})
	if err != nil {
		return Profile{}, fmt.Errorf("count live sessions: %w", err)
	}
	p.ActiveSessions = live[r.ID]
	return p, nil
}

// List returns a page of the organization's profiles, without those that live
// as long as one launch.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, f Filter, req page.Request) (page.Page[Profile], error) {
	where, args := f.where(orgID)
	result := page.Page[Profile]{Request: req, Items: []Profile{}}
	err := s.DB.GetContext(ctx, &result.Total, `SELECT count(*) FROM profiles`+where, args...)
	if err != nil {
		return result, fmt.Errorf("count the profiles of a list: %w", err)
	}
	var rows []row
	err = s.DB.SelectContext(ctx, &rows, fmt.Sprintf(`SELECT %s FROM profiles%s%s LIMIT %d OFFSET %d`,
		columns, where, req.Order(sortColumns), req.Limit, req.Offset()), args...)
	if err != nil {
		return result, fmt.Errorf("list the profiles: %w", err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	live, err := s.Live.LiveByProfile(ctx, s.DB, orgID, ids)
	if err != nil {
		return result, fmt.Errorf("count live sessions: %w", err)
	}
	for _, r := range rows {
		p, err := r.profile()
		if err != nil {
			return result, err
		}
		p.ActiveSessions = live[p.ID]
		result.Items = append(result.Items, p)
	}
	return result, nil
}

func (f Filter) where(orgID uuid.UUID) (string, []any) {
	where, args := ` WHERE NOT ephemeral AND organization_id = $1`, []any{orgID}
	and := func(condition string, arg any) {
		args = append(args, arg)
		where += " AND " + strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args)))
	}
	if f.Search != "" {
		and(`(name ILIKE ? OR notes ILIKE ?)`, "%"+likeEscaper.Replace(f.Search)+"%")
	}
	if f.OS != nil {
		and(`os = ?`, *f.OS)
	}
	if f.BrowserVersion != nil {
		and(`browser_version = ?`, *f.BrowserVersion)
	}
	if f.Tag != nil {
		and(`tags @> ?`, pq.StringArray{*f.Tag})
	}
	return where, args
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Stats returns usage and ceilings (specification 2.7).
func (s *Service) Stats(ctx context.Context, orgID uuid.UUID) (Stats, error) {
	ceilings, err := s.Limits.Ceilings(ctx, orgID)
	if err != nil {
		return Stats{}, fmt.Errorf("read the limits: %w", err)
	}
	stats := Stats{Ceilings: ceilings}
	if stats.TotalProfiles, err = countAll(ctx, s.DB, orgID); err != nil {
		return Stats{}, err
	}
	if stats.ActiveProfiles, err = s.Live.LiveProfiles(ctx, s.DB, orgID); err != nil {
		return Stats{}, fmt.Errorf("count running profiles: %w", err)
	}
	return stats, nil
}

// Config returns what a worker needs to launch a profile, the proxy password
// included.
func (s *Service) Config(ctx context.Context, orgID, id uuid.UUID) (Config, error) {
	r, err := find(ctx, s.DB, orgID, id, false)
	if err != nil {
		return Config{}, err
	}
	p, err := r.profile()
	if err != nil {
		return Config{}, err
	}
	password, err := r.open(s.Sealer)
	if err != nil {
		return Config{}, err
	}
	return Config{Profile: p, ProxyPassword: password}, nil
}

// Names returns the names of the organization's profiles among ids; one that is
// gone is missing.
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

// Know returns a NotFound fault unless the organization has the profile.
func (s *Service) Know(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID) error {
	names, err := Names(ctx, tx, orgID, []uuid.UUID{id})
	if err != nil {
		return err
	}
	if _, ok := names[id]; !ok {
		return fault.Missing("profile")
	}
	return nil
}
