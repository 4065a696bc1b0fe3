package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// VerifyEmail verifies the address of the user who received this token. Returns
// Validation for an invalid token.
func (s *Service) VerifyEmail(ctx context.Context, client Client, token string) error {
	return s.attempts.countFailures(ctx, []limitKey{failuresByClient(client)}, func(tx *sqlx.Tx) (refusal, err error) {
		u, _, refusal, err := s.redeem(ctx, tx, token, verification)
		if refusal != nil || err != nil {
			return refusal, err
		}
		return nil, s.markVerified(ctx, tx, u.ID)
	})
}

// markVerified marks the user's address as verified.
func (s *Service) markVerified(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID) error {
	_, err := tx.ExecContext(ctx,
		`UPDATE users SET email_verified_at = $2 WHERE id = $1 AND email_verified_at IS NULL`, userID, s.clock.Now())
	if err != nil {
		return fmt.Errorf("verify an address: %w", err)
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM auth_tokens WHERE user_id = $1 AND purpose = $2`, userID, verification.name)
	if err != nil {
		return fmt.Errorf("remove the tokens of an address: %w", err)
	}
	return nil
}

// SendVerification mails another verification link. Earlier tokens stay valid.
// Returns Conflict if the address is already verified.
func (s *Service) SendVerification(ctx context.Context, client Client, userID uuid.UUID) error {
	u, err := s.user(ctx, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return errInvalidSession()
	}
	if err != nil {
		return err
	}
	if u.EmailVerifiedAt != nil {
		return fault.New(fault.Conflict, "The e-mail address is already verified.")
	}
	return s.attempts.countAlways(ctx, []limitKey{mailsByEmail(u.Email), mailsByClient(client)}, func(tx *sqlx.Tx) (refusal, err error) {
		return nil, s.mailToken(ctx, tx, u.ID, u.Email, verification)
	})
}
