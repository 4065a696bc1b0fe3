package billing

import (
	"context"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// ManualName is the name of the Manual provider.
const ManualName = "manual"

// Manual is a provider without payments: changes take effect immediately, and
// their cost is written on an invoice. Payment is arranged outside of the
// service, so invoices count as paid.
//
// A subscription is paid in advance, one interval at a time. A change within a
// period credits the remainder at the old price and charges it at the new one, by
// the second. Excess credit is kept for the next invoices; nothing is paid out.
type Manual struct {
	Clock clock.Clock
}

var _ Provider = Manual{}

// Name implements Provider.
func (Manual) Name() string { return ManualName }

// Checkout implements Provider.
func (m Manual) Checkout(ctx context.Context, s Subscription, plan Plan, _ string) (Outcome, error) {
	return m.ChangePlan(ctx, s, plan)
}

// ChangePlan implements Provider. The period stays, unless the new plan has
// another interval: then a new one begins.
func (m Manual) ChangePlan(_ context.Context, s Subscription, newPlan Plan) (Outcome, error) {
	now := m.Clock.Now()
	var lines []Line
	if s.Paid() {
		lines = remainderLines(s, now, credit)
	}
	if newPlan.PriceCents == 0 {
		return newOutcome(s.asEnded(newPlan), s.Plan.Currency, lines, now), nil
	}
	if s.Plan.Currency != newPlan.Currency && (s.Paid() || s.CreditCents > 0) {
		return Outcome{}, fault.New(fault.Conflict, "The plan has a different currency than the current subscription.")
	}
	after := s.withPlan(newPlan)
	if !s.Paid() || s.Plan.Interval != newPlan.Interval {
		after.Period, after.Provider = new(firstPeriod(now, newPlan.Interval)), ManualName
		return newOutcome(after, newPlan.Currency, append(lines, fullPeriodLines(after)...), now), nil
	}
	return newOutcome(after, newPlan.Currency, append(lines, remainderLines(after, now, charge)...), now), nil
}

// AddAddOn implements Provider.
func (m Manual) AddAddOn(_ context.Context, s Subscription, o Offer, quantity int) (Outcome, error) {
	now := m.Clock.Now()
	after, err := s.withAddOn(o, quantity, now)
	if err != nil {
		return Outcome{}, err
	}
	price := int64(after.addOn(o.Slug).PriceCents) * int64(quantity)
	line := s.remainderLine(o.Name, quantity, price, now, charge)
	return newOutcome(after, s.Plan.Currency, []Line{line}, now), nil
}

// RemoveAddOn implements Provider.
func (m Manual) RemoveAddOn(_ context.Context, s Subscription, slug string) (Outcome, error) {
	now := m.Clock.Now()
	had := s.addOn(slug)
	if had == nil {
		return Outcome{}, fault.Missing("add-on")
	}
	line := s.remainderLine(had.Name, had.Quantity, int64(had.PriceCents)*int64(had.Quantity), now, credit)
	return newOutcome(s.withoutAddOn(slug), s.Plan.Currency, []Line{line}, now), nil
}

// SetCancel implements Provider.
func (Manual) SetCancel(_ context.Context, s Subscription, cancel bool) (Outcome, error) {
	s.CancelAtPeriodEnd = cancel
	return Outcome{Subscription: &s}, nil
}

// Portal implements Provider: there is no page.
func (Manual) Portal(context.Context, Subscription, string) (string, error) { return "", nil }

// Renew begins the next period of a subscription whose period is over, or ends a
// canceled subscription.
func (m Manual) Renew(s Subscription, free Plan) Outcome {
	if s.CancelAtPeriodEnd {
		return Outcome{Subscription: new(s.asEnded(free))}
	}
	s.Period = new(s.Period.next(s.Plan.Interval))
	return newOutcome(s, s.Plan.Currency, fullPeriodLines(s), m.Clock.Now())
}

// The signs of a line's amount.
const (
	charge = 1
	credit = -1
)

// fullPeriodLines returns the invoice lines of a full period.
func fullPeriodLines(s Subscription) []Line {
	p := s.Period
	lines := []Line{{Description: s.Plan.Name, Quantity: 1, AmountCents: int64(s.Plan.PriceCents), PeriodStart: p.Start, PeriodEnd: p.End}}
	for _, a := range s.AddOns {
		lines = append(lines, Line{
			Description: a.Name, Quantity: int64(a.Quantity), AmountCents: int64(a.PriceCents) * int64(a.Quantity),
			PeriodStart: p.Start, PeriodEnd: p.End,
		})
	}
	return lines
}

// remainderLines returns the lines that credit or charge the remainder of the
// period.
func remainderLines(s Subscription, now time.Time, sign int64) []Line {
	lines := []Line{}
	for _, l := range fullPeriodLines(s) {
		lines = append(lines, s.remainderLine(l.Description, int(l.Quantity), l.AmountCents, now, sign))
	}
	return lines
}

func (s Subscription) remainderLine(name string, quantity int, cents int64, now time.Time, sign int64) Line {
	description := "Rest of the period: " + name
	if sign == credit {
		description = "Unused time: " + name
	}
	start := now
	if start.After(s.Period.End) {
		start = s.Period.End
	}
	return Line{
		Description: description, Quantity: int64(quantity), AmountCents: sign * s.Period.prorate(cents, now),
		PeriodStart: start, PeriodEnd: s.Period.End,
	}
}

// newOutcome writes the lines on an invoice, unless they are empty. Existing
// credit is used first; a negative total becomes credit.
func newOutcome(s Subscription, currency string, lines []Line, now time.Time) Outcome {
	var total int64
	empty := true
	for _, l := range lines {
		total += l.AmountCents
		empty = empty && l.AmountCents == 0
	}
	if empty {
		return Outcome{Subscription: &s}
	}
	used := min(s.CreditCents, total) // a negative total increases the credit
	s.CreditCents -= used
	invoice := Invoice{
		Status: InvoicePaid, Currency: currency, SubtotalCents: total, TotalCents: total, AmountDueCents: max(total-used, 0),
		Lines: lines, Provider: ManualName, CreatedAt: now,
	}
	invoice.PeriodStart, invoice.PeriodEnd = invoice.Lines.Span()
	return Outcome{Subscription: &s, Invoice: &invoice}
}
