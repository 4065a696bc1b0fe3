package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Attempts are limited per kind: a number of attempts is free within the window,
// and each further one is followed by a pause, which doubles up to longestPause.
// After a window without attempts since the last pause, the count starts over. An
// hourly kind allows its free attempts per hour and then pauses until the hour is
// over.
const (
	window       = 15 * time.Minute
	firstPause   = 30 * time.Second
	longestPause = 15 * time.Minute
)

// limitKind is a kind of attempt and the number of them that is free within a
// window.
type limitKind struct {
	name   string
	free   int
	hourly bool
}

// limitKey identifies what attempts are counted by, such as an e-mail address
// (with or without an account) or a client's network.
type limitKey struct {
	limitKind
	hash [sha256.Size]byte
}

func newLimitKey(k limitKind, text string) limitKey {
	return limitKey{limitKind: k, hash: sha256.Sum256([]byte(text))}
}

// failuresByEmail counts wrong passwords for an address.
func failuresByEmail(email string) limitKey {
	return newLimitKey(limitKind{"failures.email", 5, false}, emails.Normal(email))
}

// failuresBySession counts wrong passwords given in a session, apart from those
// of unauthenticated clients.
func failuresBySession(session uuid.UUID) limitKey {
	return newLimitKey(limitKind{"failures.session", 5, false}, session.String())
}

// failuresByClient counts wrong passwords and tokens sent by a client, and
// passwords sent while the address is paused.
func failuresByClient(c Client) limitKey {
	return newLimitKey(limitKind{"failures.client", 20, false}, c.network())
}

// mailsByEmail counts the mails that were requested for an address.
func mailsByEmail(email string) limitKey {
	return newLimitKey(limitKind{"mails.email", 5, false}, emails.Normal(email))
}

// mailsByClient counts the mails requested by a client.
func mailsByClient(c Client) limitKey {
	return newLimitKey(limitKind{"mails.client", 20, false}, c.network())
}

// invitationLimits count the invitation mails to an address, from an organization
// and from an inviter. They are separate from the mails that an address requests,
// so that invitations cannot block a password reset.
func invitationLimits(orgID, inviterID uuid.UUID, email string) []limitKey {
	return []limitKey{
		newLimitKey(limitKind{"invitations.email", 5, false}, emails.Normal(email)),
		newLimitKey(limitKind{"invitations.organization", 100, false}, orgID.String()),
		newLimitKey(limitKind{"invitations.user", 100, false}, inviterID.String()),
	}
}

// signInLinksByUser counts the sign-in links that a user created.
func signInLinksByUser(userID uuid.UUID) limitKey {
	return newLimitKey(limitKind{"signInLinks.user", 20, false}, userID.String())
}

// signUpsByClient counts successful and failed sign-ups of a client, because a
// failure reveals whether an address has an account.
func signUpsByClient(c Client) limitKey {
	return newLimitKey(limitKind{"signUps.client", 10, true}, c.network())
}

// attemptLimiter counts attempts in the database, for all replicas together.
type attemptLimiter struct {
	db    *sqlx.DB
	clock clock.Clock
}

// decision decides an attempt in a transaction. A refusal is the error of a
// failed attempt; the transaction still commits.
type decision func(tx *sqlx.Tx) (refusal, err error)

// check returns RateLimited if one of the keys is paused. It takes no locks: it
// only avoids work that countFailures or countAlways would refuse afterwards.
func (a attemptLimiter) check(ctx context.Context, subjects ...limitKey) error {
	kinds, hashes := columns(subjects)
	var counts []attemptCount
	err := a.db.SelectContext(ctx, &counts, `
		SELECT blocked_until FROM auth_attempts
		WHERE (kind, subject) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))`, pq.Array(kinds), pq.ByteaArray(hashes))
	if err != nil {
		return fmt.Errorf("read attempt counts: %w", err)
	}
	return a.checkPause(counts...)
}

// countFailures runs an attempt and counts it if it fails. It returns
// RateLimited, without calling decide, if one of the keys is paused. The keys are
// locked meanwhile, so concurrent attempts cannot exceed the limit.
func (a attemptLimiter) countFailures(ctx context.Context, subjects []limitKey, decide decision) error {
	return a.do(ctx, subjects, false, decide)
}

// countAlways runs an attempt and counts it whether or not it fails.
func (a attemptLimiter) countAlways(ctx context.Context, subjects []limitKey, decide decision) error {
	return a.do(ctx, subjects, true, decide)
}

func (a attemptLimiter) do(ctx context.Context, subjects []limitKey, always bool, decide decision) error {
	var refusal error
	err := pg.InTx(ctx, a.db, func(tx *sqlx.Tx) error {
		counts, err := a.lockCounts(ctx, tx, subjects)
		if err == nil {
			err = a.checkPause(counts...)
		}
		if err != nil {
			return err
		}
		refusal, err = decide(tx)
		if err != nil || refusal == nil && !always {
			return err
		}
		return a.increment(ctx, tx, counts...)
	})
	if err != nil {
		return err
	}
	return refusal
}

