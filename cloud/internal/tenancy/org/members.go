package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Membership is a user who belongs to an organization.
type Membership struct {
	UserID   uuid.UUID `db:"id"`
	Email    string    `db:"email"`
	Name     string    `db:"name"`
	Role     Role      `db:"role"`
	JoinedAt time.Time `db:"created_at"`
}

// MemberFilter filters members; empty fields do not filter.
type MemberFilter struct {
	Search string // text that the name or address contains, ignoring case
	Role   Role
}

const membersSQL = `
	FROM memberships m JOIN users u ON u.id = m.user_id
	WHERE m.organization_id = $1`

// memberOrder maps sort keys to columns. Roles are sorted by rank.
var memberOrder = map[string]string{
	"joinedAt": "m.created_at",
	"name":     "u.name",
	"email":    "u.email",
	"role":     "array_position('{member,admin,owner}', m.role)",
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Members returns a page of the organization's members. It sorts by joinedAt,
// name, email or role.
func (s *Service) Members(ctx context.Context, orgID uuid.UUID, f MemberFilter, r page.Request) (page.Page[Membership], error) {
	result := page.Page[Membership]{Request: r, Items: []Membership{}}
	fromClause := membersSQL + ` AND ($2 = '' OR m.role = $2) AND (u.name ILIKE $3 OR u.email ILIKE $3)`
	pattern := "%" + likeEscaper.Replace(f.Search) + "%"
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+fromClause, orgID, f.Role, pattern); err != nil {
			return fmt.Errorf("count the members: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items,
			`SELECT u.id, u.email, u.name, m.role, m.created_at`+fromClause+r.OrderBy(memberOrder)+` LIMIT $4 OFFSET $5`,
			orgID, f.Role, pattern, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the members: %w", err)
		}
		return nil
	})
	return result, err
}

// ChangeRole changes a member's role and returns the member. Only owners may
// grant or remove the roles owner and admin (Forbidden); the last owner cannot be
// demoted (Conflict). Returns NotFound for non-members.
func (s *Service) ChangeRole(ctx context.Context, orgID, actorID, memberID uuid.UUID, role Role) (Membership, error) {
	var m Membership
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		actor, err := lockForMember(ctx, tx, orgID, actorID)
		if err != nil {
			return err
		}
		if m, err = member(ctx, tx, orgID, memberID); err != nil {
			return err
		}
		if !actor.manages(m.Role) || !actor.manages(role) {
			return forbidden("Only an owner can grant or remove the roles owner and admin.")
		}
		old := m.Role
		if old == role {
			return nil
		}
		if err := requireAnotherOwner(ctx, tx, orgID, m); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			`UPDATE memberships SET role = $3 WHERE organization_id = $1 AND user_id = $2`, orgID, memberID, role)
		if err != nil {
			return fmt.Errorf("change a role: %w", err)
		}
		m.Role = role
		if err := s.revokeUnauthorizedInvitations(ctx, tx, orgID, memberID, role); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, "member.roleChanged", memberID.String(), map[string]any{"from": old, "to": role})
	})
	return m, err
}

// Remove ends a membership: the actor's own, or that of a member whom the actor
// manages (else Forbidden). The last owner cannot leave (Conflict). Returns
// NotFound for non-members. Keys that the member created stay valid.
func (s *Service) Remove(ctx context.Context, orgID, actorID, memberID uuid.UUID) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		actor, err := lockForMember(ctx, tx, orgID, actorID)
		if err != nil {
			return err
		}
		m, err := member(ctx, tx, orgID, memberID)
		if err != nil {
			return err
		}
		action := "member.left"
		if memberID != actorID {
			action = "member.removed"
			if !actor.manages(m.Role) {
				return forbidden("Only an owner can remove owners and admins. Only an owner or an admin can remove members.")
			}
		}
		if err := requireAnotherOwner(ctx, tx, orgID, m); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2`, orgID, memberID)
		if err != nil {
			return fmt.Errorf("remove a member: %w", err)
		}
		if err := s.revokeUnauthorizedInvitations(ctx, tx, orgID, memberID, ""); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, action, memberID.String(), map[string]any{"role": m.Role})
	})
}

func member(ctx context.Context, tx *sqlx.Tx, orgID, userID uuid.UUID) (Membership, error) {
	var m Membership
	err := tx.GetContext(ctx, &m,
		`SELECT u.id, u.email, u.name, m.role, m.created_at`+membersSQL+` AND m.user_id = $2`, orgID, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return Membership{}, fault.Missing("member")
	}
	if err != nil {
		return Membership{}, fmt.Errorf("find a member: %w", err)
	}
	return m, nil
}

// requireAnotherOwner returns Conflict if the organization would lose its last
// owner.
func requireAnotherOwner(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, leaving Membership) error {
	if leaving.Role != Owner {
		return nil
	}
	var owners int
	err := tx.GetContext(ctx, &owners,
		`SELECT count(*) FROM memberships WHERE organization_id = $1 AND role = $2`, orgID, Owner)
	if err != nil {
		return fmt.Errorf("count the owners: %w", err)
	}
	if owners == 1 {
		return fault.New(fault.Conflict, "The organization needs an owner. Make another member an owner first.")
	}
	return nil
}
