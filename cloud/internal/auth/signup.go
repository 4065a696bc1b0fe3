package auth

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/email"
	"github.com/browser-svc/svc/shared/fault"
)

// SignUpPolicy is who may make an account, by a password or by an OpenID provider.
type SignUpPolicy string

// Who may make an account.
const (
	SignUpFirst  SignUpPolicy = ""       // anybody while there is no user, then as SignUpInvite
	SignUpOpen   SignUpPolicy = "open"   // anybody
	SignUpInvite SignUpPolicy = "invite" // who was invited to an organization
	SignUpClosed SignUpPolicy = "closed" // nobody
)

// Invitations knows who was invited to an organization. An invitation counts for
// as long as it can be accepted.
type Invitations interface {
	// HasInvitation reports whether the address has an invitation.
	HasInvitation(ctx context.Context, email string) (bool, error)
	// IsInvitation reports whether the token is that of an invitation of the
	// address.
	IsInvitation(ctx context.Context, token, email string) (bool, error)
}

// NewUser is what an account is made of.
type NewUser struct {
	Email      string // in any case
	Password   string
	Name       string
	Invitation string // the token of an invitation's mail; empty for none
}

// SignUp makes an account, mails a link to verify its address, and signs it in.
// Who may not have one, see SignUpPolicy, is Forbidden. The token of an invitation of
// the address lets its holder in, and verifies the address, which it was mailed
// to; any other token is a Validation error. A password that is easily guessed is
// one, too. An address that has an account is a Conflict; too many accounts from
// one client, or too many wrong tokens, are RateLimited.
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

// signUpUninvited makes the account of somebody who shows no invitation.
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

// signUpInvited makes the account of somebody who shows an invitation. Only a
// wrong one is counted: many who are invited may share a network.
func (s *Service) signUpInvited(ctx context.Context, client Client, u *User, n NewUser) error {
	counted := []limitKey{failuresByClient(client)}
	return s.withNetworkLock(ctx, client, counted, func() error {
		invited, err := s.isInvitation(ctx, n.Invitation, u.Email)
		if err != nil {
			return err
		}
		hash := "" // of no invitation
		if invited {
			if hash, err = s.passwords.hash(ctx, n.Password); err != nil {
				return err
			}
			u.EmailVerifiedAt = &u.CreatedAt
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

// lockFirstUser lets those who may be the first user make their accounts one after
// the other, where it matters who is.
func (s *Service) lockFirstUser(ctx context.Context, tx *sqlx.Tx) error {
	if s.SignUpPolicy != SignUpFirst {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('first user', 0))`); err != nil {
		return fmt.Errorf("lock the first user: %w", err)
	}
	return nil
}

// checkSignUpPolicy refuses who may not make an account. While nobody holds the lock of
// lockFirstUser, its answer to those who are not invited may be out of date.
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
		"An account needs an invitation to an organization. Ask one of its owners or admins for one, and sign up with the token of its mail."), nil
}

func createUser(ctx context.Context, tx *sqlx.Tx, u User, hash string) (refusal, err error) {
	taken, err := insertUser(ctx, tx, u, sql.NullString{String: hash, Valid: true})
	if err != nil || !taken {
		return nil, err
	}
	return fault.New(fault.Conflict, "An account with this e-mail address already exists."), nil
}

// insertUser reports whether the address has an account already.
func insertUser(ctx context.Context, tx *sqlx.Tx, u User, hash sql.NullString) (taken bool, err error) {
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
