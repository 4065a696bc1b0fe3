package org

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

const invitationLifetime = 7 * 24 * time.Hour

// Invitation is an invitation of an address to become a member. Its token is mailed; it
// is not stored.
type Invitation struct {
	ID        uuid.UUID     `db:"id"`
	Email     string        `db:"email"` // lowercase
	Role      Role          `db:"role"`
	InvitedBy uuid.NullUUID `db:"invited_by"`
	CreatedAt time.Time     `db:"created_at"`
	ExpiresAt time.Time     `db:"expires_at"`
	// AcceptURL is the link with the token; only in the result of Invite without mail.
	AcceptURL string `db:"-"`
}

// NewInvitation is the input of Invite.
type NewInvitation struct {
	Email string // in any letter case
	Role  Role
}

// Invite creates an invitation that is valid once and for seven days, and mails it. If the
// service sends no mail, the result has the link. A service account has the zero actorID.
// Only owners may invite owners and admins (Forbidden). Returns Conflict if the address belongs to a
// member or has an open invitation, and Forbidden with both numbers at the memberLimit,
// which counts members and open invitations (specification 7.3.2). The result and the
// work do not depend on whether the address has an account. Returns RateLimited after
// too many invitations, because the inviter chooses the recipient of the mail.
func (s *Service) Invite(ctx context.Context, orgID, actorID uuid.UUID, n NewInvitation) (Invitation, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Invitation{}, fmt.Errorf("generate an invitation ID: %w", err)
	}
	now := s.Clock.Now()
	i := Invitation{
		ID: id, Email: emails.Normal(n.Email), Role: n.Role, InvitedBy: uuid.NullUUID{UUID: actorID, Valid: actorID != uuid.Nil},
		CreatedAt: now, ExpiresAt: now.Add(invitationLifetime),
	}
	inviter := actorID
	if actorID == uuid.Nil {
		inviter = serviceAccount(ctx).ID
	}
	token := secret.NewToken()
	link := s.PublicURL.JoinPath("account/accept-invitation")
	link.Fragment = "token=" + token // browsers do not send the fragment to servers
	if s.WithoutMail {
		i.AcceptURL = link.String()
	}
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		actor, err := lockForMember(ctx, tx, orgID, actorID)
		if err != nil {
			return err
		}
		if !actor.manages(i.Role) {
			return forbidden("Only an owner can invite owners and admins. Only an owner or an admin can invite members.")
		}
		if err := expire(ctx, tx, orgID, now); err != nil {
			return err
		}
		if err := requireNotInvited(ctx, tx, orgID, i.Email); err != nil {
			return err
		}
		if err := s.checkMemberLimit(ctx, tx, orgID, `
			SELECT (SELECT count(*) FROM memberships WHERE organization_id = $1)
			     + (SELECT count(*) FROM invitations WHERE organization_id = $1 AND outcome IS NULL)`); err != nil {
			return err
		}
		if err := s.Users.SpendInvitation(ctx, tx, orgID, inviter, i.Email); err != nil {
			return err
		}
		if err := i.insert(ctx, tx, orgID, token); err != nil {
			return err
		}
		if err := s.mail(ctx, tx, orgID, i, link); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, "invitation.created", i.ID.String(), map[string]any{"email": i.Email, "role": i.Role})
	})
	if err != nil {
		return Invitation{}, err
	}
	return i, nil
}

func (i Invitation) insert(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, token string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO invitations (id, organization_id, email, role, token_hash, invited_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		i.ID, orgID, i.Email, i.Role, secret.Hash(token), i.InvitedBy, i.CreatedAt, i.ExpiresAt)
	if err != nil {
		return fmt.Errorf("create an invitation: %w", err)
	}
	return nil
}

// expire ends expired invitations, so that they no longer count toward the limit.
func expire(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE invitations SET outcome = 'expired', ended_at = expires_at
		WHERE organization_id = $1 AND outcome IS NULL AND expires_at <= $2`, orgID, now)
	if err != nil {
		return fmt.Errorf("expire invitations: %w", err)
	}
	return nil
}

// requireNotInvited returns Conflict if the address is a member's or already
// invited. This reveals nothing: everyone who may invite sees both lists.
func requireNotInvited(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, email string) error {
	var status struct {
		Member  bool `db:"member"`
		Invited bool `db:"invited"`
	}
	err := tx.GetContext(ctx, &status, `
		SELECT EXISTS (SELECT `+membersSQL+` AND u.email = $2) AS member,
		       EXISTS (SELECT FROM invitations WHERE organization_id = $1 AND email = $2 AND outcome IS NULL) AS invited`,
		orgID, email)
	switch {
	case err != nil:
		return fmt.Errorf("find an address: %w", err)
	case status.Member:
		return fault.New(fault.Conflict, "A member of the organization has this address.")
	case status.Invited:
		return fault.New(fault.Conflict, "This address already has an open invitation. Revoke it before you send another.")
	default:
		return nil
	}
}

// checkMemberLimit returns Forbidden if the count has reached the member limit.
// It locks first, so that the count includes what earlier transactions have
// committed (specification 8).
func (s *Service) checkMemberLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, count string) error {
	limit, err := s.Limits.LockMemberLimit(ctx, tx, orgID)
	if err != nil || limit == nil {
		return err
	}
	var current int
	if err := tx.GetContext(ctx, &current, count, orgID); err != nil {
		return fmt.Errorf("count the members: %w", err)
	}
	if current < *limit {
		return nil
	}
	return fault.New(fault.Forbidden, "The organization has reached the member limit of its plan.", fault.Detail{
		Field: "memberLimit", Code: fault.Custom, Message: "the limit is reached",
		Constraint: map[string]any{"current": current, "limit": *limit},
	})
}

// invitationOrder maps sort keys to columns.
var invitationOrder = map[string]string{"createdAt": "created_at", "expiresAt": "expires_at", "email": "email"}

// Invitations returns a page of the organization's live invitations. It sorts by
// createdAt, expiresAt or email.
func (s *Service) Invitations(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[Invitation], error) {
	const fromClause = ` FROM invitations WHERE organization_id = $1 AND outcome IS NULL AND expires_at > $2`
	result, now := page.Page[Invitation]{Request: r, Items: []Invitation{}}, s.Clock.Now()
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+fromClause, orgID, now); err != nil {
			return fmt.Errorf("count the invitations: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, `SELECT id, email, role, invited_by, created_at, expires_at`+
			fromClause+r.OrderBy(invitationOrder)+` LIMIT $3 OFFSET $4`, orgID, now, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the invitations: %w", err)
		}
		return nil
	})
	return result, err
}
