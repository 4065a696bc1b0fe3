package mail

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// RetryPolicy sets the intervals and limits of an Outbox. Zero values mean the
// defaults.
type RetryPolicy struct {
	Every    time.Duration // the interval at which due mail is searched; default 1 s
	Timeout  time.Duration // the timeout of an attempt; default 30 s
	Grace    time.Duration // the time that attempts in progress get when Run ends; default 5 s
	Backoff  time.Duration // the pause after the first attempt, doubled after each further one; default 30 s
	Attempts int           // the number of attempts before a mail is given up; default 12, about six hours
}

const (
	batch      = 8 // the maximum number of mails that a replica sends concurrently
	maxBackoff = time.Hour
	maxError   = 500 // characters of an error that are stored
	markTime   = 10 * time.Second
)

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.Every = defaultTo(p.Every, time.Second)
	p.Timeout = defaultTo(p.Timeout, 30*time.Second)
	p.Grace = defaultTo(p.Grace, 5*time.Second)
	p.Backoff = defaultTo(p.Backoff, 30*time.Second)
	if p.Attempts == 0 {
		p.Attempts = 12
	}
	return p
}

func defaultTo(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// lease is how long a mail is reserved for the process that took it. It is longer
// than an attempt and the recording of its result.
func (p RetryPolicy) lease() time.Duration { return p.Timeout + 2*markTime + time.Minute }

// pause returns the delay after the n-th failed attempt.
func (p RetryPolicy) pause(n int) time.Duration {
	pause := p.Backoff
	for range n - 1 {
		if pause = 2 * pause; pause >= maxBackoff {
			return maxBackoff
		}
	}
	return pause
}

// Run sends due mails until ctx ends and then waits briefly for attempts in
// progress. It logs the recipient and subject of a mail, never its text.
func (o *Outbox) Run(ctx context.Context) {
	pace := o.RetryPolicy.withDefaults()
	for ctx.Err() == nil {
		count, err := o.sendDue(ctx, pace)
		pause := pace.Every
		switch {
		case err != nil && ctx.Err() == nil:
			o.Logger.ErrorContext(ctx, "failed to read queued mail", "error", err)
			pause *= 10 // the database is probably unavailable
		case count == batch:
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): // so that replicas do not run in lockstep
		}
	}
}

// queued is a mail that this process has taken from the queue.
type queued struct {
	ID        uuid.UUID `db:"id"`
	Recipient string    `db:"recipient"`
	Subject   string    `db:"subject"`
	Sealed    []byte    `db:"encrypted_text"`
	Attempt   int       `db:"attempts"`
	CreatedAt time.Time `db:"created_at"`
}

// claimSQL takes due mails for the duration of the lease. It skips mails that
// another replica is taking.
const claimSQL = `
UPDATE mail_outbox SET attempts = attempts + 1, due_at = clock_timestamp() + make_interval(secs => $1)
WHERE id = ANY (ARRAY(
	SELECT id FROM mail_outbox WHERE state = 'queued' AND due_at <= clock_timestamp()
	ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, recipient, subject, encrypted_text, attempts, created_at`

// sendDue sends a batch and returns the number of mails.
func (o *Outbox) sendDue(ctx context.Context, pace RetryPolicy) (int, error) {
	var claimed []queued
	if err := o.DB.SelectContext(ctx, &claimed, claimSQL, pace.lease().Seconds(), batch); err != nil {
		return 0, fmt.Errorf("claim mail: %w", err)
	}
	var sending sync.WaitGroup
	for _, m := range claimed {
		sending.Go(func() { o.attempt(ctx, pace, m) })
	}
	sending.Wait()
	return len(claimed), nil
}

// attempt sends a mail and records the result.
func (o *Outbox) attempt(ctx context.Context, pace RetryPolicy, m queued) {
	err := o.deliver(ctx, pace, m)
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTime)
	defer cancel()
	log := o.Logger.With("mail", m.ID, "to", m.Recipient, "subject", m.Subject, "attempt", m.Attempt)
	switch {
	case err == nil:
		log.InfoContext(ctx, "mail sent")
		err = o.finish(note, m, "sent", "")
	case errors.Is(err, ErrPermanent) || m.Attempt >= pace.Attempts:
		log.ErrorContext(ctx, "mail discarded after the last attempt", "error", err)
		err = o.finish(note, m, "dead", err.Error())
	default:
		pause := pace.pause(m.Attempt)
		log.WarnContext(ctx, "mail not sent", "error", err, "again", pause)
		err = o.postpone(note, m, pause, err.Error())
	}
	if err != nil {
		log.ErrorContext(ctx, "failed to record the result of a mail", "error", err)
	}
}

func (o *Outbox) deliver(ctx context.Context, pace RetryPolicy, m queued) error {
	text, err := o.Sealer.Open(m.Sealed, associatedData(m.ID))
	if err != nil {
		return fmt.Errorf("decrypt a mail: %w", err)
	}
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), pace.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(pace.Grace):
			cancel()
		case <-attempt.Done():
		}
	})
	defer stop()
	return o.Transport.Deliver(attempt, Message{
		ID: m.ID, To: m.Recipient, Subject: m.Subject, Text: string(text), CreatedAt: m.CreatedAt,
	})
}

// finish ends a mail and deletes its text. It has no effect if the lease has
// passed to another attempt, unless the mail was sent.
func (o *Outbox) finish(ctx context.Context, m queued, state, reason string) error {
	_, err := o.DB.ExecContext(ctx, `
		UPDATE mail_outbox SET state = $3, last_error = NULLIF($4, ''), encrypted_text = NULL, finished_at = clock_timestamp()
		WHERE id = $1 AND state = 'queued' AND (attempts = $2 OR $3 = 'sent')`, m.ID, m.Attempt, state, shorten(reason))
	if err != nil {
		return fmt.Errorf("finish a mail: %w", err)
	}
	return nil
}

func (o *Outbox) postpone(ctx context.Context, m queued, pause time.Duration, reason string) error {
	_, err := o.DB.ExecContext(ctx, `
		UPDATE mail_outbox SET due_at = clock_timestamp() + make_interval(secs => $3), last_error = $4
		WHERE id = $1 AND state = 'queued' AND attempts = $2`, m.ID, m.Attempt, pause.Seconds(), shorten(reason))
	if err != nil {
		return fmt.Errorf("reschedule a mail: %w", err)
	}
	return nil
}

// OldestQueued returns the age of the oldest mail that is not yet sent; 0 if there is none.
func (o *Outbox) OldestQueued(ctx context.Context) (time.Duration, error) {
	var seconds float64
	err := o.DB.GetContext(ctx, &seconds, `
		SELECT GREATEST(COALESCE(extract(epoch FROM clock_timestamp() - min(created_at)), 0), 0) FROM mail_outbox WHERE state = 'queued'`)
	if err != nil {
		return 0, fmt.Errorf("find the oldest queued mail: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func shorten(reason string) string {
	characters := []rune(strings.ToValidUTF8(strings.ReplaceAll(reason, "\x00", ""), "?"))
	return string(characters[:min(len(characters), maxError)])
}
