package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Accept makes the user a member with the role of the invitation that has this
// token, and returns the organization. Returns Forbidden unless the user's
// verified address is the invited one, NotFound for an unknown token, and
// Conflict if the invitation was accepted, revoked or has expired, or if the user
// is already a member. The member limit is checked again (Forbidden).
func (s *Service) Accept(ctx context.Context, userID uuid.UUID, token string) (Organization, error) {
	var invitation struct {
		OrgID uuid.UUID `db:"organization_id"`
		Email string    `db:"email"`
	}
	err := s.System.GetContext(ctx, &invitation, `SELECT organization_id, email FROM invitations WHERE token_hash = $1`, secret.Hash(token))
	if errors.Is(err, sql.ErrNoRows) {
		return Organization{}, fault.Missing("invitation")
	}
	if err != nil {
		return Organization{}, fmt.Errorf("find an invitation: %w", err)
	}
	email, verified, err := s.Users.Address(ctx, userID)
	switch {
	case err != nil:
		return Organization{}, fmt.Errorf("find the address of a user: %w", err)
	case emails.Normal(email) != invitation.Email:
		return Organization{}, forbidden("The invitation is for another e-mail address. Sign in with the account that has it.")
	case !verified && !s.WithoutMail:
		return Organization{}, forbidden("Verify your e-mail address first, then accept the invitation.")
	}
	var joined Organization
	err = pg.InOrg(ctx, s.DB, invitation.OrgID, func(tx *sqlx.Tx) (err error) {
		joined, err = s.acceptInvitation(ctx, tx, invitation.OrgID, userID, token)
		return err
	})
	return joined, err
}

func (s *Service) acceptInvitation(ctx context.Context, tx *sqlx.Tx, orgID, userID uuid.UUID, token string) (Organization, error) {
	if err := lock(ctx, tx, orgID); err != nil {
		return Organization{}, err
	}
	i, err := s.findOpenInvitation(ctx, tx, orgID, token)
	if err != nil {
		return Organization{}, err
	}
	if err := requireNotMember(ctx, tx, orgID, userID); err != nil {
		return Organization{}, err
	}
	if err := s.checkMemberLimit(ctx, tx, orgID, `SELECT count(*) FROM memberships WHERE organization_id = $1`); err != nil {
		return Organization{}, err
	}
	now := s.Clock.Now()
	_, err = tx.ExecContext(ctx,
		`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`, orgID, userID, i.Role, now)
	if err != nil {
		return Organization{}, fmt.Errorf("create a membership: %w", err)
	}
	if err := endInvitation(ctx, tx, orgID, i.ID, "accepted", now); err != nil {
		return Organization{}, err
	}
	err = s.Audit.Record(ctx, tx, orgID, "member.joined", userID.String(), map[string]any{"role": i.Role, "invitation": i.ID})
	if err != nil {
		return Organization{}, err
	}
	return find(ctx, tx, userID, orgID)
}

func requireNotMember(ctx context.Context, tx *sqlx.Tx, orgID, userID uuid.UUID) error {
	var isMember bool
	err := tx.GetContext(ctx, &isMember,
		`SELECT EXISTS (SELECT FROM memberships WHERE organization_id = $1 AND user_id = $2)`, orgID, userID)
	if err != nil {
		return fmt.Errorf("find a membership: %w", err)
	}
	if isMember {
		return fault.New(fault.Conflict, "You are already a member of the organization.")
	}
	return nil
}

// findOpenInvitation returns the invitation with this token, or a Conflict with
// the reason why it is no longer open.
func (s *Service) findOpenInvitation(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, token string) (Invitation, error) {
	var i struct {
		Invitation
		Outcome sql.NullString `db:"outcome"`
	}
	err := tx.GetContext(ctx, &i, `
		SELECT id, email, role, invited_by, created_at, expires_at, outcome
		FROM invitations WHERE organization_id = $1 AND token_hash = $2`, orgID, secret.Hash(token))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Invitation{}, fault.Missing("invitation")
	case err != nil:
		return Invitation{}, fmt.Errorf("read an invitation: %w", err)
	case i.Outcome.String == "accepted":
		return Invitation{}, fault.New(fault.Conflict, "The invitation has already been accepted.")
	case i.Outcome.String == "revoked":
		return Invitation{}, fault.New(fault.Conflict, "The invitation was revoked.")
	case i.Outcome.Valid || !i.ExpiresAt.After(s.Clock.Now()):
		return Invitation{}, fault.New(fault.Conflict, "The invitation has expired. Ask for a new one.")
	default:
		return i.Invitation, nil
	}
}

// openInvitationSQL is the condition of an invitation that can be accepted at $1.
const openInvitationSQL = `SELECT EXISTS (SELECT FROM invitations WHERE outcome IS NULL AND expires_at > $1 AND email = $2`

// HasInvitation reports whether the address has an invitation, to any
// organization, that can be accepted.
func (s *Service) HasInvitation(ctx context.Context, email string) (bool, error) {
	return s.invited(ctx, openInvitationSQL+`)`, s.Clock.Now(), emails.Normal(email))
}

// IsInvitation reports whether the token is that of an invitation of the address
// that can be accepted.
func (s *Service) IsInvitation(ctx context.Context, token, email string) (bool, error) {
	return s.invited(ctx, openInvitationSQL+` AND token_hash = $3)`, s.Clock.Now(), emails.Normal(email), secret.Hash(token))
}

func (s *Service) invited(ctx context.Context, query string, args ...any) (is bool, err error) {
	if err := s.System.GetContext(ctx, &is, query, args...); err != nil {
		return false, fmt.Errorf("find an invitation: %w", err)
	}
	return is, nil
}
