package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/shared/fault"
)

// account is a user with the fields needed to sign in.
type account struct {
	User
	PasswordHash      string        `db:"password_hash"` // empty for none
	CredentialVersion int           `db:"credential_version"`
	LastOrgID         uuid.NullUUID `db:"last_organization_id"`
	DisabledAt        *time.Time    `db:"disabled_at"` // nil if not disabled
}

// accountColumns are the columns of an account.
const accountColumns = userColumns + `, coalesce(password_hash, '') AS password_hash, credential_version, last_organization_id, disabled_at`

// SignIn checks a password and begins a session. The user's last active
// organization, or the only one, becomes active. An unknown address and a wrong
// password return the same Unauthenticated error after the same work. After too
// many failures SignIn returns RateLimited even for the correct password;
// otherwise an attacker could continue to guess during the pause. The exception
// is a known network (see knownNetwork) with free attempts left. The correct
// password of a disabled account returns Forbidden.
func (s *Service) SignIn(ctx context.Context, client Client, email, password string) (Session, error) {
	var a account
	err := s.withNetworkLock(ctx, client, []limitKey{failuresByClient(client)}, func() error {
		err := s.db.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users WHERE email = $1`, emails.Normal(email))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("find a user: %w", err)
		}
		match, err := s.passwords.matches(ctx, password, a.PasswordHash)
		if err != nil {
			return err
		}
		return s.attempts.checkPassword(ctx, client, email, match)
	})
	if err != nil {
		return Session{}, err
	}
	if a.DisabledAt != nil {
		return Session{}, errDisabled()
	}
	return s.beginKnown(ctx, client, a)
}

// errDisabled is returned only after successful authentication, so it reveals
// nothing to others.
func errDisabled() error {
	return fault.New(fault.Forbidden, "This account is disabled. Contact the operator of this service.")
}

func errWrongPassword() error {
	return fault.New(fault.Unauthenticated, "The e-mail address or the password is wrong.")
}

// beginKnown begins a session in the user's initial organization.
func (s *Service) beginKnown(ctx context.Context, client Client, a account) (Session, error) {
	active, err := s.initialOrganization(ctx, a.ID, a.LastOrgID.UUID)
	if err != nil {
		return Session{}, err
	}
	return s.begin(ctx, client, a, active)
}

// initialOrganization returns the active organization of a new session.
func (s *Service) initialOrganization(ctx context.Context, userID, last uuid.UUID) (uuid.UUID, error) {
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

// begin begins a session, unless the checked credentials have been replaced
// meanwhile. The client's network becomes a known network of the user.
func (s *Service) begin(ctx context.Context, client Client, a account, active uuid.UUID) (Session, error) {
	token, expires, err := s.sessions.begin(ctx, newSession{
		userID: a.ID, credentialVersion: a.CredentialVersion, client: client, createdAt: s.clock.Now(),
	}, active)
	if errors.Is(err, errCredentialsReplaced) {
		return Session{}, errWrongPassword()
	}
	if err == nil {
		err = s.attempts.addKnownNetwork(ctx, s.db, a.Email, client)
	}
	if err != nil {
		return Session{}, err
	}
	return Session{Token: token, ExpiresAt: expires, User: a.User, ActiveOrgID: active}, nil
}

// SignOut ends the session with this token. An ended session is not an error.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.sessions.end(ctx, token)
}

// replaceCredentials sets a password, ends the user's other sessions, revokes the access
// tokens and makes sign-ins in progress fail. The user's row is locked first: a session
// or a token that is being created waits for it and is then refused.
func (s *Service) replaceCredentials(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, hash string, keep uuid.UUID) error {
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{`UPDATE users SET password_hash = $2, credential_version = credential_version + 1 WHERE id = $1`, []any{userID, hash}},
		{`DELETE FROM auth_sessions WHERE user_id = $1 AND id <> $2`, []any{userID, keep}},
		{`DELETE FROM auth_tokens WHERE user_id = $1 AND purpose IN ($2, $3)`, []any{userID, reset.name, signInLink.name}},
	} {
		if _, err := tx.ExecContext(ctx, step.statement, step.args...); err != nil {
			return fmt.Errorf("replace a password: %w", err)
		}
	}
	ctx = WithCaller(ctx, Caller{UserID: userID}) // a reset has no caller, but the user's token
	return s.revokeAccessTokens(ctx, tx, s.Audit, userID, "passwordChanged")
}