// attemptCount is the count of a key.
type attemptCount struct {
	Kind         string    `db:"kind"`
	Subject      []byte    `db:"subject"`
	Attempts     int       `db:"attempts"`
	BlockedUntil time.Time `db:"blocked_until"`
	ForgetAt     time.Time `db:"forget_at"`
	limit        limitKind
}

// lockCountsSQL locks the counts of keys, in the order given, and inserts missing
// ones.
const lockCountsSQL = `
	INSERT INTO auth_attempts AS a (kind, subject, attempts, blocked_until, forget_at)
	SELECT kind, subject, 0, $3, $4 FROM unnest($1::text[], $2::bytea[]) AS s (kind, subject)
	ON CONFLICT (kind, subject) DO UPDATE SET kind = excluded.kind
	RETURNING a.kind, a.subject, a.attempts, a.blocked_until, a.forget_at`

// lockCounts locks the keys and returns their counts, ordered by kind name. All
// callers use this order, which prevents deadlocks.
func (a attemptLimiter) lockCounts(ctx context.Context, tx *sqlx.Tx, subjects []limitKey) ([]attemptCount, error) {
	subjects = slices.SortedFunc(slices.Values(subjects), func(a, b limitKey) int { return cmp.Compare(a.name, b.name) })
	kinds, hashes := columns(subjects)
	now := a.clock.Now()
	var counts []attemptCount
	err := tx.SelectContext(ctx, &counts, lockCountsSQL, pq.Array(kinds), pq.ByteaArray(hashes), now, now.Add(window))
	if err != nil {
		return nil, fmt.Errorf("lock attempt counts: %w", err)
	}
	slices.SortFunc(counts, func(a, b attemptCount) int { return cmp.Compare(a.Kind, b.Kind) })
	for i, s := range subjects {
		counts[i].limit = s.limitKind
	}
	return counts, nil
}

// columns returns the keys as parameter arrays.
func columns(subjects []limitKey) (kinds []string, hashes [][]byte) {
	for _, s := range subjects {
		kinds, hashes = append(kinds, s.name), append(hashes, s.hash[:])
	}
	return kinds, hashes
}

// checkPause returns RateLimited if one of the counts is paused.
func (a attemptLimiter) checkPause(counts ...attemptCount) error {
	var pause time.Duration
	for _, c := range counts {
		pause = max(pause, c.BlockedUntil.Sub(a.clock.Now()))
	}
	if pause <= 0 {
		return nil
	}
	refusal := fault.New(fault.RateLimited, "Too many attempts. Try again later.")
	refusal.RetryAfter = pause
	return refusal
}

// increment counts one more attempt for each key.
func (a attemptLimiter) increment(ctx context.Context, tx *sqlx.Tx, counts ...attemptCount) error {
	for _, c := range counts {
		c.increment(a.clock.Now())
		if err := c.save(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (c *attemptCount) save(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE auth_attempts SET attempts = $3, blocked_until = $4, forget_at = $5 WHERE kind = $1 AND subject = $2`,
		c.Kind, c.Subject, c.Attempts, c.BlockedUntil, c.ForgetAt)
	if err != nil {
		return fmt.Errorf("count an attempt: %w", err)
	}
	return nil
}

func (c *attemptCount) increment(now time.Time) {
	if !now.Before(c.ForgetAt) || c.limit.hourly && c.Attempts == 0 {
		c.Attempts, c.ForgetAt = 0, now.Add(c.limit.window())
	}
	c.Attempts++
	beyond := c.Attempts - c.limit.free
	switch {
	case beyond < 0:
	case c.limit.hourly:
		c.BlockedUntil = c.ForgetAt
	default:
		c.BlockedUntil = now.Add(pauseFor(beyond))
		if after := c.BlockedUntil.Add(window); after.After(c.ForgetAt) {
			c.ForgetAt = after
		}
	}
}

// window returns how long attempts of the kind are counted.
func (k limitKind) window() time.Duration {
	if k.hourly {
		return time.Hour
	}
	return window
}

// pauseFor returns the pause after the given number of attempts beyond the free
// ones.
func pauseFor(beyond int) time.Duration {
	pause := firstPause
	for range beyond {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// deleteCount resets the count of a key.
func deleteCount(ctx context.Context, tx *sqlx.Tx, s limitKey) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM auth_attempts WHERE kind = $1 AND subject = $2`, s.name, s.hash[:])
	if err != nil {
		return fmt.Errorf("delete an attempt count: %w", err)
	}
	return nil
}
