package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Role is what a member may do in an organization (specification 2.7).
type Role string

// The roles, highest first.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Member Role = "member"
)

// manages reports whether this role may grant, change or remove the other role: an
// owner any role, an admin only member.
func (r Role) manages(other Role) bool {
	return r == Owner || r == Admin && other == Member
}

type withoutOwnershipKey struct{}

// WithoutOwnership returns a context in which an owner has only the rights of an admin.
// An access token must not grant or remove the ownership of its organization.
func WithoutOwnership(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutOwnershipKey{}, true)
}

// ServiceAccount is a caller without a membership, who has the rights of an admin.
type ServiceAccount struct {
	ID   uuid.UUID
	Name string
}

type serviceAccountKey struct{}

// WithServiceAccount returns a context whose caller is this service account of the
// organization.
func WithServiceAccount(ctx context.Context, a ServiceAccount) context.Context {
	return context.WithValue(ctx, serviceAccountKey{}, a)
}

// serviceAccount returns the caller if it is a service account, or the zero value.
func serviceAccount(ctx context.Context) ServiceAccount {
	a, _ := ctx.Value(serviceAccountKey{}).(ServiceAccount)
	return a
}

// lockForMember locks the organization's row for a change of the organization or its
// members, so that each change sees the previous ones. It returns the user's current
// role, or NotFound if the user is no longer a member. For a service account it returns
// Admin.
//
// The lock does not block inserts of rows that refer to the organization, so launches
// continue.
func lockForMember(ctx context.Context, tx *sqlx.Tx, orgID, userID uuid.UUID) (Role, error) {
	if err := lock(ctx, tx, orgID); err != nil {
		return "", err
	}
	if serviceAccount(ctx).ID != uuid.Nil {
		return Admin, nil
	}
	var role Role
	err := tx.GetContext(ctx, &role,
		`SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2`, orgID, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.Missing("organization")
	}
	if err != nil {
		return "", fmt.Errorf("find the caller's membership: %w", err)
	}
	if role == Owner && ctx.Value(withoutOwnershipKey{}) != nil {
		return Admin, nil
	}
	return role, nil
}

func lock(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	var found bool
	err := tx.GetContext(ctx, &found, `SELECT true FROM organizations WHERE id = $1 FOR NO KEY UPDATE`, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.Missing("organization")
	}
	if err != nil {
		return fmt.Errorf("lock an organization: %w", err)
	}
	return nil
}

func forbidden(message string) error { return fault.New(fault.Forbidden, message) }
