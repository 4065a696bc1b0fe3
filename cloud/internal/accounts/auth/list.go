package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// SessionInfo is an entry in the list of a user's sessions, without the token.
// IPAddress and UserAgent are those of the client that signed in.
type SessionInfo struct {
	ID         uuid.UUID `db:"id"`
	CreatedAt  time.Time `db:"created_at"`
	LastSeenAt time.Time `db:"last_seen_at"` // exact to a minute
	ExpiresAt  time.Time `db:"expiry"`
	IPAddress  string    `db:"ip_address"`
	UserAgent  string    `db:"user_agent"`
	Current    bool      `db:"-"` // whether it is the caller's
}

// sortable maps sort keys to columns.
var sortable = map[string]string{"createdAt": "created_at", "lastSeenAt": "last_seen_at", "expiresAt": "expiry"}

// ListSessions returns a page of the caller's sessions. It sorts by createdAt,
// lastSeenAt or expiresAt.
func (s *Service) ListSessions(ctx context.Context, caller Caller, r page.Request) (page.Page[SessionInfo], error) {
	result := page.Page[SessionInfo]{Request: r, Items: []SessionInfo{}}
	const mine = ` FROM auth_sessions WHERE user_id = $1 AND expiry > $2`
	now := s.clock.Now()
	if err := s.db.GetContext(ctx, &result.Total, `SELECT count(*)`+mine, caller.UserID, now); err != nil {
		return result, fmt.Errorf("count the sessions of a user: %w", err)
	}
	err := s.db.SelectContext(ctx, &result.Items,
		`SELECT id, created_at, last_seen_at, expiry, ip_address, user_agent`+mine+r.OrderBy(sortable)+` LIMIT $3 OFFSET $4`,
		caller.UserID, now, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the sessions of a user: %w", err)
	}
	for i := range result.Items {
		result.Items[i].Current = result.Items[i].ID == caller.SessionID
	}
	return result, nil
}

// EndSession ends a session of the user. Returns NotFound for any other session.
func (s *Service) EndSession(ctx context.Context, userID, sessionID uuid.UUID) error {
	result, err := s.db.ExecContext(ctx,
		`DELETE FROM auth_sessions WHERE user_id = $1 AND id = $2 AND expiry > $3`, userID, sessionID, s.clock.Now())
	if err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	ended, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("count ended sessions: %w", err)
	}
	if ended == 0 {
		return fault.Missing("session")
	}
	return nil
}

// SignOutEverywhere ends all sessions of the user, invalidates the sign-in links and
// revokes the access tokens.
func (s *Service) SignOutEverywhere(ctx context.Context, userID uuid.UUID) error {
	return pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if err := lockUser(ctx, tx, userID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			WITH links AS (DELETE FROM auth_tokens WHERE user_id = $1 AND purpose = $2)
			DELETE FROM auth_sessions WHERE user_id = $1`, userID, signInLink.name)
		if err != nil {
			return fmt.Errorf("end the sessions of a user: %w", err)
		}
		return s.revokeAccessTokens(ctx, tx, s.Audit, userID, "signedOutEverywhere")
	})
}
