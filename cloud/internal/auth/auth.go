// Package auth knows who makes a request: users and their passwords, dashboard
// sessions, and the caller of a request.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// User is a person with an account.
type User struct {
	ID        uuid.UUID `db:"id"`
	Email     string    `db:"email"` // lowercase
	Name      string    `db:"name"`
	CreatedAt time.Time `db:"created_at"`
}

// Session is a dashboard session. ActiveOrgID is the organization that it works
// in; zero for none.
type Session struct {
	Token       string // the credential itself; never logged
	ExpiresAt   time.Time
	User        User
	ActiveOrgID uuid.UUID
}

// Memberships tells where a user works.
type Memberships interface {
	// Organizations returns the ids of the organizations that the user is a
	// member of.
	Organizations(ctx context.Context, userID uuid.UUID) ([]uuid.UUID, error)
}

// Service signs users up, in and out.
type Service struct {
	db          *sqlx.DB
	clock       clock.Clock
	memberships Memberships
	passwords   *passwords
	sessions    sessions
}

// New returns a Service whose passwords take that cost.
func New(db *sqlx.DB, clock clock.Clock, memberships Memberships, cost Cost) (*Service, error) {
	passwords, err := newPasswords(cost)
	if err != nil {
		return nil, err
	}
	return &Service{
		db: db, clock: clock, memberships: memberships, passwords: passwords,
		sessions: newSessions(store{db: db, clock: clock}),
	}, nil
}

// NewUser is what an account is made of.
type NewUser struct {
	Email    string // in any case
	Password string
	Name     string
}

// SignUp makes an account and signs it in. An address that has an account is a
// Conflict.
func (s *Service) SignUp(ctx context.Context, n NewUser) (Session, error) {
	hash, err := s.passwords.hash(ctx, n.Password)
	if err != nil {
		return Session{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Session{}, fmt.Errorf("make a user id: %w", err)
	}
	u := User{ID: id, Email: normal(n.Email), Name: n.Name, CreatedAt: s.clock.Now()}
	_, err = s.db.ExecContext(ctx,
		`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)`,
		u.ID, u.Email, u.Name, hash, u.CreatedAt)
	if pg.IsUnique(err, "users_email_key") {
		return Session{}, fault.Wrap(err, fault.Conflict, "There is an account with this e-mail address already.")
	}
	if err != nil {
		return Session{}, fmt.Errorf("make a user: %w", err)
	}
	return s.begin(ctx, u, uuid.Nil)
}

// SignIn checks a password and begins a session. The last active organization,
// or the only one, is active again. An unknown address and a wrong password are
// the same Unauthenticated error, after the same work.
func (s *Service) SignIn(ctx context.Context, email, password string) (Session, error) {
	var account struct {
		User
		PasswordHash string        `db:"password_hash"`
		LastOrgID    uuid.NullUUID `db:"last_organization_id"`
	}
	err := s.db.GetContext(ctx, &account, `
		SELECT id, email, name, created_at, password_hash, last_organization_id
		FROM users WHERE email = $1`, normal(email))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Session{}, fmt.Errorf("find a user: %w", err)
	}
	match, err := s.passwords.matches(ctx, password, account.PasswordHash)
	if err != nil {
		return Session{}, err
	}
	if !match {
		return Session{}, fault.New(fault.Unauthenticated, "The e-mail address or the password is wrong.")
	}
	active, err := s.home(ctx, account.ID, account.LastOrgID.UUID)
	if err != nil {
		return Session{}, err
	}
	return s.begin(ctx, account.User, active)
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

func (s *Service) begin(ctx context.Context, u User, active uuid.UUID) (Session, error) {
	token, expires, err := s.sessions.begin(ctx, u.ID, active, s.clock.Now())
	if err != nil {
		return Session{}, err
	}
	return Session{Token: token, ExpiresAt: expires, User: u, ActiveOrgID: active}, nil
}

// SignOut ends the session with this token; one that is over already is no
// error.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.sessions.end(ctx, token)
}

// Authenticate returns the caller whose dashboard session has this token, or an
// Unauthenticated error.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	entry, err := s.sessions.load(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	return Caller{UserID: entry.userID, Session: token, ActiveOrgID: entry.activeOrgID}, nil
}

// Session returns the session with this token, or an Unauthenticated error. An
// organization that the user is no longer a member of is not active.
func (s *Service) Session(ctx context.Context, token string) (Session, error) {
	entry, err := s.sessions.load(ctx, token)
	if err != nil {
		return Session{}, err
	}
	result := Session{Token: token, ExpiresAt: entry.expires, ActiveOrgID: entry.activeOrgID}
	err = s.db.GetContext(ctx, &result.User,
		`SELECT id, email, name, created_at FROM users WHERE id = $1`, entry.userID)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, errNoSession()
	}
	if err != nil {
		return Session{}, fmt.Errorf("find the user of a session: %w", err)
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

// Activate makes an organization the active one of the session, and the one
// that the user's next session starts in. Whether the user is a member is the
// caller's to check.
func (s *Service) Activate(ctx context.Context, token string, orgID uuid.UUID) error {
	userID, err := s.sessions.activate(ctx, token, orgID)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `UPDATE users SET last_organization_id = $2 WHERE id = $1`, userID, orgID)
	if err != nil {
		return fmt.Errorf("remember the active organization: %w", err)
	}
	return nil
}

// Sweep removes the sessions that have expired and returns how many. They are
// worthless without it: it only keeps the table small.
func (s *Service) Sweep(ctx context.Context) (int64, error) {
	return s.sessions.store.deleteExpired(ctx)
}

// normal is how an address is stored and compared.
func normal(email string) string { return strings.ToLower(strings.TrimSpace(email)) }
