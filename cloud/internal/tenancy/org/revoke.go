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
	"github.com/browser-svc/svc/shared/fault"
)

// endedRetention is how long ended invitations are kept to explain why they are
// invalid.
const endedRetention = 90 * 24 * time.Hour

// RevokeInvitation revokes an open invitation. Only an owner may revoke an
// invitation of an owner or admin (Forbidden). Returns NotFound if it does not
// exist or is no longer open.
func (s *Service) RevokeInvitation(ctx context.Context, orgID, actorID, id uuid.UUID) error {
	now := s.Clock.Now()
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		actor, err := lockForMember(ctx, tx, orgID, actorID)
		if err != nil {
			return err
		}
		var i Invitation
		err = tx.GetContext(ctx, &i, `
			SELECT id, email, role FROM invitations
			WHERE organization_id = $1 AND id = $2 AND outcome IS NULL AND expires_at > $3`, orgID, id, now)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("invitation")
		}
		if err != nil {
			return fmt.Errorf("find an invitation: %w", err)
		}
		if !actor.manages(i.Role) {
			return forbidden("Only an owner can revoke the invitation of an owner or an admin.")
		}
		if err := endInvitation(ctx, tx, orgID, id, "revoked", now); err != nil {
			return err
		}
		return s.recordRevoked(ctx, tx, orgID, i)
	})
}

// endInvitation closes an open invitation.
func endInvitation(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID, outcome string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE invitations SET outcome = $3, ended_at = $4
		WHERE organization_id = $1 AND id = $2 AND outcome IS NULL`, orgID, id, outcome, now)
	if err != nil {
		return fmt.Errorf("end an invitation: %w", err)
	}
	return nil
}

// revokeUnauthorizedInvitations revokes the user's open invitations that the
// given role could not create ("" is no role). Otherwise a removed member could
// invite themselves again.
func (s *Service) revokeUnauthorizedInvitations(ctx context.Context, tx *sqlx.Tx, orgID, userID uuid.UUID, role Role) error {
	var open []Invitation
	err := tx.SelectContext(ctx, &open, `
		SELECT id, email, role FROM invitations
		WHERE organization_id = $1 AND invited_by = $2 AND outcome IS NULL`, orgID, userID)
	if err != nil {
		return fmt.Errorf("find the invitations of a member: %w", err)
	}
	for _, i := range open {
		if role.manages(i.Role) {
			continue
		}
		if err := endInvitation(ctx, tx, orgID, i.ID, "revoked", s.Clock.Now()); err != nil {
			return err
		}
		if err := s.recordRevoked(ctx, tx, orgID, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) recordRevoked(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, i Invitation) error {
	return s.Audit.Record(ctx, tx, orgID, "invitation.revoked", i.ID.String(), map[string]any{"email": i.Email, "role": i.Role})
}

// SweepInvitations deletes invitations that ended more than 90 days ago, and
// returns how many.
func (s *Service) SweepInvitations(ctx context.Context) (int64, error) {
	result, err := s.System.ExecContext(ctx,
		`DELETE FROM invitations WHERE coalesce(ended_at, expires_at) <= $1`, s.Clock.Now().Add(-endedRetention))
	if err != nil {
		return 0, fmt.Errorf("delete old invitations: %w", err)
	}
	return result.RowsAffected()
}
