package org

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// checkOrganizationLimit refuses a user who may not create another organization. It
// blocks the user's other attempts until tx ends, so that each sees the organizations
// that previous attempts committed. The pool of tx sees only one organization, so
// another pool counts the others: with a second connection of the same pool, all
// connections could wait for each other.
func (s *Service) checkOrganizationLimit(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, verified bool) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('organizations of ' || $1, 0))`, userID.String())
	if err != nil {
		return fmt.Errorf("lock the organizations of a user: %w", err)
	}
	var ids []uuid.UUID
	if err := s.System.SelectContext(ctx, &ids, `SELECT id FROM organizations WHERE created_by = $1`, userID); err != nil {
		return fmt.Errorf("list the organizations that a user created: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	if !verified {
		return errLimitReached("Verify your e-mail address before you create another organization.", "email", "is not verified", len(ids), 1)
	}
	if s.MaxFree == 0 {
		return nil
	}
	free, err := s.Limits.CountFree(ctx, s.System, ids)
	if err != nil || free < s.MaxFree {
		return err
	}
	return errLimitReached("You have reached the maximum number of free organizations. Change the plan of one of them or delete one first.",
		"freeOrganizations", "the limit is reached", free, s.MaxFree)
}

func errLimitReached(message, field, what string, current, limit int) error {
	return fault.New(fault.Forbidden, message, fault.Detail{
		Field: field, Code: fault.Custom, Message: what, Constraint: map[string]any{"current": current, "limit": limit},
	})
}
