package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/mail"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Identity is a user's identity at an OpenID provider, which has authenticated
// the user.
type Identity struct {
	Issuer        string
	Subject       string // unique and never reused at the issuer
	Email         string
	EmailVerified bool // as reported by the provider
	Name          string
}

// SignInAs begins a session for an identity. A known identity signs in its user.
// A new identity requires an address that the provider has verified (else
// Forbidden) and is linked to the account with this address if the address is
// verified here too. If it is not, SignInAs returns Conflict, because the account
// may have been created by someone else. Without an account, one is created if
// SignUpPolicy allows it (else Forbidden). A disabled account is Forbidden.
func (s *Service) SignInAs(ctx context.Context, client Client, identity Identity) (Session, error) {
	var a account
	err := pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		// Concurrent sign-ins of the same identity are serialized.
		_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, identity.Issuer+"\n"+identity.Subject)
		if err != nil {
			return fmt.Errorf("lock an identity: %w", err)
		}
		err = tx.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users
			WHERE id = (SELECT user_id FROM user_identities WHERE issuer = $1 AND subject = $2)`, identity.Issuer, identity.Subject)
		if errors.Is(err, sql.ErrNoRows) {
			a, err = s.findOrLink(ctx, tx, identity)
		}
		if err != nil {
			return fmt.Errorf("find the user of an identity: %w", err)
		}
		return nil
	})
	if err != nil {
		return Session{}, err
	}
	if a.DisabledAt != nil {
		return Session{}, errDisabled()
	}
	return s.beginKnown(ctx, client, a)
}

// findOrLink finds or creates the account of a new identity, and links the two.
func (s *Service) findOrLink(ctx context.Context, tx *sqlx.Tx, identity Identity) (account, error) {
	email := emails.Normal(identity.Email)
	if !identity.EmailVerified || !isPlausibleEmail(email) {
		return account{}, fault.New(fault.Forbidden, "The sign-in provider does not report your e-mail address as verified.")
	}
	if err := s.createIdentified(ctx, tx, email, identity.Name); err != nil {
		return account{}, err
	}
	var a account
	err := tx.GetContext(ctx, &a, `SELECT `+accountColumns+` FROM users WHERE email = $1 FOR NO KEY UPDATE`, email)
	if err != nil {
		return account{}, fmt.Errorf("find a user by address: %w", err)
	}
	if a.EmailVerifiedAt == nil {
		return account{}, fault.New(fault.Conflict,
			"An account with this e-mail address exists, but the address is not verified. Sign in with the password and verify the address, or reset the password; then try again.")
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO user_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4)`,
		identity.Issuer, identity.Subject, a.ID, s.clock.Now())
	if err != nil {
		return account{}, fmt.Errorf("link an identity: %w", err)
	}
	return a, nil
}

// createIdentified creates an account for an address that the provider has
// verified, unless one exists. Returns Forbidden if SignUpPolicy does not allow
// it.
func (s *Service) createIdentified(ctx context.Context, tx *sqlx.Tx, email, name string) error {
	if err := s.lockFirstUser(ctx, tx); err != nil {
		return err
	}
	var exists bool
	if err := tx.GetContext(ctx, &exists, `SELECT EXISTS (SELECT FROM users WHERE email = $1)`, email); err != nil || exists {
		return err
	}
	invited, err := s.hasInvitation(ctx, email)
	if err != nil {
		return err
	}
	if refusal, err := s.checkSignUpPolicy(ctx, tx, invited); refusal != nil || err != nil {
		return firstError(refusal, err)
	}
	u, err := s.newIdentifiedUser(email, name)
	if err != nil {
		return err
	}
	_, err = insertUser(ctx, tx, u, sql.NullString{})
	return err
}

const (
	maxEmail = 254
	maxName  = 128
)

// newIdentifiedUser returns a new user for an identity.
func (s *Service) newIdentifiedUser(email, name string) (User, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return User{}, fmt.Errorf("generate a user ID: %w", err)
	}
	name = strings.TrimSpace(name)
	if name == "" {
		name, _, _ = strings.Cut(email, "@")
	}
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	now := s.clock.Now()
	return User{ID: id, Email: email, Name: name, EmailVerifiedAt: &now, CreatedAt: now}, nil
}

// isPlausibleEmail reports whether the provider's address is acceptable as an
// account's address.
func isPlausibleEmail(email string) bool {
	address, err := mail.ParseAddress(email)
	return err == nil && address.Address == email && len(email) <= maxEmail
}
