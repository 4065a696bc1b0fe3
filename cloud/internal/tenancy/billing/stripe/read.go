package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	api "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/shared/fault"
)

// maxLines is the maximum number of invoice lines to keep.
const maxLines = 250

// Event implements billing.Remote. A signature is valid for 300 seconds. The API
// version of the event does not matter, because only the ID of its object is read.
func (p *Provider) Event(payload []byte, signature string) (billing.Event, error) {
	e, err := webhook.ConstructEventWithOptions(payload, signature, p.secret,
		webhook.ConstructEventOptions{Tolerance: webhook.DefaultTolerance, IgnoreAPIVersionMismatch: true})
	for _, bad := range []error{webhook.ErrNotSigned, webhook.ErrInvalidHeader, webhook.ErrNoValidSignature, webhook.ErrTooOld} {
		if errors.Is(err, bad) {
			return billing.Event{}, fault.Wrap(err, fault.Unauthenticated, "The signature of the event is missing, invalid or too old.")
		}
	}
	if err != nil || e.ID == "" || e.Data == nil {
		return billing.Event{}, fault.Wrap(err, fault.Validation, "The body is not a Stripe event.",
			fault.Detail{Field: "body", Code: fault.Custom, Message: "is not a Stripe event"})
	}
	event := billing.Event{ID: e.ID, Kind: string(e.Type)}
	switch {
	case strings.HasPrefix(event.Kind, "customer.subscription."):
		event.SubscriptionID = text(e.Data.Object, "id")
	case event.Kind == "checkout.session.expired":
		event.CheckoutID = text(e.Data.Object, "id")
	case strings.HasPrefix(event.Kind, "checkout.session."):
		event.SubscriptionID = text(e.Data.Object, "subscription")
	case strings.HasPrefix(event.Kind, "invoice."):
		event.InvoiceID = text(e.Data.Object, "id") // a preview of a future invoice has no ID
	}
	return event, nil
}

func text(object map[string]any, name string) string {
	value, _ := object[name].(string)
	return value
}

// Subscription implements billing.Remote.
func (p *Provider) Subscription(ctx context.Context, id string) (billing.RemoteSubscription, error) {
	found, err := p.client.V1Subscriptions.Retrieve(ctx, id, nil)
	if err != nil {
		return billing.RemoteSubscription{}, providerError("read a subscription", err)
	}
	r := billing.RemoteSubscription{
		ID: found.ID, OrgID: organization(found.Metadata), Status: status(found.Status), CancelAtPeriodEnd: found.CancelAtPeriodEnd,
	}
	if found.Customer != nil {
		r.CustomerID = found.Customer.ID
	}
	for _, i := range found.Items.Data {
		plan, addOn := parseKey(i.Price)
		switch {
		case plan == "":
		case addOn != "":
			r.AddOns = append(r.AddOns, billing.RemoteAddOn{Slug: addOn, Quantity: int(i.Quantity), PriceCents: int(i.Price.UnitAmount)})
		default:
			r.Plan, r.PriceCents, r.Currency = plan, int(i.Price.UnitAmount), string(i.Price.Currency)
			r.Start, r.End = unixTime(i.CurrentPeriodStart), unixTime(i.CurrentPeriodEnd)
			if i.Price.Recurring != nil {
				r.Interval = string(i.Price.Recurring.Interval)
			}
		}
	}
	if found.CancelAt > 0 && !unixTime(found.CancelAt).After(r.End) {
		r.CancelAtPeriodEnd = true
	}
	if r.Plan == "" && r.OrgID != uuid.Nil && r.Status != billing.Canceled {
		return r, fmt.Errorf("no item of Stripe subscription %s has the price of a plan: set the price's lookup key or metadata", id)
	}
	return r, nil
}

// CurrentSubscriptions implements billing.Remote. It searches by metadata, because
// the customer of an unpaid checkout session is not known here.
func (p *Provider) CurrentSubscriptions(ctx context.Context, orgID uuid.UUID) ([]string, error) {
	params := &api.SubscriptionSearchParams{SearchParams: api.SearchParams{
		Query: fmt.Sprintf("metadata['%s']:'%s'", organizationKey, orgID), Limit: new(int64(100)),
	}}
	var ids []string
	for found, err := range p.client.V1Subscriptions.Search(ctx, params).All(ctx) {
		if err != nil {
			return nil, providerError("search for subscriptions", err)
		}
		if organization(found.Metadata) == orgID && status(found.Status) != billing.Canceled {
			ids = append(ids, found.ID)
		}
	}
	return ids, nil
}

