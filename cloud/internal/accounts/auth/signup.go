package auth

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/shared/fault"
)

// SignUpPolicy says who may create an account, by password or through an OpenID
// provider.
type SignUpPolicy string

// The sign-up policies.
const (
	SignUpFirst  SignUpPolicy = ""       // anyone while there is no user, then as SignUpInvite
	SignUpOpen   SignUpPolicy = "open"   // anyone
	SignUpInvite SignUpPolicy = "invite" // users invited to an organization
	SignUpClosed SignUpPolicy = "closed" // nobody
)

// Invitations checks invitations to organizations that can still be accepted.
type Invitations interface {
	// HasInvitation reports whether the address has an invitation.
	HasInvitation(ctx context.Context, email string) (bool, error)
	// IsInvitation reports whether the token belongs to an invitation of the
	// address.
	IsInvitation(ctx context.Context, token, email string) (bool, error)
}

// NewUser is the input of SignUp.
type NewUser struct {
	Email      string // in any case
	Password   string
	Name       string
	Invitation string // the token of an invitation's mail; empty for none
}

// SignUp creates an account, mails a link to verify its address and signs the
// user in. Returns Forbidden if SignUpPolicy does not allow it. An invitation
// token of the address permits the sign-up and verifies the address, because the
// token was mailed to it (not WithoutMail); any other token is a Validation error, and so is a weak
// password. Returns Conflict if the address has an account, and RateLimited after
// too many accounts or wrong tokens from one client.
func (s *Service) SignUp(ctx context.Context, client Client, n NewUser) (Session, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Session{}, fmt.Errorf("generate a user ID: %w", err)
	}
	u := User{ID: id, Email: emails.Normal(n.Email), Name: n.Name, CreatedAt: s.clock.Now()}
	if refusal, err := s.checkSignUpPolicy(ctx, s.db, n.Invitation != ""); refusal != nil || err != nil {
		return Session{}, firstError(refusal, err)
	}
	if reason := passwordWeakness(n.Password, u.Email, u.Name); reason != "" {
		return Session{}, fault.Field("password", reason)
	}
	if n.Invitation != "" {
		err = s.signUpInvited(ctx, client, &u, n)
	} else {
		err = s.signUpUninvited(ctx, client, u, n)
	}
	if err != nil {
		return Session{}, err
	}
	return s.begin(ctx, client, account{User: u}, uuid.Nil)
}

// signUpUninvited creates the account of a user without an invitation.
func (s *Service) signUpUninvited(ctx context.Context, client Client, u User, n NewUser) error {
	counted := []limitKey{signUpsByClient(client)}
	return s.withNetworkLock(ctx, client, counted, func() error {
		hash, err := s.passwords.hash(ctx, n.Password)
		if err != nil {
			return err
		}
		return s.attempts.countAlways(ctx, counted, func(tx *sqlx.Tx) (refusal, err error) {
			if err := s.lockFirstUser(ctx, tx); err != nil {
				return nil, err
			}
			if refusal, err := s.checkSignUpPolicy(ctx, tx, false); refusal != nil || err != nil {
				return refusal, err
			}
			if refusal, err := createUser(ctx, tx, u, hash); refusal != nil || err != nil {
				return refusal, err
			}
			return nil, s.mailToken(ctx, tx, u.ID, u.Email, verification)
		})
	})
}

// signUpInvited creates the account of a user with an invitation token. Only
// wrong tokens are counted, because many invited users may share a network.
func (s *Service) signUpInvited(ctx context.Context, client Client, u *User, n NewUser) error {
	counted := []limitKey{failuresByClient(client)}
	return s.withNetworkLock(ctx, client, counted, func() error {
		invited, err := s.isInvitation(ctx, n.Invitation, u.Email)
		if err != nil {
			return err
		}
		hash := "" // empty for an invalid token
		if invited {
			if hash, err = s.passwords.hash(ctx, n.Password); err != nil {
				return err
			}
			if !s.WithoutMail {
				u.EmailVerifiedAt = &u.CreatedAt
			}
		}
		return s.attempts.countFailures(ctx, counted, func(tx *sqlx.Tx) (refusal, err error) {
			if !invited {
				return fault.Field("invitationToken", "is not the token of an open invitation for this e-mail address"), nil
			}
			return createUser(ctx, tx, *u, hash)
		})
	})
}

func (s *Service) isInvitation(ctx context.Context, token, email string) (bool, error) {
	if s.Invitations == nil {
		return false, nil
	}
	return s.Invitations.IsInvitation(ctx, token, email)
}

func (s *Service) hasInvitation(ctx context.Context, email string) (bool, error) {
	if s.Invitations == nil {
		return false, nil
	}
	return s.Invitations.HasInvitation(ctx, email)
}

// lockFirstUser serializes sign-ups while the first user does not exist and the
// policy depends on it.
func (s *Service) lockFirstUser(ctx context.Context, tx *sqlx.Tx) error {
	if s.SignUpPolicy != SignUpFirst {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('first user', 0))`); err != nil {
		return fmt.Errorf("lock the first user: %w", err)
	}
	return nil
}

// checkSignUpPolicy refuses users who may not create an account. Without the lock
// of lockFirstUser, the answer for uninvited users may be stale.
func (s *Service) checkSignUpPolicy(ctx context.Context, q sqlx.QueryerContext, invited bool) (refusal, err error) {
	switch {
	case s.SignUpPolicy == SignUpClosed:
		return fault.New(fault.Forbidden, "Sign-up is not open. Contact the operator of this service."), nil
	case invited || s.SignUpPolicy == SignUpOpen:
		return nil, nil
	case s.SignUpPolicy == SignUpFirst:
		var others bool
		if err := sqlx.GetContext(ctx, q, &others, `SELECT EXISTS (SELECT FROM users)`); err != nil {
			return nil, fmt.Errorf("find a user: %w", err)
		}
		if !others {
			return nil, nil
		}
	}
	return fault.New(fault.Forbidden,
		"Sign-up requires an invitation to an organization. Ask an owner or admin of the organization for an invitation, and sign up with the token in the invitation mail."), nil
}

func createUser(ctx context.Context, tx *sqlx.Tx, u User, hash string) (refusal, err error) {
	exists, err := insertUser(ctx, tx, u, sql.NullString{String: hash, Valid: true})
	if err != nil || !exists {
		return nil, err
	}
	return fault.New(fault.Conflict, "An account with this e-mail address already exists."), nil
}

// insertUser inserts a user and reports whether the address is already taken.
func insertUser(ctx context.Context, tx *sqlx.Tx, u User, hash sql.NullString) (exists bool, err error) {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO users (id, email, name, password_hash, email_verified_at, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (email) DO NOTHING`, u.ID, u.Email, u.Name, hash, u.EmailVerifiedAt, u.CreatedAt)
	if err != nil {
		return false, fmt.Errorf("create a user: %w", err)
	}
	inserted, err := result.RowsAffected()
	return inserted == 0, err
}

func firstError(refusal, err error) error {
	if err != nil {
		return err
	}
	return refusal
}
