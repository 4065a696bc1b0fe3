// Package mail sends mail. What is to be sent is queued in the transaction that
// it tells of, so that no mail speaks of a change that was not made, and none is
// lost; Run takes it from there to a Transport.
//
// A mail is sent at least once. A process that dies after the server has taken
// a mail and before that was written down leaves it to be sent again, under the
// same Message-ID, by which mailboxes know the copy.
package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

const (
	maxSubject = 200       // characters
	maxText    = 128 << 10 // bytes
)

// Message is a mail as a Transport gets it.
type Message struct {
	ID        uuid.UUID // the same for every attempt
	To        string    // an address without a name
	Subject   string    // one line
	Text      string    // plain text; it may carry a token, and is never logged
	CreatedAt time.Time
}

// ErrPermanent means that a mail will never be accepted, so it is not retried.
var ErrPermanent = errors.New("permanently refused")

// Transport takes mails to where they are read. It must be safe for concurrent
// use, and give up when ctx ends.
type Transport interface {
	Deliver(ctx context.Context, m Message) error
}

// Sealer encrypts texts for storage. What was sealed with one aad can't be
// opened with another.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Outbox is the mail that waits to be sent. Any number of replicas may share one
// database.
type Outbox struct {
	DB          *sqlx.DB
	Sealer      Sealer
	Transport   Transport
	Logger      *slog.Logger
	RetryPolicy RetryPolicy
}

// Send queues a mail in the caller's transaction. Its text is readable by
// nobody until it is sent, and by nobody after that.
func (o *Outbox) Send(ctx context.Context, tx *sqlx.Tx, to, subject, text string) error {
	return o.queue(ctx, tx, 0, to, subject, text)
}

// Urgent is an Outbox for mails that people wait for.
type Urgent struct{ *Outbox }

// urgentHeadStart is how much earlier a mail that is urgent is due.
const urgentHeadStart = 24 * time.Hour

// Send is Outbox.Send for a mail that goes before all others of the last day.
func (u Urgent) Send(ctx context.Context, tx *sqlx.Tx, to, subject, text string) error {
	return u.queue(ctx, tx, urgentHeadStart, to, subject, text)
}

// queue queues a mail that was due so long ago: the order is by that.
func (o *Outbox) queue(ctx context.Context, tx *sqlx.Tx, ago time.Duration, to, subject, text string) error {
	address, err := mail.ParseAddress(to)
	if err != nil {
		return fmt.Errorf("read the address of a mail: %w", err)
	}
	if len(text) > maxText {
		return fmt.Errorf("the mail text has %d bytes, more than %d", len(text), maxText)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate a mail ID: %w", err)
	}
	sealed, err := o.Sealer.Seal([]byte(text), associatedData(id))
	if err != nil {
		return fmt.Errorf("encrypt a mail: %w", err)
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO mail_outbox (id, recipient, subject, encrypted_text, due_at, created_at)
		VALUES ($1, $2, $3, $4, clock_timestamp() - make_interval(secs => $5), clock_timestamp())`,
		id, address.Address, oneLine(subject), sealed, ago.Seconds())
	if err != nil {
		return fmt.Errorf("queue a mail: %w", err)
	}
	return nil
}

// associatedData is where a sealed text belongs.
func associatedData(id uuid.UUID) []byte { return []byte("mail:" + id.String()) }

// oneLine makes a subject of a text: what would end a header becomes a space.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if characters := []rune(text); len(characters) > maxSubject {
		return string(characters[:maxSubject])
	}
	return text
}
