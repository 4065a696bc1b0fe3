package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// How attempts are slowed: as many as a kind has free within the window, then a
// pause after each one, which doubles up to the longest. A window without an
// attempt after the last pause, and all is forgotten.
const (
	window       = 15 * time.Minute
	firstPause   = 30 * time.Second
	longestPause = 15 * time.Minute
)

// kind is what is counted, and how much of it is free within a window.
type kind struct {
	name string
	free int
}

// subject is who something is counted of: an address, whether or not it has an
// account, or a client.
type subject struct {
	kind
	hash [sha256.Size]byte
}

func of(k kind, text string) subject { return subject{kind: k, hash: sha256.Sum256([]byte(text))} }

// failuresOf counts wrong passwords for an address.
func failuresOf(email string) subject { return of(kind{"failures.email", 5}, normal(email)) }

// failuresFrom counts wrong passwords and wrong tokens that a client sent.
func failuresFrom(c Client) subject { return of(kind{"failures.client", 20}, c.network()) }

// mailsTo counts the mails that an address was asked to be sent.
func mailsTo(email string) subject { return of(kind{"mails.email", 5}, normal(email)) }

// mailsBy counts the mails that a client asked for.
func mailsBy(c Client) subject { return of(kind{"mails.client", 20}, c.network()) }

// signUpsBy counts the accounts that a client made, or tried to.
func signUpsBy(c Client) subject { return of(kind{"signUps.client", 60}, c.network()) }

// attempts counts in the database, for all replicas.
type attempts struct {
	db    *sqlx.DB
	clock clock.Clock
}

// verdict decides on an attempt in a transaction. A refusal is the answer of one
// that failed; what the verdict wrote before stays.
type verdict func(tx *sqlx.Tx) (refusal, err error)

// try makes an attempt that is counted when it fails. When one of the subjects
// must pause, the answer is RateLimited and the verdict is never asked. The
// subjects are locked meanwhile: of many attempts at once no more than the free
// ones are answered.
func (a attempts) try(ctx context.Context, subjects []subject, decide verdict) error {
	return a.run(ctx, subjects, false, decide)
}

// spend makes an attempt that is counted whatever becomes of it.
func (a attempts) spend(ctx context.Context, subjects []subject, decide verdict) error {
	return a.run(ctx, subjects, true, decide)
}

func (a attempts) run(ctx context.Context, subjects []subject, always bool, decide verdict) error {
	var refusal error
	err := pg.InTx(ctx, a.db, func(tx *sqlx.Tx) error {
		counts, err := a.enter(ctx, tx, subjects)
		if err != nil {
			return err
		}
		refusal, err = decide(tx)
		if err != nil || refusal == nil && !always {
			return err
		}
		return a.count(ctx, tx, counts)
	})
	if err != nil {
		return err
	}
	return refusal
}

// count is what is known of a subject.
type count struct {
	Kind         string    `db:"kind"`
	Subject      []byte    `db:"subject"`
	Attempts     int       `db:"attempts"`
	BlockedUntil time.Time `db:"blocked_until"`
	ForgetAt     time.Time `db:"forget_at"`
	free         int
}

// enterSQL locks the counts of subjects, in their order, and makes those that
// there are none of.
const enterSQL = `
	INSERT INTO auth_attempts AS a (kind, subject, attempts, blocked_until, forget_at)
	SELECT kind, subject, 0, $3, $4 FROM unnest($1::text[], $2::bytea[]) AS s (kind, subject)
	ON CONFLICT (kind, subject) DO UPDATE SET kind = excluded.kind
	RETURNING a.kind, a.subject, a.attempts, a.blocked_until, a.forget_at`

// enter locks the subjects and returns their counts, or RateLimited when one of
// them must pause.
func (a attempts) enter(ctx context.Context, tx *sqlx.Tx, subjects []subject) ([]count, error) {
	now := a.clock.Now()
	var kinds []string
	var hashes [][]byte
	free := map[string]int{}
	// Whoever locks several locks them in this order.
	for _, s := range slices.SortedFunc(slices.Values(subjects), func(a, b subject) int { return strings.Compare(a.name, b.name) }) {
		kinds, hashes = append(kinds, s.name), append(hashes, s.hash[:])
		free[s.name] = s.free
	}
	var counts []count
	err := tx.SelectContext(ctx, &counts, enterSQL, pq.Array(kinds), pq.ByteaArray(hashes), now, now.Add(window))
	if err != nil {
		return nil, fmt.Errorf("lock the counts of attempts: %w", err)
	}
	var pause time.Duration
	for i := range counts {
		counts[i].free = free[counts[i].Kind]
		pause = max(pause, counts[i].BlockedUntil.Sub(now))
	}
	if pause > 0 {
		refusal := fault.New(fault.RateLimited, "Too many attempts. Try again later.")
		refusal.RetryAfter = pause
		return nil, refusal
	}
	return counts, nil
}

// count counts one more attempt of each.
func (a attempts) count(ctx context.Context, tx *sqlx.Tx, counts []count) error {
	now := a.clock.Now()
	for _, c := range counts {
		c.add(now)
		_, err := tx.ExecContext(ctx, `
			UPDATE auth_attempts SET attempts = $3, blocked_until = $4, forget_at = $5 WHERE kind = $1 AND subject = $2`,
			c.Kind, c.Subject, c.Attempts, c.BlockedUntil, c.ForgetAt)
		if err != nil {
			return fmt.Errorf("count an attempt: %w", err)
		}
	}
	return nil
}

func (c *count) add(now time.Time) {
	if !now.Before(c.ForgetAt) {
		c.Attempts, c.ForgetAt = 0, now.Add(window)
	}
	c.Attempts++
	if beyond := c.Attempts - c.free; beyond >= 0 {
		c.BlockedUntil = now.Add(pauseAfter(beyond))
		c.ForgetAt = c.BlockedUntil.Add(window)
	}
}

// pauseAfter is how long to pause after the last free attempt (0) and those
// that follow.
func pauseAfter(beyond int) time.Duration {
	pause := firstPause
	for range beyond {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// forget forgets what was counted of a subject.
func forget(ctx context.Context, tx *sqlx.Tx, s subject) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM auth_attempts WHERE kind = $1 AND subject = $2`, s.name, s.hash[:])
	if err != nil {
		return fmt.Errorf("forget failed attempts: %w", err)
	}
	return nil
}
