// Package mail sends mail. A mail is queued in the transaction of the change that
// it reports, so that mail and change commit together; Run passes queued mails to
// a Transport.
//
// A mail is sent at least once. If the process dies between sending a mail and
// recording that, the mail is sent again with the same Message-ID, by which mail
// servers detect the duplicate.
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

// Message is a mail for a Transport.
type Message struct {
	ID        uuid.UUID // the same for every attempt
	To        string    // an address without a name
	Subject   string    // one line
	Text      string    // plain text; may contain a token and is never logged
	CreatedAt time.Time
}

// ErrPermanent means that a mail will never be accepted, so it is not retried.
var ErrPermanent = errors.New("permanently refused")

// Transport delivers mails. It must be safe for concurrent use and stop when ctx
// ends.
type Transport interface {
	Deliver(ctx context.Context, m Message) error
}

// Sealer encrypts texts for storage. A text can be decrypted only with the aad with
// which it was encrypted.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Outbox is the queue of mails. Replicas may share a database.
type Outbox struct {
	DB          *sqlx.DB
	Sealer      Sealer
	Transport   Transport
	Logger      *slog.Logger
	RetryPolicy RetryPolicy
}

// Send queues a mail in the caller's transaction. Its text is stored encrypted
// until the mail is sent, and deleted then.
func (o *Outbox) Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error {
	return o.queue(ctx, tx, 0, recipient, subject, text)
}

// Urgent is an Outbox for mails that a user is waiting for.
type Urgent struct{ *Outbox }

// urgentHeadStart is how much earlier an urgent mail is due.
const urgentHeadStart = 24 * time.Hour

// Send queues a mail like Outbox.Send, ahead of all other mails of the last day.
func (u Urgent) Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error {
	return u.queue(ctx, tx, urgentHeadStart, recipient, subject, text)
}

// queue queues a mail with a due time in the past, which determines the order.
func (o *Outbox) queue(ctx context.Context, tx *sqlx.Tx, ago time.Duration, recipient, subject, text string) error {
	address, err := mail.ParseAddress(recipient)
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

// associatedData binds an encrypted text to its mail.
func associatedData(id uuid.UUID) []byte { return []byte("mail:" + id.String()) }

// oneLine removes line breaks from a subject.
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
