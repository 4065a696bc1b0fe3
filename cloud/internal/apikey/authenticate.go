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

// wellFormed reports whether a text has the form of a key. Other texts are not looked
// up.
func wellFormed(secret string) bool {
	body, ok := strings.CutPrefix(secret, secretPrefix)
	return ok && len(secret) == secretLength && strings.Trim(body, alphabet) == ""
}

// Identity is the key and its organization.
type Identity struct {
	KeyID uuid.UUID
	OrgID uuid.UUID
}

// Authenticator validates the keys of requests. Concurrent requests are validated by
// one statement.
type Authenticator struct {
	clock  clock.Clock
	find   *sqlx.Stmt
	checks *combine.Combiner[struct{}, digest, Identity]
	cache  identityCache
	uses   *useWriter
}

// findSQL selects the valid keys among those with the hashes $1, at the time $2.
const findSQL = `
SELECT key_hash, id, organization_id FROM api_keys
WHERE key_hash = ANY ($1) AND api_key_valid(revoked_at, expires_at, $2)`

// NewAuthenticator prepares its statement on a pool that sees all organizations. Close
// it before the pool. Errors that no caller receives are logged.
func NewAuthenticator(ctx context.Context, system *sqlx.DB, clock clock.Clock, logger *slog.Logger) (*Authenticator, error) {
	find, err := system.PreparexContext(ctx, findSQL)
	if err != nil {
		return nil, fmt.Errorf("prepare the key statement: %w", err)
	}
	a := &Authenticator{clock: clock, find: find, uses: newUseWriter(system, clock, logger)}
	a.checks = combine.New(a.check, combine.Options[struct{}, digest]{})
	return a, nil
}

// Close waits for checks in progress and closes the statement. Checks that the
// database does not answer within closeTimeout end with the pool.
func (a *Authenticator) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := errors.Join(a.checks.Close(ctx), a.uses.writes.Close(ctx)); err != nil {
		return err // closing a statement would wait for its users
	}
	return a.find.Close()
}

// Authenticate returns the identity of a valid key. A malformed, unknown, revoked or
// expired key is the same Unauthenticated error. Each call asks the database, so a
// revocation takes effect at once.
func (a *Authenticator) Authenticate(ctx context.Context, secret string) (Identity, error) {
	if !wellFormed(secret) {
		return Identity{}, errKey()
	}
	identity, err := a.checks.Do(ctx, struct{}{}, hash(secret))
	if err != nil {
		return Identity{}, err
	}
	if identity == (Identity{}) {
		return Identity{}, errKey()
	}
	return identity, nil
}

// check validates a batch of keys. An invalid key has the zero identity.
func (a *Authenticator) check(ctx context.Context, _ struct{}, batch []digest) ([]Identity, error) {
	return combine.Lookup(batch, func(distinct []digest) (map[digest]Identity, error) {
		hashes := make(pq.ByteaArray, len(distinct))
		for i := range distinct {
			hashes[i] = distinct[i][:]
		}
		return a.identities(ctx, hashes)
	})
}

// identities returns the valid keys with these hashes.
func (a *Authenticator) identities(ctx context.Context, hashes pq.ByteaArray) (map[digest]Identity, error) {
	var keys []struct {
		Hash  []byte    `db:"key_hash"`
		ID    uuid.UUID `db:"id"`
		OrgID uuid.UUID `db:"organization_id"`
	}
	if err := a.find.SelectContext(ctx, &keys, hashes, a.clock.Now()); err != nil {
		return nil, fmt.Errorf("find a key: %w", err)
	}
	known, ids := make(map[digest]Identity, len(keys)), make([]uuid.UUID, len(keys))
	for i, key := range keys {
		known[digest(key.Hash)], ids[i] = Identity{KeyID: key.ID, OrgID: key.OrgID}, key.ID
	}
	a.cache.add(known)
	a.RecordUse(ids)
	return known, nil
}

// Recall returns the identity of a key that was valid before, without checking whether
// it still is.
func (a *Authenticator) Recall(secret string) (Identity, bool) {
	if !wellFormed(secret) {
		return Identity{}, false
	}
	return a.cache.get(hash(secret))
}

// RecordUse records that valid keys are used now. It does not block.
func (a *Authenticator) RecordUse(ids []uuid.UUID) { a.uses.add(ids) }

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

func (s *identityCache) add(known map[digest]Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys)+len(known) > maxCachedKeys {
		s.keys = make(map[digest]Identity, len(known))
	}
	maps.Copy(s.keys, known)
}
