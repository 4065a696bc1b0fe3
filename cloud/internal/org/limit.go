package org

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// checkOrganizationLimit refuses a user who may not make another organization. It holds off
// the user's other attempts until tx ends, so that each sees what those before
// have committed. The pool of tx sees one organization only: the others are
// counted by another one, which nobody holds while they wait for a lock here. A
// second connection of the first pool could be waited for forever.
func (s *Service) checkOrganizationLimit(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, verified bool) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('organizations of ' || $1, 0))`, userID.String())
	if err != nil {
		return fmt.Errorf("lock the organizations of a user: %w", err)
	}
	var made []uuid.UUID
	if err := s.System.SelectContext(ctx, &made, `SELECT id FROM organizations WHERE created_by = $1`, userID); err != nil {
		return fmt.Errorf("list the organizations that a user created: %w", err)
	}
	if len(made) == 0 {
		return nil
	}
	if !verified {
		return errLimitReached("Verify your e-mail address before you make another organization.", "email", "is not verified", len(made), 1)
	}
	if s.MaxFree == 0 {
		return nil
	}
	free, err := s.Limits.CountFree(ctx, s.System, made)
	if err != nil || free < s.MaxFree {
		return err
	}
	return errLimitReached("You have made all the free organizations that a user may. Change the plan of one, or delete one, first.",
		"freeOrganizations", "the limit is reached", free, s.MaxFree)
}

func errLimitReached(message, field, what string, current, limit int) error {
	return fault.New(fault.Forbidden, message, fault.Detail{
		Field: field, Code: fault.Custom, Message: what, Constraint: map[string]any{"current": current, "limit": limit},
	})
}
