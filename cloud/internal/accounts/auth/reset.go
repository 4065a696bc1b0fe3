package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/shared/fault"
)

// RequestReset mails a link to set a new password. For an unknown address or a
// disabled account it does the same work and rolls it back, so that neither the
// answer nor its timing reveals which addresses have accounts.
func (s *Service) RequestReset(ctx context.Context, client Client, email string) error {
	email = emails.Normal(email)
	return s.attempts.countAlways(ctx, []limitKey{mailsByEmail(email), mailsByClient(client)}, func(tx *sqlx.Tx) (refusal, err error) {
		id, exists := uuid.New(), true
		err = tx.GetContext(ctx, &id, `SELECT id FROM users WHERE email = $1 AND disabled_at IS NULL`, email)
		if errors.Is(err, sql.ErrNoRows) {
			exists, err = false, nil
		}
		if err != nil {
			return nil, fmt.Errorf("find a user: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `SAVEPOINT mailed`); err != nil {
			return nil, fmt.Errorf("begin a savepoint for the reset mail: %w", err)
		}
		if err := s.mailToken(ctx, tx, id, email, reset); err != nil {
			return nil, err
		}
		end := `RELEASE SAVEPOINT mailed`
		if !exists {
			end = `ROLLBACK TO SAVEPOINT mailed`
		}
		if _, err := tx.ExecContext(ctx, end); err != nil {
			return nil, fmt.Errorf("release the savepoint of the reset mail: %w", err)
		}
		return nil, nil
	})
}

// ResetPassword sets a new password with the token of a mail. It ends all
// sessions of the user, revokes the access tokens, invalidates the tokens of other
// mails, resets the count of failed sign-ins and verifies the address that received the mail. The
// client's network becomes a known network. Returns Validation for an invalid
// token or a weak password; a weak password does not use up the token.
func (s *Service) ResetPassword(ctx context.Context, client Client, token, password string) error {
	counted := []limitKey{failuresByClient(client)}
	return s.withNetworkLock(ctx, client, counted, func() error {
		hash := "" // empty for an invalid token
		if u, is, err := s.findByToken(ctx, token, reset); err != nil {
			return err
		} else if is {
			if reason := passwordWeakness(password, u.Email, u.Name); reason != "" {
				return fault.Field("password", reason)
			}
			if hash, err = s.passwords.hash(ctx, password); err != nil {
				return err
			}
		}
		return s.attempts.countFailures(ctx, counted, func(tx *sqlx.Tx) (refusal, err error) {
			if hash == "" {
				return errInvalidToken(), nil
			}
			return s.reset(ctx, tx, client, token, hash)
		})
	})
}

// reset sets the password hash with a token, which is used up.
func (s *Service) reset(ctx context.Context, tx *sqlx.Tx, client Client, token, hash string) (refusal, err error) {
	u, mailed, refusal, err := s.redeem(ctx, tx, token, reset)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if err := s.replaceCredentials(ctx, tx, u.ID, hash, uuid.Nil); err != nil {
		return nil, err
	}
	if mailed {
		if err := s.markVerified(ctx, tx, u.ID); err != nil {
			return nil, err
		}
	}
	if err := deleteCount(ctx, tx, failuresByEmail(u.Email)); err != nil {
		return nil, err
	}
	if err := s.attempts.addKnownNetwork(ctx, tx, u.Email, client); err != nil {
		return nil, err
	}
	return nil, s.mailPasswordChanged(ctx, tx, u.Email)
}

// ChangePassword changes the caller's password, ends the caller's other sessions and
// revokes the access tokens. Returns Validation for a wrong current password, RateLimited after
// too many in one session or from one client, and Conflict if the account has no
// password (which a reset sets). Failed sign-ins do not count, so that others
// cannot block the change.
func (s *Service) ChangePassword(ctx context.Context, client Client, caller Caller, current, password string) error {
	var a account
	err := s.db.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users WHERE id = $1`, caller.UserID)
	if errors.Is(err, sql.ErrNoRows) {
		return errInvalidSession()
	}
	if err != nil {
		return fmt.Errorf("find a user: %w", err)
	}
	if a.PasswordHash == "" {
		return fault.New(fault.Conflict, "The account has no password. Request a password reset to set one.")
	}
	if reason := passwordWeakness(password, a.Email, a.Name); reason != "" {
		return fault.Field("newPassword", reason)
	}
	counted := []limitKey{failuresBySession(caller.SessionID), failuresByClient(client)}
	return s.withNetworkLock(ctx, client, counted, func() error {
		hash, err := s.passwords.hash(ctx, password) // hashed first, so that a correct password takes no longer than a wrong one
		if err != nil {
			return err
		}
		match, err := s.passwords.matches(ctx, current, a.PasswordHash)
		if err != nil {
			return err
		}
		return s.attempts.countFailures(ctx, counted, func(tx *sqlx.Tx) (refusal, err error) {
			if !match {
				return errWrongCurrentPassword(), nil
			}
			return s.change(ctx, tx, caller, a, hash)
		})
	})
}

// change sets the password hash if the account's password is still the one that
// was read.
func (s *Service) change(ctx context.Context, tx *sqlx.Tx, caller Caller, a account, hash string) (refusal, err error) {
	if still, err := credentialsUnchanged(ctx, tx, a); err != nil || !still {
		return errWrongCurrentPassword(), err
	}
	if err := s.replaceCredentials(ctx, tx, a.ID, hash, caller.SessionID); err != nil {
		return nil, err
	}
	for _, counted := range []limitKey{failuresByEmail(a.Email), failuresBySession(caller.SessionID)} {
		if err := deleteCount(ctx, tx, counted); err != nil {
			return nil, err
		}
	}
	return nil, s.mailPasswordChanged(ctx, tx, a.Email)
}

func errWrongCurrentPassword() error { return fault.Field("currentPassword", "is wrong") }

// credentialsUnchanged locks the account and reports whether its password is
// still the one that was read.
func credentialsUnchanged(ctx context.Context, tx *sqlx.Tx, a account) (bool, error) {
	var version int
	err := tx.GetContext(ctx, &version, `SELECT credential_version FROM users WHERE id = $1 FOR NO KEY UPDATE`, a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock a user: %w", err)
	}
	return version == a.CredentialVersion, nil
}
