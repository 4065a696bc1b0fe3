package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// NewUser is what an account is made of.
type NewUser struct {
	Email    string // in any case
	Password string
	Name     string
}

// SignUp makes an account, mails a link to verify its address, and signs it in.
// An address that has an account is a Conflict; too many from one client are
// RateLimited.
func (s *Service) SignUp(ctx context.Context, client Client, n NewUser) (Session, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Session{}, fmt.Errorf("make a user id: %w", err)
	}
	u := User{ID: id, Email: normal(n.Email), Name: n.Name, CreatedAt: s.clock.Now()}
	counted := []subject{signUpsBy(client)}
	err = s.inTurn(ctx, client, counted, func() error {
		hash, err := s.passwords.hash(ctx, n.Password)
		if err != nil {
			return err
		}
		return s.attempts.spend(ctx, counted, func(tx *sqlx.Tx) (refusal, err error) {
			taken, err := insertUser(ctx, tx, u, sql.NullString{String: hash, Valid: true})
			if err != nil {
				return nil, err
			}
			if taken {
				return fault.New(fault.Conflict, "There is an account with this e-mail address already."), nil
			}
			return nil, s.mailToken(ctx, tx, u.ID, u.Email, verification)
		})
	})
	if err != nil {
		return Session{}, err
	}
	return s.begin(ctx, client, account{User: u}, uuid.Nil)
}

// insertUser reports whether the address has an account already.
func insertUser(ctx context.Context, tx *sqlx.Tx, u User, hash sql.NullString) (taken bool, err error) {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO users (id, email, name, password_hash, email_verified_at, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (email) DO NOTHING`, u.ID, u.Email, u.Name, hash, u.EmailVerifiedAt, u.CreatedAt)
	if err != nil {
		return false, fmt.Errorf("make a user: %w", err)
	}
	inserted, err := result.RowsAffected()
	return inserted == 0, err
}

// account is a user with what signing in needs.
type account struct {
	User
	PasswordHash      string        `db:"password_hash"` // empty for none
	CredentialVersion int           `db:"credential_version"`
	LastOrgID         uuid.NullUUID `db:"last_organization_id"`
}

// accountColumns are what an account is read from.
const accountColumns = userColumns + `, coalesce(password_hash, '') AS password_hash, credential_version, last_organization_id`

// SignIn checks a password and begins a session. The last active organization,
// or the only one, is active again. An unknown address and a wrong password are
// the same Unauthenticated error, after the same work. After too many failures
// the answer is RateLimited, also to the right password: else the pause would
// only hide from an attacker which attempts failed, not which one is right. Only
// in a network from which the user has signed in before (see homeOf) it opens
// nevertheless, in the tries that are free there.
func (s *Service) SignIn(ctx context.Context, client Client, email, password string) (Session, error) {
	var a account
	err := s.inTurn(ctx, client, []subject{failuresFrom(client)}, func() error {
		err := s.db.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users WHERE email = $1`, normal(email))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("find a user: %w", err)
		}
		match, err := s.passwords.matches(ctx, password, a.PasswordHash)
		if err != nil {
			return err
		}
		return s.attempts.guess(ctx, client, email, match)
	})
	if err != nil {
		return Session{}, err
	}
	return s.beginAtHome(ctx, client, a)
}

func errWrongPassword() error {
	return fault.New(fault.Unauthenticated, "The e-mail address or the password is wrong.")
}

// beginAtHome begins a session where the user worked last.
func (s *Service) beginAtHome(ctx context.Context, client Client, a account) (Session, error) {
	active, err := s.home(ctx, a.ID, a.LastOrgID.UUID)
	if err != nil {
		return Session{}, err
	}
	return s.begin(ctx, client, a, active)
}

// home is the organization that a new session works in.
func (s *Service) home(ctx context.Context, userID, last uuid.UUID) (uuid.UUID, error) {
	all, err := s.memberships.Organizations(ctx, userID)
	if err != nil {
		return uuid.Nil, err
	}
	switch {
	case slices.Contains(all, last):
		return last, nil
	case len(all) == 1:
		return all[0], nil
	default:
		return uuid.Nil, nil
	}
}

// begin begins a session, unless the credentials that it was asked for with
// have been replaced meanwhile. The client's network is a home of the user from
// then on.
func (s *Service) begin(ctx context.Context, client Client, a account, active uuid.UUID) (Session, error) {
	token, expires, err := s.sessions.begin(ctx, beginning{
		userID: a.ID, credentialVersion: a.CredentialVersion, client: client, at: s.clock.Now(),
	}, active)
	if errors.Is(err, errReplaced) {
		return Session{}, errWrongPassword()
	}
	if err == nil {
		err = s.attempts.settle(ctx, s.db, a.Email, client)
	}
	if err != nil {
		return Session{}, err
	}
	return Session{Token: token, ExpiresAt: expires, User: a.User, ActiveOrgID: active}, nil
}

// SignOut ends the session with this token; one that is over already is no
// error.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.sessions.end(ctx, token)
}

// replaceCredentials sets a password, ends the user's sessions but that one,
// and makes sign-ins that are under way fail. The user's row is locked first:
// a session that is being begun waits for it, and then is refused.
func replaceCredentials(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, hash string, keep uuid.UUID) error {
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{`UPDATE users SET password_hash = $2, credential_version = credential_version + 1 WHERE id = $1`, []any{userID, hash}},
		{`DELETE FROM auth_sessions WHERE user_id = $1 AND id <> $2`, []any{userID, keep}},
		{`DELETE FROM auth_tokens WHERE user_id = $1 AND purpose = $2`, []any{userID, reset.name}},
	} {
		if _, err := tx.ExecContext(ctx, step.statement, step.args...); err != nil {
			return fmt.Errorf("replace a password: %w", err)
		}
	}
	return nil
}
