// Package org holds the organizations, the tenants of the service, and who is a
// member of them.
package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// ownerRole is the role of who makes an organization.
const ownerRole = "owner"

// Organization is a tenant, as one of its members sees it.
type Organization struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	Slug      string    `db:"slug"`
	Role      string    `db:"role"` // the member's: owner, admin or member
	CreatedAt time.Time `db:"created_at"`
}

// Provisioner gives a new organization what it starts with, in the transaction
// that makes it.
type Provisioner interface {
	Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error
}

// Service makes and finds organizations.
type Service struct {
	db          *sqlx.DB
	clock       clock.Clock
	provisioner Provisioner
}

// New returns a Service.
func New(db *sqlx.DB, clock clock.Clock, provisioner Provisioner) *Service {
	return &Service{db: db, clock: clock, provisioner: provisioner}
}

// NewOrganization is what an organization is made of.
type NewOrganization struct {
	Name string
	Slug string // made from the name when empty
}

// Create makes an organization that the user owns. A slug that is taken is a
// Conflict; one that is made from the name gives way.
func (s *Service) Create(ctx context.Context, userID uuid.UUID, n NewOrganization) (Organization, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Organization{}, fmt.Errorf("make an organization id: %w", err)
	}
	o := Organization{ID: id, Name: n.Name, Role: ownerRole, CreatedAt: s.clock.Now()}
	err = pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		slug, err := insert(ctx, tx, o, n.Slug, userID)
		if err != nil {
			return err
		}
		o.Slug = slug
		_, err = tx.ExecContext(ctx, `
			INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`,
			o.ID, userID, o.Role, o.CreatedAt)
		if err != nil {
			return fmt.Errorf("make the owner a member: %w", err)
		}
		return s.provisioner.Provision(ctx, tx, o.ID)
	})
	if err != nil {
		return Organization{}, err
	}
	return o, nil
}

// insert writes the organization under the wanted slug, or the first free one
// of its name's, and returns the slug.
func insert(ctx context.Context, tx *sqlx.Tx, o Organization, wanted string, userID uuid.UUID) (string, error) {
	candidates := []string{wanted}
	if wanted == "" {
		candidates = slugs(o.Name)
	}
	for _, slug := range candidates {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO organizations (id, name, slug, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (slug) DO NOTHING`, o.ID, o.Name, slug, o.CreatedAt, userID)
		if err != nil {
			return "", fmt.Errorf("make an organization: %w", err)
		}
		if inserted, err := result.RowsAffected(); err != nil || inserted == 1 {
			return slug, err
		}
	}
	return "", fault.New(fault.Conflict, "The slug is taken.",
		fault.Detail{Field: "slug", Code: fault.Custom, Message: "is taken", Received: candidates[len(candidates)-1]})
}

// mine is what a member sees of an organization.
const mine = `
	SELECT o.id, o.name, o.slug, o.created_at, m.role
	FROM organizations o JOIN memberships m ON m.organization_id = o.id
	WHERE m.user_id = $1`

// sortable maps the names that organizations sort by to columns.
var sortable = map[string]string{"createdAt": "o.created_at", "name": "o.name"}

// List returns a page of the organizations that the user is a member of. It
// sorts by createdAt or name.
func (s *Service) List(ctx context.Context, userID uuid.UUID, r page.Request) (page.Page[Organization], error) {
	result := page.Page[Organization]{Request: r, Items: []Organization{}}
	err := s.db.GetContext(ctx, &result.Total, `SELECT count(*) FROM memberships WHERE user_id = $1`, userID)
	if err != nil {
		return result, fmt.Errorf("count the organizations of a user: %w", err)
	}
	err = s.db.SelectContext(ctx, &result.Items,
		mine+r.Order(sortable)+` LIMIT $2 OFFSET $3`, userID, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the organizations of a user: %w", err)
	}
	return result, nil
}

// Get returns an organization that the user is a member of; any other is
// NotFound.
func (s *Service) Get(ctx context.Context, userID, orgID uuid.UUID) (Organization, error) {
	var o Organization
	err := s.db.GetContext(ctx, &o, mine+` AND o.id = $2`, userID, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return Organization{}, fault.Missing("organization")
	}
	if err != nil {
		return Organization{}, fmt.Errorf("find an organization: %w", err)
	}
	return o, nil
}

// Role returns the user's role in the organization: owner, admin or member, and
// "" when the user is none of these.
func (s *Service) Role(ctx context.Context, orgID, userID uuid.UUID) (string, error) {
	var role string
	err := s.db.GetContext(ctx, &role,
		`SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2`, orgID, userID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("find a membership: %w", err)
	}
	return role, nil
}

// Organizations returns the ids of the organizations that the user is a member
// of.
func (s *Service) Organizations(ctx context.Context, userID uuid.UUID) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.db.SelectContext(ctx, &ids, `SELECT organization_id FROM memberships WHERE user_id = $1`, userID)
	if err != nil {
		return nil, fmt.Errorf("list the memberships of a user: %w", err)
	}
	return ids, nil
}
