// Package apikey manages organization keys, which an organization's workers send to
// the cloud (specification 5.3).
package apikey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Key describes an organization key without its secret.
type Key struct {
	ID         uuid.UUID     `db:"id"`
	Name       string        `db:"name"`
	Prefix     string        `db:"prefix"`    // its first eight characters
	LastFour   string        `db:"last_four"` // its last four
	CreatedBy  uuid.NullUUID `db:"created_by"`
	CreatedAt  time.Time     `db:"created_at"`
	LastUsedAt *time.Time    `db:"last_used_at"` // rounded to the minute; nil if never used
	ExpiresAt  *time.Time    `db:"expires_at"`   // nil if the key does not expire
}

// columns are the columns of Key.
const columns = `id, name, prefix, last_four, created_by, created_at, last_used_at, expires_at`

// Service creates, lists, changes and revokes keys.
type Service struct {
	DB      *sqlx.DB
	Clock   clock.Clock
	Audit   Recorder
	MaxLive int // maximum number of live keys per organization; 0 is unlimited
}

// Recorder writes the audit log. It reads the actor from the context.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// NewKey holds the properties of a new key.
type NewKey struct {
	Name      string
	ExpiresAt *time.Time // nil if the key does not expire
}

// Create creates a key of the organization and returns it with the secret, which can't
// be retrieved again (specification 5.3). An expiry that is not in the future is a
// Validation error. At MaxLive keys it returns Forbidden with both numbers.
func (s *Service) Create(ctx context.Context, orgID, userID uuid.UUID, n NewKey) (Key, string, error) {
	secret := newSecret()
	k, err := s.create(ctx, orgID, userID, n, secret)
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

// Register creates a key of the organization with a secret that the caller generated.
// A text that does not have the form of a key is a Validation error. A secret that
// exists already, also revoked, is a Conflict. The other errors are those of Create.
func (s *Service) Register(ctx context.Context, orgID, userID uuid.UUID, n NewKey, secret string) (Key, error) {
	if !WellFormed(secret) {
		return Key{}, fault.Field("key", "must be "+secretPrefix+" and 20 random bytes in lowercase base32")
	}
	k, err := s.create(ctx, orgID, userID, n, secret)
	if pg.IsUnique(err, "api_keys_key_hash_key") {
		return Key{}, fault.New(fault.Conflict, "The key exists already, or it was revoked.")
	}
	return k, err
}

func (s *Service) create(ctx context.Context, orgID, userID uuid.UUID, n NewKey, secret string) (Key, error) {
	now := s.Clock.Now()
	expires, err := parseExpiry(n.ExpiresAt, now)
	if err != nil {
		return Key{}, err
	}
	k, err := newKey(n.Name, userID, now, expires, secret)
	if err != nil {
		return Key{}, err
	}
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := s.checkLimit(ctx, tx, orgID, now); err != nil {
			return err
		}
		if err := k.insert(ctx, tx, orgID, secret); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, "apiKey.created", k.ID.String(), map[string]any{"name": k.Name, "expiresAt": k.ExpiresAt})
	})
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// checkLimit returns Forbidden if the organization has MaxLive live keys. It blocks
// concurrent creations until tx ends, and counts in a separate statement, which sees
// what those before have committed.
func (s *Service) checkLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, now time.Time) error {
	if s.MaxLive == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('keys of ' || $1, 0))`, orgID.String()); err != nil {
		return fmt.Errorf("lock the keys of an organization: %w", err)
	}
	var live int
	err := tx.GetContext(ctx, &live,
		`SELECT count(*) FROM api_keys WHERE organization_id = $1 AND api_key_valid(revoked_at, expires_at, $2)`, orgID, now)
	if err != nil {
		return fmt.Errorf("count live keys: %w", err)
	}
	if live < s.MaxLive {
		return nil
	}
	return fault.New(fault.Forbidden, "The organization has reached its limit of live keys. Revoke a key first.", fault.Detail{
		Field: "liveKeys", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": live, "limit": s.MaxLive},
	})
}

// parseExpiry returns the expiry as it is stored; nil is none.
func parseExpiry(expires *time.Time, now time.Time) (*time.Time, error) {
	if expires == nil {
		return nil, nil
	}
	stored := expires.UTC().Truncate(time.Microsecond)
	if !stored.After(now) {
		return nil, fault.Field("expiresAt", "must be in the future")
	}
	return &stored, nil
}

func newKey(name string, userID uuid.UUID, now time.Time, expires *time.Time, secret string) (Key, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Key{}, fmt.Errorf("generate a key id: %w", err)
	}
	return Key{
		ID: id, Name: name, Prefix: secret[:prefixLength], LastFour: secret[len(secret)-4:],
		CreatedBy: uuid.NullUUID{UUID: userID, Valid: userID != uuid.Nil}, CreatedAt: now, ExpiresAt: expires,
	}, nil
}

func (k Key) insert(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, secret string) error {
	sum := hash(secret)
	_, err := tx.ExecContext(ctx, `
		INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		k.ID, orgID, k.Name, sum[:], k.Prefix, k.LastFour, k.CreatedBy, k.CreatedAt, k.ExpiresAt)
	if err != nil {
		return fmt.Errorf("insert a key: %w", err)
	}
	return nil
}

// sortable maps sortBy to columns. A key that was never used sorts before all others
// by time.
var sortable = map[string]string{
	"createdAt":  "created_at",
	"name":       "name",
	"lastUsedAt": "coalesce(last_used_at, '-infinity')",
}

// List returns a page of the organization's keys that are not revoked. It sorts by
// createdAt, name or lastUsedAt.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[Key], error) {
	const fromClause = ` FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL`
	result := page.Page[Key]{Request: r, Items: []Key{}}
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+fromClause, orgID); err != nil {
			return fmt.Errorf("count the keys: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items,
			`SELECT `+columns+fromClause+r.OrderBy(sortable)+` LIMIT $2 OFFSET $3`, orgID, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the keys: %w", err)
		}
		return nil
	})
	return result, err
}

// Find returns the key with this id or secret, and its organization. An unknown or
// revoked key is NotFound. The pool must see all organizations.
func Find(ctx context.Context, system *sqlx.DB, ref string) (Key, uuid.UUID, error) {
	var found struct {
		Key
		OrgID uuid.UUID `db:"organization_id"`
	}
	sum := hash(ref)
	err := system.GetContext(ctx, &found, `SELECT organization_id, `+columns+` FROM api_keys
		WHERE (id::text = $1 OR key_hash = $2) AND revoked_at IS NULL`, strings.ToLower(ref), sum[:])
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, uuid.Nil, fault.Missing("key")
	}
	if err != nil {
		return Key{}, uuid.Nil, fmt.Errorf("find a key: %w", err)
	}
	return found.Key, found.OrgID, nil
}
