package billing

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// InvoiceStatus is the status of an invoice.
type InvoiceStatus string

// The states of an invoice.
const (
	InvoiceOpen          InvoiceStatus = "open"
	InvoicePaid          InvoiceStatus = "paid"
	InvoiceUncollectible InvoiceStatus = "uncollectible"
	InvoiceVoid          InvoiceStatus = "void"
)

// Invoice is a charge or a credit, in hundredths of the currency.
type Invoice struct {
	ID             uuid.UUID     `db:"id"`
	Number         string        `db:"number"`
	Status         InvoiceStatus `db:"status"`
	Currency       string        `db:"currency"`
	SubtotalCents  int64         `db:"subtotal_cents"`   // the sum of the lines
	TotalCents     int64         `db:"total_cents"`      // with discounts and taxes; negative for a credit
	AmountDueCents int64         `db:"amount_due_cents"` // the amount to pay after credits
	Lines          Lines         `db:"lines"`
	PeriodStart    time.Time     `db:"period_start"`
	PeriodEnd      time.Time     `db:"period_end"`
	HostedURL      *string       `db:"hosted_url"` // the provider's page of the invoice; nil for none
	Provider       string        `db:"provider"`
	RemoteID       *string       `db:"provider_invoice_id"` // the provider's invoice ID; nil for none
	CreatedAt      time.Time     `db:"created_at"`
}

// Line is one amount of an invoice.
type Line struct {
	Description string    `json:"description"`
	Quantity    int64     `json:"quantity"`
	AmountCents int64     `json:"amountCents"` // of the whole quantity; negative for a credit
	PeriodStart time.Time `json:"periodStart"`
	PeriodEnd   time.Time `json:"periodEnd"`
}

// Lines are stored as one JSON array.
type Lines []Line

// Scan implements sql.Scanner.
func (l *Lines) Scan(value any) error {
	text, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("lines can't be read from a %T", value)
	}
	return json.Unmarshal(text, l)
}

// Value implements driver.Valuer. The value is a text, which the driver sends
// unchanged.
func (l Lines) Value() (driver.Value, error) {
	text, err := json.Marshal(l)
	return string(text), err
}

// Span returns the start of the first period and the end of the last one. There must be
// at least one line.
func (l Lines) Span() (start, end time.Time) {
	start, end = l[0].PeriodStart, l[0].PeriodEnd
	for _, line := range l[1:] {
		if line.PeriodStart.Before(start) {
			start = line.PeriodStart
		}
		if line.PeriodEnd.After(end) {
			end = line.PeriodEnd
		}
	}
	return start, end
}

// sortable maps sort keys to columns.
var sortable = map[string]string{"createdAt": "created_at", "totalCents": "total_cents"}

// Invoices returns a page of the organization's invoices. It sorts by createdAt
// or totalCents.
func (s *Service) Invoices(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[Invoice], error) {
	result := page.Page[Invoice]{Request: r, Items: []Invoice{}}
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM invoices WHERE organization_id = $1`, orgID); err != nil {
			return fmt.Errorf("count the invoices: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, `
			SELECT id, number, status, currency, subtotal_cents, total_cents, amount_due_cents, lines,
			       period_start, period_end, hosted_url, provider, provider_invoice_id, created_at
			FROM invoices WHERE organization_id = $1`+r.OrderBy(sortable)+` LIMIT $2 OFFSET $3`, orgID, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the invoices: %w", err)
		}
		return nil
	})
	return result, err
}

// writeInvoice writes an invoice of manual billing with the organization's next number.
// The caller holds the subscription's lock, so the numbers have no gaps.
func writeInvoice(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, i Invoice) error {
	var n int
	err := tx.GetContext(ctx, &n, `
		UPDATE subscriptions SET last_invoice = last_invoice + 1 WHERE organization_id = $1 RETURNING last_invoice`, orgID)
	if err != nil {
		return fmt.Errorf("number an invoice: %w", err)
	}
	i.Number = invoiceNumber(orgID, n)
	_, err = upsertInvoice(ctx, tx, orgID, i)
	return err
}

// invoiceNumber returns the number of the organization's n-th invoice.
func invoiceNumber(orgID uuid.UUID, n int) string { return fmt.Sprintf("%X-%04d", orgID[12:], n) }

// upsertInvoice inserts or updates an invoice of the provider and reports whether
// it changed.
func upsertInvoice(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, i Invoice) (bool, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return false, fmt.Errorf("generate an invoice ID: %w", err)
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO invoices (id, organization_id, number, status, currency, subtotal_cents, total_cents, amount_due_cents,
		                      lines, period_start, period_end, hosted_url, provider, provider_invoice_id, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (provider_invoice_id) DO UPDATE SET
			number = excluded.number, status = excluded.status, subtotal_cents = excluded.subtotal_cents,
			total_cents = excluded.total_cents, amount_due_cents = excluded.amount_due_cents, lines = excluded.lines,
			period_start = excluded.period_start, period_end = excluded.period_end, hosted_url = excluded.hosted_url
		WHERE invoices.organization_id = excluded.organization_id AND
			(invoices.number, invoices.status, invoices.subtotal_cents, invoices.total_cents, invoices.amount_due_cents,
			 invoices.lines, invoices.period_start, invoices.period_end, invoices.hosted_url) IS DISTINCT FROM
			(excluded.number, excluded.status, excluded.subtotal_cents, excluded.total_cents, excluded.amount_due_cents,
			 excluded.lines, excluded.period_start, excluded.period_end, excluded.hosted_url)`,
		id, orgID, i.Number, i.Status, i.Currency, i.SubtotalCents, i.TotalCents, i.AmountDueCents,
		i.Lines, i.PeriodStart, i.PeriodEnd, i.HostedURL, i.Provider, i.RemoteID, i.CreatedAt)
	if err != nil {
		return false, fmt.Errorf("write an invoice: %w", err)
	}
	written, err := result.RowsAffected()
	return written == 1, err
}
