package billing

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// applyRemote returns the subscription with the provider's state. The purchased
// terms stay as long as the subscription and plan are the same, also during a
// suspension, which only lowers the effective limits. New purchases get the
// current terms.
func (s *Service) applyRemote(ctx context.Context, tx *sqlx.Tx, sub Subscription, r RemoteSubscription, provider string) (Subscription, error) {
	own := sub.RemoteID == r.ID
	switch {
	case r.Status == "" || r.Status == Canceled && !own:
		return sub, nil
	case r.Status == Canceled:
		free, err := findPlan(ctx, tx, freeSlug)
		return sub.asEnded(free), err
	case sub.Paid() && !own:
		s.Logger.ErrorContext(ctx, "organization pays for two subscriptions: refund and cancel the second one",
			"organization", sub.OrgID, "first", sub.RemoteID, "second", r.ID)
		return sub, nil
	}
	after := sub
	if !own || sub.Plan.Slug != r.Plan {
		plan, err := findPlan(ctx, tx, r.Plan)
		if err != nil {
			return sub, fault.Wrap(err, fault.Internal, fmt.Sprintf("The payment provider reports the plan %q, which cannot be read from the catalog.", r.Plan))
		}
		after = sub.withPlan(plan)
		after.Period = &Period{Anchor: r.Start}
	}
	after.Plan.PriceCents, after.Plan.Currency, after.Plan.Interval = r.PriceCents, r.Currency, r.Interval
	after.Status, after.CancelAtPeriodEnd = r.Status, r.CancelAtPeriodEnd
	after.Period = &Period{Anchor: after.Period.Anchor, Start: r.Start, End: r.End}
	after.Provider, after.CustomerID, after.RemoteID, after.CheckoutID = provider, r.CustomerID, r.ID, ""
	fallback, err := fallbackLimits(ctx, tx, sub, r.Status)
	if err != nil {
		return sub, err
	}
	after.Fallback = fallback
	return s.applyRemoteAddOns(after, r.AddOns)
}

// fallbackLimits returns the limits that apply during a suspension: those of the
// free plan when the suspension began. It returns nil if the subscription is not
// suspended.
func fallbackLimits(ctx context.Context, tx *sqlx.Tx, before Subscription, status Status) (*Limits, error) {
	if status != Suspended {
		return nil, nil
	}
	if before.Fallback != nil {
		return before.Fallback, nil
	}
	free, err := findPlan(ctx, tx, freeSlug)
	return &free.Limits, err
}

func (s *Service) applyRemoteAddOns(sub Subscription, remote []RemoteAddOn) (Subscription, error) {
	after := sub
	after.AddOns = nil
	for _, r := range remote {
		if twice := after.addOn(r.Slug); twice != nil { // Stripe can have the same add-on at an older and a newer price
			twice.Quantity += r.Quantity
			continue
		}
		if had := sub.addOn(r.Slug); had != nil {
			a := *had
			a.Quantity, a.PriceCents = r.Quantity, r.PriceCents
			after.AddOns = append(after.AddOns, a)
			continue
		}
		offer := sub.Plan.offer(r.Slug)
		if offer == nil {
			return sub, fmt.Errorf("the payment provider reports the add-on %q, which plan %s does not offer", r.Slug, sub.Plan.Slug)
		}
		o := *offer
		o.PriceCents = r.PriceCents
		next, err := after.withAddOn(o, r.Quantity, s.Clock.Now())
		if err != nil {
			return sub, err
		}
		after = next
	}
	return after, nil
}
