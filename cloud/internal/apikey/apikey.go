// Package apikey holds the organization keys, which an organization's workers
// show to the cloud (specification 5.3).
package apikey

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Key is an organization key without the key itself.
type Key struct {
	ID         uuid.UUID     `db:"id"`
	Name       string        `db:"name"`
	Prefix     string        `db:"prefix"`    // its first eight characters
	LastFour   string        `db:"last_four"` // its last four
	CreatedBy  uuid.NullUUID `db:"created_by"`
	CreatedAt  time.Time     `db:"created_at"`
	LastUsedAt *time.Time    `db:"last_used_at"` // to the minute; nil when never
	ExpiresAt  *time.Time    `db:"expires_at"`   // nil when never
}

// Service makes, lists, revokes and checks keys.
type Service struct {
	db    *sqlx.DB
	clock clock.Clock
}

// New returns a Service.
func New(db *sqlx.DB, clock clock.Clock) *Service { return &Service{db: db, clock: clock} }

// NewKey is what a key is made of.
type NewKey struct {
	Name      string
	ExpiresAt *time.Time // nil for a key that does not expire
}

// Create makes a key of the organization and returns it with the secret, which
// can't be had again (specification 5.3). An expiry that is not in the future
// is a Validation error.
func (s *Service) Create(ctx context.Context, orgID, userID uuid.UUID, n NewKey) (Key, string, error) {
	now := s.clock.Now()
	if n.ExpiresAt != nil {
		expires := n.ExpiresAt.UTC().Truncate(time.Microsecond)
		if !expires.After(now) {
			return Key{}, "", fault.Field("expiresAt", "must be in the future")
		}
		n.ExpiresAt = &expires
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Key{}, "", fmt.Errorf("make a key id: %w", err)
	}
	secret := newSecret()
	k := Key{
		ID: id, Name: n.Name, Prefix: secret[:prefixLength], LastFour: secret[len(secret)-4:],
		CreatedBy: uuid.NullUUID{UUID: userID, Valid: true}, CreatedAt: now, ExpiresAt: n.ExpiresAt,
	}
	_, err = s.db.ExecContext(ctx, `
		INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		k.ID, orgID, k.Name, hash(secret), k.Prefix, k.LastFour, k.CreatedBy, k.CreatedAt, k.ExpiresAt)
	if err != nil {
		return Key{}, "", fmt.Errorf("make a key: %w", err)
	}
	return k, secret, nil
}

// sortable maps the names that keys sort by to columns. A key that was never
// used comes before all others in time.
var sortable = map[string]string{
	"createdAt":  "created_at",
	"name":       "name",
	"lastUsedAt": "coalesce(last_used_at, '-infinity')",
}

// List returns a page of the organization's keys without the revoked ones. It
// sorts by createdAt, name or lastUsedAt.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[Key], error) {
	result := page.Page[Key]{Request: r, Items: []Key{}}
	err := s.db.GetContext(ctx, &result.Total,
		`SELECT count(*) FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL`, orgID)
	if err != nil {
		return result, fmt.Errorf("count the keys: %w", err)
	}
	err = s.db.SelectContext(ctx, &result.Items, `
		SELECT id, name, prefix, last_four, created_by, created_at, last_used_at, expires_at
		FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL`+
		r.Order(sortable)+` LIMIT $2 OFFSET $3`, orgID, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the keys: %w", err)
	}
	return result, nil
}

// Revoke makes a key worthless from the next call on. One that is unknown,
// another organization's or revoked already is NotFound.
func (s *Service) Revoke(ctx context.Context, orgID, keyID uuid.UUID) error {
	result, err := s.db.ExecContext(ctx, `
		UPDATE api_keys SET revoked_at = $3
		WHERE id = $1 AND organization_id = $2 AND revoked_at IS NULL`, keyID, orgID, s.clock.Now())
	if err != nil {
		return fmt.Errorf("revoke a key: %w", err)
	}
	if revoked, err := result.RowsAffected(); err != nil || revoked == 1 {
		return err
	}
	return fault.Missing("key")
}
