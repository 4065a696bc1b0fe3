package stripe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
)

// sign returns a current signature of a body.
func sign(body string) string {
	now := time.Now()
	return fmt.Sprintf("t=%d,v1=%x", now.Unix(), webhook.ComputeSignature(now, []byte(body), stripetest.WebhookSecret))
}

func line(description string, cents int) map[string]any {
	return map[string]any{
		"id": "il_" + description, "object": "line_item", "description": description, "amount": cents, "quantity": 1,
		"period": map[string]any{"start": began.Unix(), "end": ends.Unix()},
	}
}

// setInvoice sets the state of an invoice of the organization at Stripe.
func (h *fixture) setInvoice(id, status string, metadata map[string]any, lines ...map[string]any) map[string]any {
	fields := map[string]any{
		"id": id, "status": status, "number": "ABC-0001", "currency": "usd", "subtotal": 11800, "total": 14042, "amount_due": 14042,
		"hosted_invoice_url": "https://invoice.stripe.com/i/1", "created": began.Unix(),
		"period_start": began.AddDate(0, -1, 0).Unix(), "period_end": began.Unix(),
		"lines": map[string]any{"data": lines, "has_more": false},
		"parent": map[string]any{"type": "subscription_details", "subscription_details": map[string]any{
			"metadata": metadata, "subscription": subscriptionID,
		}},
	}
	h.stripe.Answer("GET /v1/invoices/"+id, fields)
	return fields
}

func TestInvoices_MatchStripe(t *testing.T) {
	h := newFixture(t)
	mine := map[string]any{"organization_id": h.org.String()}
	h.setInvoice("in_1", "draft", mine, line("Team", 9900))["number"] = nil
	h.must(h.event("invoice.created", "in_1"))
	if n := len(h.invoices()); n > 0 {
		t.Errorf("a draft is listed")
	}
	h.setInvoice("in_1", "open", mine, line("Team", 9900), line("1 × Ten profiles", 1900))
	h.must(h.event("invoice.finalized", "in_1"))
	h.setInvoice("in_1", "paid", mine, line("Team", 9900), line("1 × Ten profiles", 1900))
	h.must(h.event("invoice.paid", "in_1"))
	found := h.invoices()
	if len(found) != 1 {
		t.Fatalf("invoices %+v", found)
	}
	want := billing.Invoice{
		ID: found[0].ID, Number: "ABC-0001", Status: billing.InvoicePaid, Currency: "usd",
		SubtotalCents: 11800, TotalCents: 14042, AmountDueCents: 14042,
		Lines: billing.Lines{
			{Description: "Team", Quantity: 1, AmountCents: 9900, PeriodStart: began, PeriodEnd: ends},
			{Description: "1 × Ten profiles", Quantity: 1, AmountCents: 1900, PeriodStart: began, PeriodEnd: ends},
		},
		PeriodStart: began, PeriodEnd: ends, HostedURL: new("https://invoice.stripe.com/i/1"),
		Provider: "stripe", RemoteID: new("in_1"), CreatedAt: began,
	}
	diff(t, "invoice", want, found[0])
}

func TestInvoices_FoundBySubscription(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setInvoice("in_1", "paid", map[string]any{}, line("Team", 9900))
	h.must(h.event("invoice.paid", "in_1"))
	if n := len(h.invoices()); n != 1 {
		t.Errorf("%d invoices, want 1", n)
	}
	h.setInvoice("in_2", "paid", map[string]any{}, line("Team", 9900))["parent"] = nil // not a subscription of this service
	h.must(h.event("invoice.paid", "in_2"))
	if n := len(h.invoices()); n != 1 {
		t.Errorf("%d invoices, want 1", n)
	}
}

func TestInvoices_ReadsAllLines(t *testing.T) {
	h := newFixture(t)
	h.setInvoice("in_1", "paid", map[string]any{"organization_id": h.org.String()}, line("first", 1))["lines"].(map[string]any)["has_more"] = true
	var all []map[string]any
	for i := range 30 {
		all = append(all, line(fmt.Sprint("line ", i), 1))
	}
	h.stripe.Answer("GET /v1/invoices/in_1/lines", map[string]any{"data": all, "has_more": false})
	h.must(h.event("invoice.paid", "in_1"))
	if lines := h.invoices()[0].Lines; len(lines) != 30 || lines[29].Description != "line 29" {
		t.Errorf("lines %+v", lines)
	}
}
