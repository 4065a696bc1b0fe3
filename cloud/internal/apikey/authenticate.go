package apikey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// A key is the marker and 160 random bits in lowercase base32, so that the
// lowercased form in an image path loses nothing (specification 5.3).
const (
	marker       = "svc_"
	alphabet     = "abcdefghijklmnopqrstuvwxyz234567"
	secretBytes  = 20
	secretLength = len(marker) + secretBytes*8/5
	prefixLength = 8
)

// useInterval is how often a key's last use is written at most.
const useInterval = time.Minute

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // it never fails: the program ends first
	return marker + encoding.EncodeToString(random)
}

func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// wellFormed reports whether a text can be a key at all; only such a text is
// worth a look into the database.
func wellFormed(secret string) bool {
	body, ok := strings.CutPrefix(secret, marker)
	return ok && len(secret) == secretLength && strings.Trim(body, alphabet) == ""
}

// Identity is whose key it is.
type Identity struct {
	KeyID uuid.UUID
	OrgID uuid.UUID
}

// Authenticate finds out whose key this is. A key that is malformed, unknown,
// revoked or expired is one Unauthenticated error. The database is asked each
// time, so a revocation is effective at once.
func (s *Service) Authenticate(ctx context.Context, secret string) (Identity, error) {
	if !wellFormed(secret) {
		return Identity{}, errKey()
	}
	now := s.Clock.Now()
	var key struct {
		ID         uuid.UUID  `db:"id"`
		OrgID      uuid.UUID  `db:"organization_id"`
		LastUsedAt *time.Time `db:"last_used_at"`
	}
	err := s.System.GetContext(ctx, &key, `
		SELECT id, organization_id, last_used_at FROM api_keys
		WHERE key_hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, hash(secret), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Identity{}, errKey()
	}
	if err != nil {
		return Identity{}, fmt.Errorf("find a key: %w", err)
	}
	if key.LastUsedAt == nil || now.Sub(*key.LastUsedAt) >= useInterval {
		if err := s.used(ctx, key.ID, now); err != nil {
			return Identity{}, err
		}
	}
	return Identity{KeyID: key.ID, OrgID: key.OrgID}, nil
}

// used writes the time of a use. When another request is just doing so, its
// time is as good, and nobody waits.
func (s *Service) used(ctx context.Context, id uuid.UUID, now time.Time) error {
	_, err := s.System.ExecContext(ctx, `
		UPDATE api_keys SET last_used_at = $2
		WHERE id = (SELECT id FROM api_keys
		            WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)
		            FOR NO KEY UPDATE SKIP LOCKED)`, id, now, now.Add(-useInterval))
	if err != nil {
		return fmt.Errorf("write the last use of a key: %w", err)
	}
	return nil
}

func errKey() error {
	return fault.New(fault.Unauthenticated, "The organization key is wrong, revoked or expired.")
}
