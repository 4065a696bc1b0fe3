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

	emails "github.com/browser-svc/svc/cloud/internal/email"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// How attempts are slowed: as many as a kind has free within the window, then a
// pause after each one, which doubles up to the longest. A window without an
// attempt after the last pause, and all is forgotten. A kind that is hourly has so
// many free in an hour, then none until the hour is over.
const (
	window       = 15 * time.Minute
	firstPause   = 30 * time.Second
	longestPause = 15 * time.Minute
)

// limitKind is what is counted, and how much of it is free within a window.
type limitKind struct {
	name   string
	free   int
	hourly bool
}

// limitKey is who something is counted of: an address, whether or not it has an
// account, or a client.
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

// failuresBySession counts wrong passwords that were given in a session: who has one is
// no stranger.
func failuresBySession(session uuid.UUID) limitKey {
	return newLimitKey(limitKind{"failures.session", 5, false}, session.String())
}

// failuresByClient counts wrong passwords and wrong tokens that a client sent, and
// passwords that it sent during the pause of an address.
func failuresByClient(c Client) limitKey {
	return newLimitKey(limitKind{"failures.client", 20, false}, c.network())
}

// mailsByEmail counts the mails that an address was asked to be sent.
func mailsByEmail(email string) limitKey {
	return newLimitKey(limitKind{"mails.email", 5, false}, emails.Normal(email))
}

// mailsByClient counts the mails that a client asked for.
func mailsByClient(c Client) limitKey {
	return newLimitKey(limitKind{"mails.client", 20, false}, c.network())
}

// invitationLimits counts the mails that invited an address, and those that went out
// from an organization and from whoever invited. They are apart from the mails
// that an address asks for: to invite somebody must not keep a reset from them.
func invitationLimits(orgID, inviterID uuid.UUID, email string) []limitKey {
	return []limitKey{
		newLimitKey(limitKind{"invitations.email", 5, false}, emails.Normal(email)),
		newLimitKey(limitKind{"invitations.organization", 100, false}, orgID.String()),
		newLimitKey(limitKind{"invitations.user", 100, false}, inviterID.String()),
	}
}

// signUpsByClient counts the accounts that a client made, or tried to: whether one could
// be made tells whether the address has one.
func signUpsByClient(c Client) limitKey {
	return newLimitKey(limitKind{"signUps.client", 10, true}, c.network())
}

// attemptLimiter counts in the database, for all replicas.
type attemptLimiter struct {
	db    *sqlx.DB
	clock clock.Clock
}

// decision decides on an attempt in a transaction. A refusal is the answer of one
// that failed; what the verdict wrote before stays.
type decision func(tx *sqlx.Tx) (refusal, err error)

// check returns RateLimited when one of the subjects must pause. It holds nobody
// off; it only spares what try or spend would refuse afterwards the work before.
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

// countFailures makes an attempt that is counted when it fails. When one of the subjects
// must pause, the answer is RateLimited and the verdict is never asked. The
// subjects are locked meanwhile: of many attempts at once no more than the free
// ones are answered.
func (a attemptLimiter) countFailures(ctx context.Context, subjects []limitKey, decide decision) error {
	return a.do(ctx, subjects, false, decide)
}

// countAlways makes an attempt that is counted whatever becomes of it.
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

// increment is what is known of a subject.
type attemptCount struct {
	Kind         string    `db:"kind"`
	Subject      []byte    `db:"subject"`
	Attempts     int       `db:"attempts"`
	BlockedUntil time.Time `db:"blocked_until"`
	ForgetAt     time.Time `db:"forget_at"`
	limit        limitKind
}

// lockCountsSQL locks the counts of subjects, in their order, and makes those that
// there are none of.
const lockCountsSQL = `
	INSERT INTO auth_attempts AS a (kind, subject, attempts, blocked_until, forget_at)
	SELECT kind, subject, 0, $3, $4 FROM unnest($1::text[], $2::bytea[]) AS s (kind, subject)
	ON CONFLICT (kind, subject) DO UPDATE SET kind = excluded.kind
	RETURNING a.kind, a.subject, a.attempts, a.blocked_until, a.forget_at`

// acquire locks the subjects and returns their counts, in the order of their
// kinds' names, which is that of all who lock several.
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

// columns are subjects as statements take them.
func columns(subjects []limitKey) (kinds []string, hashes [][]byte) {
	for _, s := range subjects {
		kinds, hashes = append(kinds, s.name), append(hashes, s.hash[:])
	}
	return kinds, hashes
}

// checkPause is RateLimited when one of those counted must pause.
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

// increment counts one more attempt of each.
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

// window is how long attempts of the kind are remembered.
func (k limitKind) window() time.Duration {
	if k.hourly {
		return time.Hour
	}
	return window
}

// pauseFor is how long to pause after the last free attempt (0) and those
// that follow.
func pauseFor(beyond int) time.Duration {
	pause := firstPause
	for range beyond {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// deleteCount forgets what was counted of a subject.
func deleteCount(ctx context.Context, tx *sqlx.Tx, s limitKey) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM auth_attempts WHERE kind = $1 AND subject = $2`, s.name, s.hash[:])
	if err != nil {
		return fmt.Errorf("delete an attempt count: %w", err)
	}
	return nil
}
