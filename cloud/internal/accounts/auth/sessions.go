package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// sessionLifetime is how long a dashboard session lasts.
const sessionLifetime = 7 * 24 * time.Hour

// The keys of the session data.
const (
	idField   = "id"
	userField = "user"
	orgField  = "organization"
)

// sessions manages dashboard sessions by token.
type sessions struct {
	manager *scs.SessionManager
	store   sessionStore
}

// newSessions does not use scs.New, which starts a goroutine that never ends.
func newSessions(s sessionStore) sessions {
	return sessions{store: s, manager: &scs.SessionManager{
		Lifetime: sessionLifetime, Store: s, Codec: scs.GobCodec{}, HashTokenInStore: true,
	}}
}

// entry is the data of a session.
type entry struct {
	id          uuid.UUID
	userID      uuid.UUID
	activeOrgID uuid.UUID // zero for none
	expires     time.Time
}

// begin starts a session under a new token, regardless of any token that the client had before.
// Returns errCredentialsReplaced if the user's credentials have changed since
// they were checked.
func (s sessions) begin(ctx context.Context, b newSession, orgID uuid.UUID) (string, time.Time, error) {
	ctx, err := s.manager.Load(ctx, "")
	if err != nil {
		return "", time.Time{}, fmt.Errorf("create a session: %w", err)
	}
	if err := s.manager.RenewToken(ctx); err != nil {
		return "", time.Time{}, fmt.Errorf("generate a session token: %w", err)
	}
	if b.id, err = uuid.NewV7(); err != nil {
		return "", time.Time{}, fmt.Errorf("generate a session ID: %w", err)
	}
	s.manager.SetDeadline(ctx, b.createdAt.Add(sessionLifetime))
	s.manager.Put(ctx, idField, b.id.String())
	s.manager.Put(ctx, userField, b.userID.String())
	s.put(ctx, orgID)
	token, expires, err := s.manager.Commit(withNewSession(ctx, b))
	if err != nil {
		return "", time.Time{}, err
	}
	return token, expires, nil
}

func (s sessions) put(ctx context.Context, orgID uuid.UUID) {
	if orgID != uuid.Nil {
		s.manager.Put(ctx, orgField, orgID.String())
	}
}

func (s sessions) load(ctx context.Context, token string) (entry, error) {
	_, e, err := s.open(ctx, token)
	return e, err
}

// open reads a session and returns the context for the session manager.
func (s sessions) open(ctx context.Context, token string) (context.Context, entry, error) {
	ctx, err := s.manager.Load(ctx, token)
	if err != nil {
		return nil, entry{}, err
	}
	userID, err := uuid.Parse(s.manager.GetString(ctx, userField))
	if err != nil { // unknown tokens have no user
		return nil, entry{}, errInvalidSession()
	}
	e := entry{userID: userID, expires: s.manager.Deadline(ctx)}
	if e.id, err = uuid.Parse(s.manager.GetString(ctx, idField)); err != nil {
		return nil, entry{}, fmt.Errorf("read the id of a session: %w", err)
	}
	if text := s.manager.GetString(ctx, orgField); text != "" {
		if e.activeOrgID, err = uuid.Parse(text); err != nil {
			return nil, entry{}, fmt.Errorf("read the active organization of a session: %w", err)
		}
	}
	return ctx, e, nil
}

func (s sessions) activate(ctx context.Context, token string, orgID uuid.UUID) (userID uuid.UUID, err error) {
	ctx, e, err := s.open(ctx, token)
	if err != nil {
		return uuid.Nil, err
	}
	s.put(ctx, orgID)
	if _, _, err := s.manager.Commit(ctx); errors.Is(err, errSessionEnded) {
		return uuid.Nil, errInvalidSession()
	} else if err != nil {
		return uuid.Nil, err
	}
	return e.userID, nil
}

func (s sessions) end(ctx context.Context, token string) error {
	ctx, err := s.manager.Load(ctx, token)
	if err != nil {
		return err
	}
	return s.manager.Destroy(ctx)
}

func errInvalidSession() error {
	return fault.New(fault.Unauthenticated, "The session is invalid or has ended. Sign in again.")
}
