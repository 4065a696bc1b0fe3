package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// storeTimeout bounds a statement of the session store.
const storeTimeout = 5 * time.Second

// lastSeenPrecision is the precision of the time at which a session was last
// seen; it avoids a write per request.
const lastSeenPrecision = time.Minute

// errSessionEnded means that a session ended while it was being changed.
var errSessionEnded = errors.New("the session has ended")

// errCredentialsReplaced means that the credentials of a new session are no
// longer the user's.
var errCredentialsReplaced = errors.New("the credentials were replaced")

// sessionStore stores dashboard sessions in auth_sessions. It receives tokens
// already hashed.
type sessionStore struct {
	db    *sqlx.DB
	clock clock.Clock
}

var _ scs.CtxStore = sessionStore{}

// newSession describes a session that is being created.
type newSession struct {
	id                uuid.UUID
	userID            uuid.UUID
	credentialVersion int // of the credentials that were checked
	client            Client
	createdAt         time.Time
}

type newSessionKey struct{}

// withNewSession marks the commit of a new session. Any other commit must update
// an existing session: an upsert could recreate a session that was signed out
// meanwhile.
func withNewSession(ctx context.Context, b newSession) context.Context {
	return context.WithValue(ctx, newSessionKey{}, b)
}

// FindCtx implements scs.CtxStore. It does not find expired sessions, and updates
// when a session was last seen.
func (s sessionStore) FindCtx(ctx context.Context, hash string) (data []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var row struct {
		Data       []byte    `db:"data"`
		LastSeenAt time.Time `db:"last_seen_at"`
	}
	now := s.clock.Now()
	err = s.db.GetContext(ctx, &row,
		`SELECT data, last_seen_at FROM auth_sessions WHERE token_hash = $1 AND expiry > $2`, hash, now)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find a session: %w", err)
	}
	if longAgo := now.Add(-lastSeenPrecision); !row.LastSeenAt.After(longAgo) {
		_, err := s.db.ExecContext(ctx,
			`UPDATE auth_sessions SET last_seen_at = $2 WHERE token_hash = $1 AND last_seen_at <= $3`, hash, now, longAgo)
		if err != nil {
			return nil, false, fmt.Errorf("update when a session was last seen: %w", err)
		}
	}
	return row.Data, true, nil
}

// CommitCtx implements scs.CtxStore.
func (s sessionStore) CommitCtx(ctx context.Context, hash string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if b, ok := ctx.Value(newSessionKey{}).(newSession); ok {
		return s.insert(ctx, b, hash, data, expiry)
	}
	result, err := s.db.ExecContext(ctx,
		`UPDATE auth_sessions SET data = $2, expiry = $3 WHERE token_hash = $1 AND expiry > $4`,
		hash, data, expiry, s.clock.Now())
	if err != nil {
		return fmt.Errorf("change a session: %w", err)
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return errors.Join(errSessionEnded, err)
	}
	return nil
}

// insert creates a session if the user's credentials still have the given version
// and the account is not disabled. It waits for a transaction that is replacing
// the credentials.
func (s sessionStore) insert(ctx context.Context, b newSession, hash string, data []byte, expiry time.Time) error {
	result, err := s.db.ExecContext(ctx, `
		INSERT INTO auth_sessions (token_hash, user_id, data, expiry, id, created_at, last_seen_at, ip_address, user_agent)
		SELECT $1, id, $2, $3, $4, $5, $5, $6, $7 FROM users
		WHERE id = $8 AND credential_version = $9 AND disabled_at IS NULL FOR SHARE`,
		hash, data, expiry, b.id, b.createdAt, b.client.Address, b.client.userAgent(), b.userID, b.credentialVersion)
	if err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return errors.Join(errCredentialsReplaced, err)
	}
	return nil
}

// DeleteCtx implements scs.CtxStore.
func (s sessionStore) DeleteCtx(ctx context.Context, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, `DELETE FROM auth_sessions WHERE token_hash = $1`, hash); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// Find implements scs.Store.
func (s sessionStore) Find(hash string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), hash)
}

// Commit implements scs.Store.
func (s sessionStore) Commit(hash string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), hash, data, expiry)
}

// Delete implements scs.Store.
func (s sessionStore) Delete(hash string) error { return s.DeleteCtx(context.Background(), hash) }
