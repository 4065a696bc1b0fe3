package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/shared/fault"
)

// purpose is the purpose of a mailed token, and the mail's text.
type purpose struct {
	name    string
	path    string // of the page that takes the token
	life    time.Duration
	subject string
	text    string // with the link in it
}

var (
	verification = purpose{
		name: "verifyEmail", path: "account/verify-email", life: 24 * time.Hour,
		subject: "Verify your e-mail address",
		text: "Hello,\n\nOpen this link within 24 hours to verify your e-mail address:\n\n%s\n\n" +
			"If you did not sign up, ignore this message.\n",
	}
	reset = purpose{
		name: "resetPassword", path: "account/reset-password", life: time.Hour,
		subject: "Set a new password",
		text: "Hello,\n\nOpen this link within one hour to set a new password:\n\n%s\n\n" +
			"If you did not request a new password, ignore this message. Your password has not been changed.\n",
	}
)

const (
	changedSubject = "Your password was changed"
	changedText    = "Hello,\n\nYour password was changed, and your other sessions were signed out.\n\n" +
		"If you did not change it, set a new password immediately:\n\n%s\n"
	forgotPath = "forgot-password"
)

// mailToken mails a link with a new token. The token is in the fragment, which
// browsers do not send to servers.
func (s *Service) mailToken(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, email string, p purpose) error {
	link, err := s.newLink(ctx, tx, userID, p, true)
	if err != nil {
		return err
	}
	return s.send(ctx, tx, email, p.subject, fmt.Sprintf(p.text, link))
}

// newLink creates a link with a new token. A mailed token proves that its holder
// receives mail at the address.
func (s *Service) newLink(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, p purpose, mailed bool) (string, error) {
	token := secret.NewToken()
	now := s.clock.Now()
	_, err := tx.ExecContext(ctx, `
		INSERT INTO auth_tokens (token_hash, user_id, purpose, created_at, expires_at, mailed) VALUES ($1, $2, $3, $4, $5, $6)`,
		secret.Hash(token), userID, p.name, now, now.Add(p.life), mailed)
	if err != nil {
		return "", fmt.Errorf("create a token: %w", err)
	}
	link := s.Public.JoinPath(p.path)
	link.Fragment = "token=" + token
	return link.String(), nil
}

// mailPasswordChanged notifies the user about the password change.
func (s *Service) mailPasswordChanged(ctx context.Context, tx *sqlx.Tx, email string) error {
	return s.send(ctx, tx, email, changedSubject, fmt.Sprintf(changedText, s.Public.JoinPath(forgotPath)))
}

func (s *Service) send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error {
	if s.Mailer == nil {
		return nil
	}
	if err := s.Mailer.Send(ctx, tx, recipient, subject, text); err != nil {
		return fmt.Errorf("send a mail: %w", err)
	}
	return nil
}

// SpendInvitation counts an invitation mail to an address, once tx commits.
// Returns RateLimited if the address, the organization or the inviter has reached
// its limit.
func (s *Service) SpendInvitation(ctx context.Context, tx *sqlx.Tx, orgID, inviterID uuid.UUID, email string) error {
	counts, err := s.attempts.lockCounts(ctx, tx, invitationLimits(orgID, inviterID, email))
	if err != nil {
		return err
	}
	if err := s.attempts.checkPause(counts...); err != nil {
		return err
	}
	return s.attempts.increment(ctx, tx, counts...)
}

// redeem uses up a token. It returns the token's user, whose row it locks, and
// whether the token was only mailed. An invalid token is the refusal.
func (s *Service) redeem(ctx context.Context, tx *sqlx.Tx, token string, p purpose) (u User, mailed bool, refusal, err error) {
	var found struct {
		User
		Mailed bool `db:"mailed"`
	}
	err = tx.GetContext(ctx, &found, `
		SELECT u.id, u.email, u.name, u.email_verified_at, u.created_at, t.mailed
		FROM auth_tokens t JOIN users u ON u.id = t.user_id
		WHERE t.token_hash = $1 AND t.purpose = $2 AND t.expires_at > $3
		FOR NO KEY UPDATE OF u`, secret.Hash(token), p.name, s.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, false, errInvalidToken(), nil
	}
	if err != nil {
		return User{}, false, nil, fmt.Errorf("find a token: %w", err)
	}
	result, err := tx.ExecContext(ctx, `DELETE FROM auth_tokens WHERE token_hash = $1`, secret.Hash(token))
	if err != nil {
		return User{}, false, nil, fmt.Errorf("use a token: %w", err)
	}
	if used, err := result.RowsAffected(); err != nil || used == 0 { // the token was used while this transaction waited for the lock
		return User{}, false, errInvalidToken(), err
	}
	return found.User, found.Mailed, nil, nil
}

// findByToken returns the user of a token, if the token is valid.
func (s *Service) findByToken(ctx context.Context, token string, p purpose) (u User, is bool, err error) {
	err = s.db.GetContext(ctx, &u, `
		SELECT u.id, u.email, u.name, u.email_verified_at, u.created_at
		FROM auth_tokens t JOIN users u ON u.id = t.user_id
		WHERE t.token_hash = $1 AND t.purpose = $2 AND t.expires_at > $3`,
		secret.Hash(token), p.name, s.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return User{}, false, nil
	}
	if err != nil {
		return User{}, false, fmt.Errorf("find a token: %w", err)
	}
	return u, true, nil
}

func errInvalidToken() error {
	return fault.Field("token", "is invalid, has already been used or has expired")
}
