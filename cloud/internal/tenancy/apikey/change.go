package apikey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Change describes the update of a key.
type Change struct {
	Name         *string    // nil: unchanged
	ExpiresAt    *time.Time // nil: unchanged
	NeverExpires bool       // removes the expiry
}

// Update changes the name or expiry of a key and returns the key. An expiry that is
// not in the future is a Validation error. An unknown, foreign or revoked key is
// NotFound. Renewing an expired key counts toward the limit, as in Create.
func (s *Service) Update(ctx context.Context, orgID, keyID uuid.UUID, c Change) (Key, error) {
	now := s.Clock.Now()
	expires, err := parseExpiry(c.ExpiresAt, now)
	if err != nil {
		return Key{}, err
	}
	var k Key
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if c.NeverExpires || expires != nil {
			if err := s.checkLimitIfExpired(ctx, tx, orgID, keyID, now); err != nil {
				return err
			}
		}
		err := tx.GetContext(ctx, &k, `
			UPDATE api_keys SET name = coalesce($3, name),
			       expires_at = CASE WHEN $4 THEN NULL ELSE coalesce($5, expires_at) END
			WHERE id = $1 AND organization_id = $2 AND revoked_at IS NULL
			RETURNING `+columns, keyID, orgID, c.Name, c.NeverExpires, expires)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("key")
		}
		if err != nil {
			return fmt.Errorf("update a key: %w", err)
		}
		return s.Audit.Record(ctx, tx, orgID, "apiKey.updated", keyID.String(), map[string]any{"name": k.Name, "expiresAt": k.ExpiresAt})
	})
	return k, err
}

// checkLimitIfExpired checks the limit before an expired key becomes valid again. A
// live key is already counted.
func (s *Service) checkLimitIfExpired(ctx context.Context, tx *sqlx.Tx, orgID, keyID uuid.UUID, now time.Time) error {
	var expired bool
	err := tx.GetContext(ctx, &expired, `SELECT EXISTS (SELECT FROM api_keys WHERE id = $1 AND organization_id = $2
		AND revoked_at IS NULL AND NOT api_key_valid(revoked_at, expires_at, $3))`, keyID, orgID, now)
	if err != nil {
		return fmt.Errorf("read the expiry of a key: %w", err)
	}
	if !expired {
		return nil
	}
	return s.checkLimit(ctx, tx, orgID, now)
}

// Rotate creates a replacement of a key and returns it with the secret: with the same
// name and the same lifetime, from now on. The old key stays valid, or expires within
// expireOld (specification 5.3.3). An unknown, foreign or revoked key is NotFound. At
// the limit of live keys it returns Forbidden, unless the old key expires at once.
func (s *Service) Rotate(ctx context.Context, orgID, userID, keyID uuid.UUID, expireOld *time.Duration) (Key, string, error) {
	var k Key
	secret := newSecret()
	now := s.Clock.Now()
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		var old Key
		err := tx.GetContext(ctx, &old, `SELECT `+columns+` FROM api_keys
			WHERE id = $1 AND organization_id = $2 AND revoked_at IS NULL FOR UPDATE`, keyID, orgID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("key")
		}
		if err != nil {
			return fmt.Errorf("find a key: %w", err)
		}
		if k, err = newKey(old.Name, userID, now, old.replacementExpiry(now), secret); err != nil {
			return err
		}
		if expireOld != nil {
			if err := expire(ctx, tx, orgID, keyID, now.Add(*expireOld)); err != nil {
				return err
			}
		}
		if err := s.checkLimit(ctx, tx, orgID, now); err != nil {
			return err
		}
		if err := k.insert(ctx, tx, orgID, secret); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, "apiKey.rotated", keyID.String(), map[string]any{"name": k.Name, "replacement": k.ID})
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

// replacementExpiry returns the expiry of a key that replaces k.
func (k Key) replacementExpiry(now time.Time) *time.Time {
	if k.ExpiresAt == nil {
		return nil
	}
	return new(now.Add(k.ExpiresAt.Sub(k.CreatedAt)))
}

// expire sets the expiry to the given time, unless the key expires earlier.
func expire(ctx context.Context, tx *sqlx.Tx, orgID, keyID uuid.UUID, expiry time.Time) error {
	_, err := tx.ExecContext(ctx,
		`UPDATE api_keys SET expires_at = least(expires_at, $3) WHERE id = $1 AND organization_id = $2`, keyID, orgID, expiry)
	if err != nil {
		return fmt.Errorf("expire the old key: %w", err)
	}
	return nil
}

// Revoke invalidates a key from the next call on. An unknown, foreign or revoked key
// is NotFound.
func (s *Service) Revoke(ctx context.Context, orgID, keyID uuid.UUID) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		var name string
		err := tx.GetContext(ctx, &name, `
			UPDATE api_keys SET revoked_at = $3
			WHERE id = $1 AND organization_id = $2 AND revoked_at IS NULL RETURNING name`, keyID, orgID, s.Clock.Now())
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("key")
		}
		if err != nil {
			return fmt.Errorf("revoke a key: %w", err)
		}
		return s.Audit.Record(ctx, tx, orgID, "apiKey.revoked", keyID.String(), map[string]any{"name": name})
	})
}
