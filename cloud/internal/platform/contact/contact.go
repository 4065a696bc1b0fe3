// Package contact accepts messages to the operators from anyone, at most five per hour
// and address (specification 8.4).
package contact

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clientaddr"
	"github.com/browser-svc/svc/shared/fault"
)

// The rate limit (specification 8.4).
const (
	Limit  = 5
	Window = time.Hour
)

// Message is a message of the contact form.
type Message struct {
	Name    string
	Email   string
	Company string // optional
	Subject string // optional
	Text    string
	// ClientAddress is the address of the sender, as reported by trusted proxies.
	ClientAddress string
}

// Receipt is the answer to the sender.
type Receipt struct {
	ID        uuid.UUID `db:"id"`
	CreatedAt time.Time `db:"created_at"`
}

// Mailer queues a mail in a transaction.
type Mailer interface {
	Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error
}

// Service stores messages. All times are the database's, so that replicas agree.
type Service struct {
	DB     *sqlx.DB
	Mailer Mailer
	To     string // recipient of each message; empty for none
}

// Submit stores a message and mails it to the operators. It returns RateLimited with
// the time to retry after for the sixth message from one address within an hour.
func (s *Service) Submit(ctx context.Context, m Message) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("generate a message id: %w", err)
	}
	receipt := Receipt{ID: id}
	err = pg.InTx(ctx, s.DB, func(tx *sqlx.Tx) error {
		network := limitKey(m.ClientAddress)
		if err := checkRate(ctx, tx, network); err != nil {
			return err
		}
		err := tx.GetContext(ctx, &receipt.CreatedAt, `
			INSERT INTO contact_messages (id, name, email, company, subject, message, network, created_at)
			VALUES ($1, $2, $3, NULLIF($4, ''), NULLIF($5, ''), $6, $7, clock_timestamp()) RETURNING created_at`,
			id, m.Name, m.Email, m.Company, m.Subject, m.Text, network.String())
		if err != nil {
			return fmt.Errorf("insert a message: %w", err)
		}
		if s.To == "" {
			return nil
		}
		return s.Mailer.Send(ctx, tx, s.To, m.mailSubject(), m.mailText(id))
	})
	return receipt, err
}

// checkRate returns RateLimited if the network has sent Limit messages within the
// window. It serializes the requests of a network with a lock, and counts in a
// separate statement, which sees what the previous requests have committed.
func checkRate(ctx context.Context, tx *sqlx.Tx, network netip.Prefix) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('contact ' || $1, 0))`, network.String()); err != nil {
		return fmt.Errorf("lock a network: %w", err)
	}
	var wait float64 // seconds until a message leaves the window
	err := tx.GetContext(ctx, &wait, `
		SELECT EXTRACT(epoch FROM created_at - clock_timestamp()) + $3 FROM contact_messages
		WHERE network = $1 ORDER BY created_at DESC OFFSET $2 LIMIT 1`, network.String(), Limit-1, Window.Seconds())
	if errors.Is(err, sql.ErrNoRows) || err == nil && wait <= 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("count the messages of a network: %w", err)
	}
	refusal := fault.New(fault.RateLimited, "At most five messages per hour are accepted from one address. Try again later.")
	refusal.RetryAfter = time.Duration(math.Ceil(wait)) * time.Second
	return refusal
}

// limitKey returns the network whose messages are counted: an IPv4 address or an IPv6
// network. All invalid addresses share one network.
func limitKey(address string) netip.Prefix {
	network, ok := clientaddr.Network(address)
	if !ok {
		network, _ = clientaddr.Network(netip.IPv6Unspecified().String())
	}
	return network
}

func (m Message) mailSubject() string {
	if m.Subject == "" {
		return "Message from " + m.Name
	}
	return "Message from " + m.Name + ": " + m.Subject
}

func (m Message) mailText(id uuid.UUID) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s <%s> wrote:\n\n", m.Name, m.Email)
	if m.Company != "" {
		fmt.Fprintf(&b, "Company: %s\n", m.Company)
	}
	if m.Subject != "" {
		fmt.Fprintf(&b, "Subject: %s\n", m.Subject)
	}
	fmt.Fprintf(&b, "\n%s\n\nMessage %s\n", m.Text, id)
	return b.String()
}
