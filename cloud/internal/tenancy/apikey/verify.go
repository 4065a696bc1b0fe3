package apikey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/combine"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// A key is the prefix and 160 random bits in lowercase base32, so that the lowercase
// form in an image path loses no information (specification 5.3).
const (
	secretPrefix = "svc_"
	alphabet     = "abcdefghijklmnopqrstuvwxyz234567"
	secretBytes  = 20
	secretLength = len(secretPrefix) + secretBytes*8/5
	prefixLength = 8
)

// closeTimeout bounds how long Close waits for checks in progress.
const closeTimeout = 15 * time.Second

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never returns an error
	return secretPrefix + encoding.EncodeToString(random)
}

// digest is the SHA-256 of a key, the only form that is stored.
type digest [sha256.Size]byte

func hash(secret string) digest { return sha256.Sum256([]byte(secret)) }

// WellFormed reports whether a text has the form of a key. Other texts are not looked
// up.
func WellFormed(secret string) bool {
	body, ok := strings.CutPrefix(secret, secretPrefix)
	return ok && len(secret) == secretLength && strings.Trim(body, alphabet) == ""
}

// Identity is the key and its organization.
type Identity struct {
	KeyID uuid.UUID
	OrgID uuid.UUID
}

// Verifier verifies organization keys. Every key of a request passes it, in one of two
// ways: Verify asks the database, with one statement for concurrent requests. Recall,
// ValidSQL and Reject verify a recalled key as part of another statement.
type Verifier struct {
	clock  clock.Clock
	find   *sqlx.Stmt
	checks *combine.Combiner[struct{}, digest, Identity]
	cache  identityCache
	uses   *useWriter
}

// findSQL selects the valid keys among those with the hashes $1, at the time $2.
// validSQL does the same with ids. The function api_key_valid decides which keys are
// valid.
const (
	findSQL = `
SELECT key_hash, id, organization_id FROM api_keys
WHERE key_hash = ANY ($1) AND api_key_valid(revoked_at, expires_at, $2)`
	validSQL = `SELECT id FROM api_keys WHERE id = ANY ($1) AND api_key_valid(revoked_at, expires_at, $2)`
)

// NewVerifier prepares its statement on a pool that sees all organizations. Close
// it before the pool. Errors that no caller receives are logged.
func NewVerifier(ctx context.Context, system *sqlx.DB, clock clock.Clock, logger *slog.Logger) (*Verifier, error) {
	find, err := system.PreparexContext(ctx, findSQL)
	if err != nil {
		return nil, fmt.Errorf("prepare the key statement: %w", err)
	}
	v := &Verifier{clock: clock, find: find, uses: newUseWriter(system, clock, logger)}
	v.checks = combine.New(v.check, combine.Options[struct{}, digest]{Name: "verify keys"})
	return v, nil
}

// Close waits for checks in progress and closes the statement. Checks that the
// database does not answer within closeTimeout end with the pool.
func (v *Verifier) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := errors.Join(v.checks.Close(ctx), v.uses.writes.Close(ctx)); err != nil {
		return err // closing a statement would wait for its users
	}
	return v.find.Close()
}

// Verify returns the identity of a valid key. A malformed, unknown, revoked or
// expired key is the same Unauthenticated error. Each call asks the database, so a
// revocation takes effect at once.
func (v *Verifier) Verify(ctx context.Context, secret string) (Identity, error) {
	if !WellFormed(secret) {
		return Identity{}, errKey()
	}
	identity, err := v.checks.Do(ctx, struct{}{}, hash(secret))
	if err != nil {
		return Identity{}, err
	}
	if identity == (Identity{}) {
		return Identity{}, errKey()
	}
	return identity, nil
}

// check validates a batch of keys. An invalid key has the zero identity.
func (v *Verifier) check(ctx context.Context, _ struct{}, batch []digest) ([]Identity, error) {
	return combine.Lookup(batch, func(distinct []digest) (map[digest]Identity, error) {
		hashes := make(pq.ByteaArray, len(distinct))
		for i := range distinct {
			hashes[i] = distinct[i][:]
		}
		return v.identities(ctx, hashes)
	})
}

// identities returns the valid keys with these hashes.
func (v *Verifier) identities(ctx context.Context, hashes pq.ByteaArray) (map[digest]Identity, error) {
	var keys []struct {
		Hash  []byte    `db:"key_hash"`
		ID    uuid.UUID `db:"id"`
		OrgID uuid.UUID `db:"organization_id"`
	}
	if err := v.find.SelectContext(ctx, &keys, hashes, v.clock.Now()); err != nil {
		return nil, fmt.Errorf("find a key: %w", err)
	}
	identities, ids := make(map[digest]Identity, len(keys)), make([]uuid.UUID, len(keys))
	for i, key := range keys {
		identities[digest(key.Hash)], ids[i] = Identity{KeyID: key.ID, OrgID: key.OrgID}, key.ID
	}
	v.cache.add(identities)
	v.uses.add(ids)
	return identities, nil
}

// Recall returns the identity of a key that was valid before, without checking whether
// it still is. The caller must verify it.
func (v *Verifier) Recall(secret string) (Identity, bool) {
	if !WellFormed(secret) {
		return Identity{}, false
	}
	return v.cache.get(hash(secret))
}

// ValidSQL returns the query for the ids of the valid keys among $1, at the time $2.
// The result is for Reject.
func (v *Verifier) ValidSQL() string { return validSQL }

// Reject records that the valid keys are used now, and returns the same Unauthenticated
// error as Verify for each other key. It does not block.
func (v *Verifier) Reject(keys, valid []uuid.UUID) map[uuid.UUID]error {
	if len(valid) > 0 {
		v.uses.add(valid)
	}
	rejected := map[uuid.UUID]error{}
	for _, key := range keys {
		if !slices.Contains(valid, key) {
			rejected[key] = errKey()
		}
	}
	return rejected
}

func errKey() error {
	return fault.New(fault.Unauthenticated, "The organization key is invalid, revoked or expired.")
}

// maxCachedKeys bounds the cached identities.
const maxCachedKeys = 10_000

// identityCache caches the identities of keys that were valid. An identity stays
// correct, since a key never changes its organization, but the key may have been
// revoked or have expired.
type identityCache struct {
	mu   sync.RWMutex
	keys map[digest]Identity
}

func (s *identityCache) get(d digest) (Identity, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	identity, ok := s.keys[d]
	return identity, ok
}

func (s *identityCache) add(identities map[digest]Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys)+len(identities) > maxCachedKeys {
		s.keys = make(map[digest]Identity, len(identities))
	}
	maps.Copy(s.keys, identities)
}
