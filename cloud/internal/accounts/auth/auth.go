// Package auth authenticates users. It manages accounts, passwords, e-mail
// verification, dashboard sessions, access tokens and service accounts, and defines the
// caller of a request.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// User is a person with an account.
type User struct {
	ID              uuid.UUID  `db:"id"`
	Email           string     `db:"email"` // as email.Normal has it
	Name            string     `db:"name"`
	EmailVerifiedAt *time.Time `db:"email_verified_at"` // nil if not verified
	CreatedAt       time.Time  `db:"created_at"`
}

// userColumns are the columns of a User.
const userColumns = `id, email, name, email_verified_at, created_at`

// Session returns the session with this token, or Unauthenticated. The active
// organization is cleared if the user is no longer a member.
type Session struct {
	Token       string // the credential itself; never logged
	ExpiresAt   time.Time
	User        User
	ActiveOrgID uuid.UUID
}

// Memberships returns the organizations of users.
type Memberships interface {
	// Organizations returns the ids of the organizations that the user is a
	// member of.
	Organizations(ctx context.Context, userID uuid.UUID) ([]uuid.UUID, error)
}

// Mailer sends mail.
type Mailer interface {
	// Send queues a mail in the transaction: it goes out when that commits.
	Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error
}

// Service manages accounts, sessions and access tokens. Its tables belong to users, not
// to organizations, except for the access tokens and the service accounts.
type Service struct {
	// Mailer sends mail to users; nil sends nothing.
	Mailer Mailer
	// Public is the public URL of the service, with which links in mails start.
	Public *url.URL
	// SignUpPolicy says who may create an account.
	SignUpPolicy SignUpPolicy
	// Invitations checks invitations; nil means nobody is invited.
	Invitations Invitations
	// WithoutMail is set if no mail reaches a person. Then the token of an invitation does
	// not prove that the user owns the address: the inviter has it too.
	WithoutMail bool
	// System is a pool that sees all organizations, to identify access tokens.
	System *sqlx.DB
	// Audit records the changes of access tokens and of service accounts.
	Audit Recorder

	db           *sqlx.DB
	clock        clock.Clock
	memberships  Memberships
	passwords    *passwords
	sessions     sessions
	attempts     attemptLimiter
	networkLocks *networkLocks
}

// New returns a Service that hashes passwords with the given cost.
func New(db *sqlx.DB, clock clock.Clock, memberships Memberships, cost Cost) (*Service, error) {
	passwords, err := newPasswords(cost)
	if err != nil {
		return nil, err
	}
	return &Service{
		Public: &url.URL{Scheme: "http", Host: "localhost"},
		db:     db, clock: clock, memberships: memberships, passwords: passwords,
		sessions:     newSessions(sessionStore{db: db, clock: clock}),
		attempts:     attemptLimiter{db: db, clock: clock},
		networkLocks: &networkLocks{byNetwork: map[string]*networkLock{}},
	}, nil
}

// Address returns the user's e-mail address and whether it is verified. The
// address is empty for an unknown user.
func (s *Service) Address(ctx context.Context, userID uuid.UUID) (email string, verified bool, err error) {
	u, err := s.user(ctx, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return u.Email, u.EmailVerifiedAt != nil, err
}

// user returns a user, or sql.ErrNoRows.
func (s *Service) user(ctx context.Context, userID uuid.UUID) (User, error) {
	var u User
	if err := s.db.GetContext(ctx, &u, `SELECT `+userColumns+` FROM users WHERE id = $1`, userID); err != nil {
		return User{}, fmt.Errorf("find a user: %w", err)
	}
	return u, nil
}

// Authenticate returns the caller of the dashboard session with this token, or
// Unauthenticated. It updates when the session was last seen, at most once a
// minute.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	entry, err := s.sessions.load(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	return Caller{
		UserID: entry.userID, Session: token, SessionID: entry.id, ActiveOrgID: entry.activeOrgID,
	}, nil
}

// Session returns the session with this token, or an Unauthenticated error. An
// organization that the user is no longer a member of is not active.
func (s *Service) Session(ctx context.Context, token string) (Session, error) {
	entry, err := s.sessions.load(ctx, token)
	if err != nil {
		return Session{}, err
	}
	result := Session{Token: token, ExpiresAt: entry.expires, ActiveOrgID: entry.activeOrgID}
	result.User, err = s.user(ctx, entry.userID)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, errInvalidSession()
	}
	if err != nil {
		return Session{}, err
	}
	all, err := s.memberships.Organizations(ctx, entry.userID)
	if err != nil {
		return Session{}, err
	}
	if !slices.Contains(all, result.ActiveOrgID) {
		result.ActiveOrgID = uuid.Nil
	}
	return result, nil
}

// Activate sets the active organization of the session, which is also that of the
// user's next session. The caller checks the membership.
func (s *Service) Activate(ctx context.Context, token string, orgID uuid.UUID) error {
	userID, err := s.sessions.activate(ctx, token, orgID)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `UPDATE users SET last_organization_id = $2 WHERE id = $1`, userID, orgID)
	if err != nil {
		return fmt.Errorf("save the active organization: %w", err)
	}
	return nil
}

// Sweep deletes expired sessions, mail tokens and attempt counts, and returns how
// many. Expired rows have no effect; this only limits the size of the tables.
func (s *Service) Sweep(ctx context.Context) (int64, error) {
	var total int64
	for _, statement := range []string{
		`DELETE FROM auth_sessions WHERE expiry <= $1`,
		`DELETE FROM auth_tokens WHERE expires_at <= $1`,
		`DELETE FROM auth_attempts WHERE forget_at <= $1`,
	} {
		result, err := s.db.ExecContext(ctx, statement, s.clock.Now())
		if err != nil {
			return total, fmt.Errorf("delete expired rows: %w", err)
		}
		removed, err := result.RowsAffected()
		if err != nil {
			return total, fmt.Errorf("count expired rows: %w", err)
		}
		total += removed
	}
	return total, nil
}
