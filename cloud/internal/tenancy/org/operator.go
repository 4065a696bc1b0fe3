package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Summary is an organization as shown to the operator.
type Summary struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	Slug      string    `db:"slug"`
	Members   int       `db:"members"`
	CreatedAt time.Time `db:"created_at"`
}

const summariesSQL = `
	SELECT id, name, slug, created_at, (SELECT count(*) FROM memberships WHERE organization_id = o.id) AS members
	FROM organizations o `

// ListAll returns a page of the organizations whose name or slug contains the text,
// ignoring case, oldest first.
func (s *Service) ListAll(ctx context.Context, search string, r page.Request) (page.Page[Summary], error) {
	result := page.Page[Summary]{Request: r, Items: []Summary{}}
	pattern := "%" + likeEscaper.Replace(search) + "%"
	err := s.System.GetContext(ctx, &result.Total, `SELECT count(*) FROM organizations WHERE name ILIKE $1 OR slug ILIKE $1`, pattern)
	if err != nil {
		return result, fmt.Errorf("count the organizations: %w", err)
	}
	err = s.System.SelectContext(ctx, &result.Items,
		summariesSQL+`WHERE name ILIKE $1 OR slug ILIKE $1 ORDER BY created_at, id LIMIT $2 OFFSET $3`, pattern, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the organizations: %w", err)
	}
	return result, nil
}

// Find returns the organization with this id or slug; NotFound for none.
func (s *Service) Find(ctx context.Context, ref string) (Summary, error) {
	var found Summary
	err := s.System.GetContext(ctx, &found, summariesSQL+`WHERE id::text = $1 OR slug = $1`, strings.ToLower(ref))
	if errors.Is(err, sql.ErrNoRows) {
		return Summary{}, fault.Missing("organization")
	}
	if err != nil {
		return Summary{}, fmt.Errorf("find an organization: %w", err)
	}
	return found, nil
}
