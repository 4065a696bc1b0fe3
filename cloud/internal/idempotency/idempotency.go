// Package idempotency makes requests safe to send again: the answer to the first
// one with a key is kept for a day, if it is a success, and given to every
// repetition of its request.
//
// A key is claimed while its request runs. Who claimed it and died leaves it
// claimed for a minute; what that request had done by then stays done, and the
// next one with the key runs anew. A claim that lapsed can't keep an answer any
// more.
package idempotency

import (
	"cmp"
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
	// Lease is how long a claim holds without an answer.
	Lease = time.Minute
	// Retention is how long an answer is given again, unless the Store says otherwise.
	DefaultRetention = 24 * time.Hour

	maxAttempts = 4
)

// Request is what came with a key. Scope says who sent it, and where it acts: a
// key means nothing in another scope. Fingerprint is the same for the same
// request.
type Request struct {
	Scope       string
	Key         string
	Fingerprint [sha256.Size]byte
}

// id names the key in its scope; a scope has no NUL.
func (r Request) id() []byte {
	sum := sha256.Sum256([]byte(r.Scope + "\x00" + r.Key))
	return sum[:]
}

// Answer is an answer to a request.
type Answer struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// Storable reports whether an answer of this status is kept: a success. The next
// attempt may find otherwise what is refused now, for lack of room, say, or
// during another change.
func Storable(status int) bool { return status < 400 }

// Claim is the right to answer a request.
type Claim struct {
	id     []byte
	holder uuid.UUID
}

// Sealer encrypts answers for storage. What was sealed with one aad can't be
// opened with another.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Store is the keys of everybody. Time is the database's clock.
type Store struct {
	DB        *sqlx.DB
	Sealer    Sealer
	Retention time.Duration // how long an answer is given again, longer than a Lease; Retention when 0
}

// claimSQL takes a key that is new, or whose claim or answer has lapsed.
const claimSQL = `
INSERT INTO idempotency_keys AS k (id, fingerprint, holder, lease_until, expires_at)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4), clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, holder = excluded.holder,
	lease_until = excluded.lease_until, expires_at = excluded.expires_at, status = NULL, answer = NULL
WHERE k.expires_at <= clock_timestamp() OR k.status IS NULL AND k.lease_until <= clock_timestamp()`

// Begin claims the key for the request, or returns the answer that it got
// before. It is a Conflict when the key belongs to another request, and when the
// same one still runs; the latter says when to come again.
func (s *Store) Begin(ctx context.Context, r Request) (*Claim, *Answer, error) {
	claim := &Claim{id: r.id(), holder: uuid.New()}
	for range maxAttempts {
		result, err := s.DB.ExecContext(ctx, claimSQL, claim.id, r.Fingerprint[:], claim.holder,
			Lease.Seconds(), cmp.Or(s.Retention, DefaultRetention).Seconds())
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

// lookup reads a key that is taken; sql.ErrNoRows when it is not any more.
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
		return nil, fault.New(fault.Conflict, "The Idempotency-Key was used for another request.")
	case row.Status == nil:
		return nil, errInProgress(time.Duration(row.Lease * float64(time.Second)))
	}
	plain, err := s.Sealer.Open(row.Answer, associatedData(id))
	if err != nil {
		return nil, fmt.Errorf("open a kept answer: %w", err)
	}
	var answer Answer
	if err := json.Unmarshal(plain, &answer); err != nil {
		return nil, fmt.Errorf("read a kept answer: %w", err)
	}
	return &answer, nil
}

// maxRetryAfter is when to ask about a request that runs: most end well before their
// claim would.
const maxRetryAfter = 2 * time.Second

func errInProgress(left time.Duration) error {
	running := fault.New(fault.Conflict, "The first request with this Idempotency-Key still runs.")
	running.RetryAfter = min(max(left, time.Second), maxRetryAfter)
	return running
}

// Complete keeps the answer. It is lost, and no error, when the claim has
// lapsed and somebody else has taken the key.
func (s *Store) Complete(ctx context.Context, c *Claim, a Answer) error {
	plain, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	sealed, err := s.Sealer.Seal(plain, associatedData(c.id))
	if err != nil {
		return fmt.Errorf("seal an answer: %w", err)
	}
	_, err = s.DB.ExecContext(ctx, `
		UPDATE idempotency_keys SET status = $3, answer = $4 WHERE id = $1 AND holder = $2 AND status IS NULL`,
		c.id, c.holder, a.Status, sealed)
	if err != nil {
		return fmt.Errorf("keep an answer: %w", err)
	}
	return nil
}

// Release frees a key whose request got no answer that is kept.
func (s *Store) Release(ctx context.Context, c *Claim) error {
	_, err := s.DB.ExecContext(ctx,
		`DELETE FROM idempotency_keys WHERE id = $1 AND holder = $2 AND status IS NULL`, c.id, c.holder)
	if err != nil {
		return fmt.Errorf("free an idempotency key: %w", err)
	}
	return nil
}

// associatedData is where a sealed answer belongs.
func associatedData(id []byte) []byte { return append([]byte("idempotency:"), id...) }
