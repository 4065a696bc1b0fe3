package billing

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Checkout subscribes an organization without a paid subscription to a paid plan. It
// returns the URL of the page on which the user pays ("" if no step is left) and the
// current subscription. Returns NotFound for an unknown plan, and Conflict if the
// organization has a paid subscription or an open payment. Like the changes below, it
// returns Forbidden if only an operator can make the change (see SelfService).
func (s *Service) Checkout(ctx context.Context, orgID uuid.UUID, slug, returnURL string) (Subscription, string, error) {
	return s.change(ctx, orgID, "subscription.checkedOut", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			plan, err := findPlan(ctx, tx, slug)
			if err != nil {
				return nil, err
			}
			if plan.PriceCents == 0 {
				return nil, fault.Field("plan", "is free and needs no checkout")
			}
			if err := requireNotSuspended(sub); err != nil {
				return nil, err
			}
			if sub.Paid() {
				return nil, fault.New(fault.Conflict, "The organization already has a paid plan. Change the plan instead.")
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return provider.Checkout(ctx, sub, plan, returnURL)
			}, nil
		})
}

// ChangePlan changes the plan immediately, on its current terms. A change to a free
// plan ends the paid subscription and closes an open checkout session. It returns the
// current subscription; an event of a Remote provider may report the change later.
func (s *Service) ChangePlan(ctx context.Context, orgID uuid.UUID, slug string) (Subscription, error) {
	sub, _, err := s.change(ctx, orgID, "subscription.planChanged", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			newPlan, err := findPlan(ctx, tx, slug)
			if err != nil {
				return nil, err
			}
			if newPlan.ID == sub.Plan.ID && sub.CheckoutID == "" {
				return nil, fault.New(fault.Conflict, "The organization already has this plan.")
			}
			if newPlan.PriceCents > 0 {
				if err := requireNotSuspended(sub); err != nil {
					return nil, err
				}
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return provider.ChangePlan(ctx, sub, newPlan)
			}, nil
		})
	return sub, err
}

// Cancel ends the subscription with its period. Returns Conflict for a free plan.
func (s *Service) Cancel(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setCancel(ctx, orgID, true, "subscription.canceled", "A free plan cannot be canceled.")
}

// Resume reverts a cancellation until the period ends.
func (s *Service) Resume(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setCancel(ctx, orgID, false, "subscription.resumed", "A free plan cannot be resumed.")
}

func (s *Service) setCancel(ctx context.Context, orgID uuid.UUID, cancel bool, action, refusal string) (Subscription, error) {
	sub, _, err := s.change(ctx, orgID, action, nil, func(_ *sqlx.Tx, sub Subscription) (providerCall, error) {
		if !sub.Paid() {
			return nil, fault.New(fault.Conflict, refusal)
		}
		provider, err := s.providerFor(sub)
		return func(ctx context.Context, sub Subscription) (Outcome, error) {
			return provider.SetCancel(ctx, sub, cancel)
		}, err
	})
	return sub, err
}

// AddAddOn buys a quantity of an add-on. If the subscription already has the add-on,
// the terms of its purchase apply. An unlimited limit cannot be raised.
func (s *Service) AddAddOn(ctx context.Context, orgID uuid.UUID, slug string, quantity int) (Subscription, error) {
	sub, _, err := s.change(ctx, orgID, "subscription.addOnAdded", map[string]any{"addOn": slug, "quantity": quantity},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			offer, err := findOffer(ctx, tx, sub, slug)
			if err != nil {
				return nil, err
			}
			if _, err := sub.withAddOn(offer, quantity, s.Clock.Now()); err != nil {
				return nil, err
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return provider.AddAddOn(ctx, sub, offer, quantity)
			}, nil
		})
	return sub, err
}

// RemoveAddOn removes an add-on of the subscription. Returns NotFound for an unknown
// one.
func (s *Service) RemoveAddOn(ctx context.Context, orgID, addOnID uuid.UUID) (Subscription, error) {
	sub, _, err := s.change(ctx, orgID, "subscription.addOnRemoved", map[string]any{"addOnId": addOnID.String()},
		func(_ *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			if err := requireNotSuspended(sub); err != nil {
				return nil, err
			}
			for _, a := range sub.AddOns {
				if a.ID == addOnID {
					return func(ctx context.Context, sub Subscription) (Outcome, error) {
						return provider.RemoveAddOn(ctx, sub, a.Slug)
					}, nil
				}
			}
			return nil, fault.Missing("add-on")
		})
	return sub, err
}

// requireNotSuspended returns Conflict for a suspended subscription: the change
// would be charged or credited while payment is due.
func requireNotSuspended(sub Subscription) error {
	if sub.Status == Suspended {
		return fault.New(fault.Conflict, "The subscription is suspended. Pay the open invoice or change to the free plan.")
	}
	return nil
}

// findOffer returns the offer of an add-on that the subscription can buy.
func findOffer(ctx context.Context, tx *sqlx.Tx, sub Subscription, slug string) (Offer, error) {
	if err := requireNotSuspended(sub); err != nil {
		return Offer{}, err
	}
	offer := sub.Plan.offer(slug)
	if had := sub.addOn(slug); had != nil {
		offer = &had.Offer
	}
	if offer == nil {
		return Offer{}, errNotOffered(ctx, tx, sub, slug)
	}
	if sub.Plan.Limits.byName(offer.Limit) == nil {
		return Offer{}, errUnlimited(slug, offer.Limit)
	}
	if !sub.Paid() {
		return Offer{}, fault.New(fault.Conflict, "Add-ons require a paid plan.")
	}
	return *offer, nil
}

// errNotOffered returns the reason: the plan does not offer the add-on, or the limit
// that it raises is unlimited.
func errNotOffered(ctx context.Context, tx *sqlx.Tx, sub Subscription, slug string) error {
	others, err := offersOf(ctx, tx, slug)
	if err != nil {
		return err
	}
	for _, o := range others {
		if sub.Plan.Limits.byName(o.Limit) == nil {
			return errUnlimited(slug, o.Limit)
		}
	}
	return fault.Invalid(fault.Detail{Field: "addOn", Code: fault.Custom, Message: "is not offered with the plan", Received: slug})
}

func errUnlimited(slug, limit string) error {
	return fault.New(fault.Conflict, "The add-on has no effect: the limit is already unlimited.",
		fault.Detail{Field: "addOn", Code: fault.Custom, Message: limit + " is unlimited", Received: slug})
}
