package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// signInLink is the purpose of the tokens of sign-in links. They are not mailed.
var signInLink = purpose{name: "signIn", path: "sign-in/link", life: 5 * time.Minute}

// SignInLink is a link that signs a user in once.
type SignInLink struct {
	URL       string // contains the token; never logged
	ExpiresAt time.Time
}

// CreateSignInLink creates a link to the dashboard that signs the user in once.
// Earlier links stay valid. Returns RateLimited after too many links.
func (s *Service) CreateSignInLink(ctx context.Context, userID uuid.UUID) (SignInLink, error) {
	link := SignInLink{ExpiresAt: s.clock.Now().Add(signInLink.life)}
	err := s.attempts.countAlways(ctx, []limitKey{signInLinksByUser(userID)}, func(tx *sqlx.Tx) (refusal, err error) {
		link.URL, err = s.newLink(ctx, tx, userID, signInLink, false)
		return nil, err
	})
	if err != nil {
		return SignInLink{}, err
	}
	return link, nil
}

// SignInWithLink begins a session with the token of a sign-in link, which is used
// up. The active organization is that of SignIn. Returns Unauthenticated for an
// invalid token and RateLimited after too many of them, like SignIn.
func (s *Service) SignInWithLink(ctx context.Context, client Client, token string) (Session, error) {
	var a account
	err := s.attempts.countFailures(ctx, []limitKey{failuresByClient(client)}, func(tx *sqlx.Tx) (refusal, err error) {
		u, _, refusal, err := s.redeem(ctx, tx, token, signInLink)
		if err != nil {
			return nil, err
		}
		if refusal != nil {
			return errInvalidLink(), nil
		}
		a, err = lockedAccount(ctx, tx, u.ID)
		return nil, err
	})
	if err != nil {
		return Session{}, err
	}
	if a.DisabledAt != nil {
		return Session{}, errDisabled()
	}
	return s.beginKnown(ctx, client, a)
}

// lockedAccount returns the account of a user whose row the transaction holds.
func lockedAccount(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID) (account, error) {
	var a account
	if err := tx.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users WHERE id = $1`, userID); err != nil {
		return account{}, fmt.Errorf("find a user: %w", err)
	}
	return a, nil
}

func errInvalidLink() error {
	return fault.New(fault.Unauthenticated, "The sign-in link is invalid, has already been used or has expired. Create another one or sign in otherwise.")
}

// UpdateUser changes the display name of a user, unless it is nil, and returns the
// user.
func (s *Service) UpdateUser(ctx context.Context, userID uuid.UUID, name *string) (User, error) {
	var u User
	err := s.db.GetContext(ctx, &u, `UPDATE users SET name = coalesce($2, name) WHERE id = $1 RETURNING `+userColumns, userID, name)
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, errInvalidSession()
	}
	if err != nil {
		return User{}, fmt.Errorf("update a user: %w", err)
	}
	return u, nil
}

// CurrentSignUpPolicy returns who may sign up now: SignUpOpen, SignUpInvite or
// SignUpClosed.
func (s *Service) CurrentSignUpPolicy(ctx context.Context) (SignUpPolicy, error) {
	if s.SignUpPolicy != SignUpFirst {
		return s.SignUpPolicy, nil
	}
	refusal, err := s.checkSignUpPolicy(ctx, s.db, false)
	if err != nil {
		return "", err
	}
	if refusal != nil {
		return SignUpInvite, nil
	}
	return SignUpOpen, nil
}