// organization returns the organization ID in the metadata, or uuid.Nil.
func organization(metadata map[string]string) uuid.UUID {
	id, err := uuid.Parse(metadata[organizationKey])
	if err != nil {
		return uuid.Nil
	}
	return id
}

// status maps Stripe's status of a subscription; "" while the first payment is missing.
// An unpaid or paused subscription continues once it is paid. All other statuses mean
// that it has ended.
func status(s api.SubscriptionStatus) billing.Status {
	switch s {
	case api.SubscriptionStatusActive, api.SubscriptionStatusTrialing:
		return billing.Active
	case api.SubscriptionStatusPastDue:
		return billing.PastDue
	case api.SubscriptionStatusIncomplete:
		return ""
	case api.SubscriptionStatusUnpaid, api.SubscriptionStatusPaused:
		return billing.Suspended
	}
	return billing.Canceled
}

// Invoice implements billing.Remote.
func (p *Provider) Invoice(ctx context.Context, id string) (billing.RemoteInvoice, error) {
	found, err := p.client.V1Invoices.Retrieve(ctx, id, nil)
	if err != nil {
		return billing.RemoteInvoice{}, providerError("read an invoice", err)
	}
	r := billing.RemoteInvoice{
		Draft: found.Number == "" || found.Status == api.InvoiceStatusDraft,
		Invoice: billing.Invoice{
			Number: found.Number, Status: billing.InvoiceStatus(found.Status), Currency: string(found.Currency),
			SubtotalCents: found.Subtotal, TotalCents: found.Total, AmountDueCents: max(found.AmountDue, 0),
			PeriodStart: unixTime(found.PeriodStart), PeriodEnd: unixTime(found.PeriodEnd),
			Provider: Name, RemoteID: &found.ID, CreatedAt: unixTime(found.Created),
		},
	}
	if found.HostedInvoiceURL != "" {
		r.HostedURL = &found.HostedInvoiceURL
	}
	if found.Parent != nil && found.Parent.SubscriptionDetails != nil {
		details := found.Parent.SubscriptionDetails
		r.OrgID = organization(details.Metadata)
		if details.Subscription != nil {
			r.SubscriptionID = details.Subscription.ID
		}
	}
	r.Lines, err = p.lines(ctx, found)
	if len(r.Lines) > 0 { // the invoice's own period is the one before the period that it charges
		r.PeriodStart, r.PeriodEnd = r.Lines.Span()
	}
	return r, err
}

// lines returns the lines of the invoice, and reads the remaining pages if there
// are more.
func (p *Provider) lines(ctx context.Context, invoice *api.Invoice) (billing.Lines, error) {
	lines := billing.Lines{}
	add := func(l *api.InvoiceLineItem) {
		line := billing.Line{Description: truncate(l.Description), Quantity: l.Quantity, AmountCents: l.Amount}
		if l.Period != nil {
			line.PeriodStart, line.PeriodEnd = unixTime(l.Period.Start), unixTime(l.Period.End)
		}
		lines = append(lines, line)
	}
	if invoice.Lines == nil {
		return lines, nil
	}
	if !invoice.Lines.HasMore {
		for _, l := range invoice.Lines.Data {
			add(l)
		}
		return lines, nil
	}
	params := &api.InvoiceListLinesParams{Invoice: &invoice.ID, ListParams: api.ListParams{Limit: new(int64(100))}}
	for l, err := range p.client.V1Invoices.ListLines(ctx, params).All(ctx) {
		if err != nil {
			return nil, providerError("read the lines of an invoice", err)
		}
		if add(l); len(lines) == maxLines {
			break
		}
	}
	return lines, nil
}

// truncate shortens a description to the maximum of the API.
func truncate(description string) string {
	const most = 500
	if runes := []rune(description); len(runes) > most {
		return string(runes[:most])
	}
	return description
}

func unixTime(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
