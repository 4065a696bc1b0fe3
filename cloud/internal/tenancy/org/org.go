// Package org manages organizations, the tenants of the service, and their
// members and invitations.
package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/page"
)

// Organization is a tenant, as shown to one of its members.
type Organization struct {
	ID        uuid.UUID       `db:"id"`
	Name      string          `db:"name"`
	Slug      string          `db:"slug"`
	Role      Role            `db:"role"`    // the member's role
	Network   *netrules.Rules `db:"network"` // the rules of all launches; nil for none
	CreatedAt time.Time       `db:"created_at"`
}

// Service manages organizations, their members and invitations.
type Service struct {
	DB          *sqlx.DB // for one organization at a time
	System      *sqlx.DB // sees all organizations; finds the organizations of users and tokens
	Clock       clock.Clock
	Provisioner Provisioner
	Ender       Ender
	Limits      Limits
	Users       Users
	Mail        Mailer
	Audit       Recorder
	PublicURL   *url.URL // the public URL of the service
	// WithoutMail is set if no mail reaches a person: an invitation is created with its link,
	// and the invited address need not be verified.
	WithoutMail bool
	MaxFree     int // maximum number of organizations on a free plan per user; 0 is unlimited
}

// Provisioner sets up a new organization in the transaction that creates it.
type Provisioner interface {
	Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error
}

// Ender settles what an organization still has in progress, such as running
// sessions, in the transaction that deletes it.
type Ender interface {
	EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error
}

// Limits returns the limits of an organization's subscription.
type Limits interface {
	// LockMemberLimit returns the memberLimit, nil for unlimited. Until tx ends, no
	// other transaction can lock or change it.
	LockMemberLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (*int, error)
	// CountFree returns how many of the organizations have a free plan.
	CountFree(ctx context.Context, q sqlx.QueryerContext, orgIDs []uuid.UUID) (int, error)
}

// Users returns data of accounts.
type Users interface {
	// Address returns the user's e-mail address in lower case, and whether it is
	// verified.
	Address(ctx context.Context, userID uuid.UUID) (email string, verified bool, err error)
	// SpendInvitation counts an invitation mail to the address once tx commits. It
	// returns RateLimited after too many mails to the address, from the organization or
	// from the inviter.
	SpendInvitation(ctx context.Context, tx *sqlx.Tx, orgID, inviterID uuid.UUID, email string) error
}

// Mailer sends mail once tx commits.
type Mailer interface {
	Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error
}

// Recorder writes the audit log. It takes the actor from the context.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// NewOrganization is the input of Create.
type NewOrganization struct {
	Name string
	Slug string // derived from the name if empty
}

// Create creates an organization that the user owns. It returns Forbidden for a second
// one if the user's address is not verified, and, with both numbers, if the user has
// created MaxFree organizations that are on a free plan. Returns Conflict if the given
// slug is taken; a slug that is derived from the name is replaced by a free one.
func (s *Service) Create(ctx context.Context, userID uuid.UUID, n NewOrganization) (Organization, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Organization{}, fmt.Errorf("generate an organization ID: %w", err)
	}
	_, verified, err := s.Users.Address(ctx, userID)
	if err != nil {
		return Organization{}, fmt.Errorf("find the address of a user: %w", err)
	}
	o := Organization{ID: id, Name: n.Name, Role: Owner, CreatedAt: s.Clock.Now()}
	err = pg.InOrg(ctx, s.DB, o.ID, func(tx *sqlx.Tx) error {
		if err := s.checkOrganizationLimit(ctx, tx, userID, verified); err != nil {
			return err
		}
		slug, err := insert(ctx, tx, o, n.Slug, userID)
		if err != nil {
			return err
		}
		o.Slug = slug
		_, err = tx.ExecContext(ctx, `
			INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`,
			o.ID, userID, o.Role, o.CreatedAt)
		if err != nil {
			return fmt.Errorf("create the owner's membership: %w", err)
		}
		if err := s.Provisioner.Provision(ctx, tx, o.ID); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, o.ID, "organization.created", o.ID.String(), map[string]any{"name": o.Name, "slug": o.Slug})
	})
	if err != nil {
		return Organization{}, err
	}
	return o, nil
}

// insert inserts the organization with the given slug, or with the first free slug for
// its name, and returns the slug.
func insert(ctx context.Context, tx *sqlx.Tx, o Organization, requestedSlug string, userID uuid.UUID) (string, error) {
	candidates := []string{requestedSlug}
	if requestedSlug == "" {
		candidates = slugCandidates(o.Name)
	}
	for _, slug := range candidates {
		result, err := tx.ExecContext(ctx, `
			INSERT INTO organizations (id, name, slug, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (slug) DO NOTHING`, o.ID, o.Name, slug, o.CreatedAt, userID)
		if err != nil {
			return "", fmt.Errorf("create an organization: %w", err)
		}
		if inserted, err := result.RowsAffected(); err != nil || inserted == 1 {
			return slug, err
		}
	}
	return "", errSlugTaken(candidates[len(candidates)-1])
}

func errSlugTaken(slug string) error {
	return fault.New(fault.Conflict, "The slug is already in use.",
		fault.Detail{Field: "slug", Code: fault.Custom, Message: "is taken", Received: slug})
}

// membershipsSQL selects organizations as shown to a member.
const membershipsSQL = `
	SELECT o.id, o.name, o.slug, o.network, o.created_at, m.role
	FROM organizations o JOIN memberships m ON m.organization_id = o.id
	WHERE m.user_id = $1`

// sortable maps sort keys to columns.
var sortable = map[string]string{"createdAt": "o.created_at", "name": "o.name"}

// List returns a page of the organizations that the user is a member of. It
// sorts by createdAt or name.
func (s *Service) List(ctx context.Context, userID uuid.UUID, r page.Request) (page.Page[Organization], error) {
	result := page.Page[Organization]{Request: r, Items: []Organization{}}
	err := s.System.GetContext(ctx, &result.Total, `SELECT count(*) FROM memberships WHERE user_id = $1`, userID)
	if err != nil {
		return result, fmt.Errorf("count the organizations of a user: %w", err)
	}
	err = s.System.SelectContext(ctx, &result.Items,
		membershipsSQL+r.OrderBy(sortable)+` LIMIT $2 OFFSET $3`, userID, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the organizations of a user: %w", err)
	}
	return result, nil
}

// Get returns an organization of which the user is a member, or NotFound.
func (s *Service) Get(ctx context.Context, userID, orgID uuid.UUID) (Organization, error) {
	var o Organization
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		o, err = find(ctx, tx, userID, orgID)
		return err
	})
	return o, err
}

func find(ctx context.Context, tx *sqlx.Tx, userID, orgID uuid.UUID) (Organization, error) {
	var o Organization
	err := tx.GetContext(ctx, &o, membershipsSQL+` AND o.id = $2`, userID, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return Organization{}, fault.Missing("organization")
	}
	if err != nil {
		return Organization{}, fmt.Errorf("find an organization: %w", err)
	}
	return o, nil
}

// Role returns the user's role in the organization: owner, admin or member, or ""
// for non-members.
func (s *Service) Role(ctx context.Context, orgID, userID uuid.UUID) (string, error) {
	var role string
	err := s.System.GetContext(ctx, &role,
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
	err := s.System.SelectContext(ctx, &ids, `SELECT organization_id FROM memberships WHERE user_id = $1`, userID)
	if err != nil {
		return nil, fmt.Errorf("list the memberships of a user: %w", err)
	}
	return ids, nil
}
