// Package idempotency makes requests safe to retry: the first successful answer to a
// request with a key is stored for a day and returned for every repetition of the
// request.
//
// A key is claimed while its request runs. The claim of a process that died expires
// after a minute; the effects of its request remain, and the next request with the key
// runs again. An answer can't be stored with an expired claim that another request
// took over.
package idempotency

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	// Lease is how long a claim without an answer is valid.
	Lease = time.Minute
	// Retention is how long an answer is stored.
	Retention = 24 * time.Hour

	maxAttempts = 4
)

// Request identifies a request with a key. Scope identifies the caller and where the
// request acts; keys of different scopes are unrelated. Fingerprint is equal for equal
// requests.
type Request struct {
	Scope       string
	Key         string
	Fingerprint [sha256.Size]byte
}

// id hashes the scope and the key. A scope contains no NUL.
func (r Request) id() []byte {
	sum := sha256.Sum256([]byte(r.Scope + "\x00" + r.Key))
	return sum[:]
}

// Answer is a stored answer.
type Answer struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// Storable reports whether an answer with this status is stored. Failures are not: a
// retry may succeed.
func Storable(status int) bool { return status < 400 }

// Claim is the right to store the answer of a request.
type Claim struct {
	id     []byte
	holder uuid.UUID
}

// Sealer encrypts answers. Open requires the aad that was passed to Seal.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Store holds the keys and answers. All times are the database's.
type Store struct {
	DB     *sqlx.DB
	Sealer Sealer
}

// claimSQL claims a key that is new, or whose claim or answer has expired.
const claimSQL = `
INSERT INTO idempotency_keys AS k (id, fingerprint, holder, lease_until, expires_at)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4), clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, holder = excluded.holder,
	lease_until = excluded.lease_until, expires_at = excluded.expires_at, status = NULL, answer = NULL
WHERE k.expires_at <= clock_timestamp() OR k.status IS NULL AND k.lease_until <= clock_timestamp()`

// Begin claims the key for the request, or returns the stored answer. It returns
// Conflict if the key was used for another request, or if the same request is still
// running; the latter includes when to retry.
func (s *Store) Begin(ctx context.Context, r Request) (*Claim, *Answer, error) {
	claim := &Claim{id: r.id(), holder: uuid.New()}
	for range maxAttempts {
		result, err := s.DB.ExecContext(ctx, claimSQL, claim.id, r.Fingerprint[:], claim.holder,
			Lease.Seconds(), Retention.Seconds())
		if err != nil {
			return nil, nil, fmt.Errorf("claim an idempotency key: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil {
			return nil, nil, fmt.Errorf("claim an idempotency key: %w", err)
		} else if n == 1 {
			return claim, nil, nil
		}
		answer, err := s.lookup(ctx, claim.id, r)
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, answer, err
		}
	}
	return nil, nil, errInProgress(time.Second)
}

// lookup reads a claimed key. It returns sql.ErrNoRows if the key no longer exists.
func (s *Store) lookup(ctx context.Context, id []byte, r Request) (*Answer, error) {
	var row struct {
		Fingerprint []byte  `db:"fingerprint"`
		Status      *int    `db:"status"`
		Answer      []byte  `db:"answer"`
		Lease       float64 `db:"lease"`
	}
	err := s.DB.GetContext(ctx, &row, `
		SELECT fingerprint, status, answer, EXTRACT(epoch FROM lease_until - clock_timestamp()) AS lease
		FROM idempotency_keys WHERE id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("look up an idempotency key: %w", err)
	}
	switch {
	case string(row.Fingerprint) != string(r.Fingerprint[:]):
		return nil, fault.New(fault.Conflict, "The Idempotency-Key was already used for another request.")
	case row.Status == nil:
		return nil, errInProgress(time.Duration(row.Lease * float64(time.Second)))
	}
	plain, err := s.Sealer.Open(row.Answer, associatedData(id))
	if err != nil {
		return nil, fmt.Errorf("decrypt a stored answer: %w", err)
	}
	var answer Answer
	if err := json.Unmarshal(plain, &answer); err != nil {
		return nil, fmt.Errorf("decode a stored answer: %w", err)
	}
	return &answer, nil
}

// maxRetryAfter bounds Retry-After for a running request: most end long before their
// claim expires.
const maxRetryAfter = 2 * time.Second

func errInProgress(remaining time.Duration) error {
	running := fault.New(fault.Conflict, "The first request with this Idempotency-Key is still running.")
	running.RetryAfter = min(max(remaining, time.Second), maxRetryAfter)
	return running
}

// Complete stores the answer. If the claim has expired and another request took it
// over, the answer is discarded without an error.
func (s *Store) Complete(ctx context.Context, c *Claim, a Answer) error {
	plain, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	sealed, err := s.Sealer.Seal(plain, associatedData(c.id))
	if err != nil {
		return fmt.Errorf("encrypt an answer: %w", err)
	}
	_, err = s.DB.ExecContext(ctx, `
		UPDATE idempotency_keys SET status = $3, answer = $4 WHERE id = $1 AND holder = $2 AND status IS NULL`,
		c.id, c.holder, a.Status, sealed)
	if err != nil {
		return fmt.Errorf("store an answer: %w", err)
	}
	return nil
}

// Release frees a key whose request has no answer to store.
func (s *Store) Release(ctx context.Context, c *Claim) error {
	_, err := s.DB.ExecContext(ctx,
		`DELETE FROM idempotency_keys WHERE id = $1 AND holder = $2 AND status IS NULL`, c.id, c.holder)
	if err != nil {
		return fmt.Errorf("release an idempotency key: %w", err)
	}
	return nil
}

// associatedData returns the aad of an encrypted answer.
func associatedData(id []byte) []byte { return append([]byte("idempotency:"), id...) }
