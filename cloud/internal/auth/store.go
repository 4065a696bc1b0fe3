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

// storeTime bounds one statement of the session store.
const storeTime = 5 * time.Second

// errEnded says that a session ended while it was being changed.
var errEnded = errors.New("the session has ended")

// store keeps dashboard sessions in auth_sessions. What it is given as a token
// is the hash already.
type store struct {
	db    *sqlx.DB
	clock clock.Clock
}

var _ scs.CtxStore = store{}

type ownerKey struct{}

// beginning marks the commit of a new session, which needs an owner. Any other
// commit changes a session that must still be there: a write that also created
// would bring back one that was signed out meanwhile.
func beginning(ctx context.Context, userID uuid.UUID) context.Context {
	return context.WithValue(ctx, ownerKey{}, userID)
}

// FindCtx implements scs.CtxStore. An expired session is not found.
func (s store) FindCtx(ctx context.Context, hash string) (data []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err = s.db.GetContext(ctx, &data,
		`SELECT data FROM auth_sessions WHERE token_hash = $1 AND expiry > $2`, hash, s.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find a session: %w", err)
	}
	return data, true, nil
}

// CommitCtx implements scs.CtxStore.
func (s store) CommitCtx(ctx context.Context, hash string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if owner, ok := ctx.Value(ownerKey{}).(uuid.UUID); ok {
		_, err := s.db.ExecContext(ctx,
			`INSERT INTO auth_sessions (token_hash, user_id, data, expiry) VALUES ($1, $2, $3, $4)`,
			hash, owner, data, expiry)
		if err != nil {
			return fmt.Errorf("begin a session: %w", err)
		}
		return nil
	}
	result, err := s.db.ExecContext(ctx,
		`UPDATE auth_sessions SET data = $2, expiry = $3 WHERE token_hash = $1 AND expiry > $4`,
		hash, data, expiry, s.clock.Now())
	if err != nil {
		return fmt.Errorf("change a session: %w", err)
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return errors.Join(errEnded, err)
	}
	return nil
}

// DeleteCtx implements scs.CtxStore.
func (s store) DeleteCtx(ctx context.Context, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, `DELETE FROM auth_sessions WHERE token_hash = $1`, hash); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// deleteExpired removes the sessions that are over and returns how many.
func (s store) deleteExpired(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	result, err := s.db.ExecContext(ctx, `DELETE FROM auth_sessions WHERE expiry <= $1`, s.clock.Now())
	if err != nil {
		return 0, fmt.Errorf("remove expired sessions: %w", err)
	}
	return result.RowsAffected()
}

// Find implements scs.Store.
func (s store) Find(hash string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), hash)
}

// Commit implements scs.Store.
func (s store) Commit(hash string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), hash, data, expiry)
}

// Delete implements scs.Store.
func (s store) Delete(hash string) error { return s.DeleteCtx(context.Background(), hash) }
