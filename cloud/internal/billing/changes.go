package billing

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Checkout subscribes an organization that pays nothing yet to a plan that
// costs something. It returns where the user pays, "" when nothing is left to
// do, and the subscription as it is now. An unknown plan is NotFound; an
// organization that pays already, or has to, is a Conflict. What only an operator
// changes, see SelfService, is Forbidden, here as in the changes below.
func (s *Service) Checkout(ctx context.Context, orgID uuid.UUID, slug, returnURL string) (Subscription, string, error) {
	return s.change(ctx, orgID, "subscription.checkedOut", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			to, err := findPlan(ctx, tx, slug)
			if err != nil {
				return nil, err
			}
			if to.PriceCents == 0 {
				return nil, fault.Field("plan", "is free and needs no checkout")
			}
			if err := requireNotSuspended(sub); err != nil {
				return nil, err
			}
			if sub.Paid() {
				return nil, fault.New(fault.Conflict, "The organization already has a paid plan. Change the plan instead.")
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return provider.Checkout(ctx, sub, to, returnURL)
			}, nil
		})
}

// ChangePlan changes to another plan at once, on its terms of today. A plan
// that costs nothing ends what was paid for, and what could still be: the page
// to pay at. It returns the subscription as it
// is now: a Remote provider may still have to tell of the change.
func (s *Service) ChangePlan(ctx context.Context, orgID uuid.UUID, slug string) (Subscription, error) {
	sub, _, err := s.change(ctx, orgID, "subscription.planChanged", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			provider, err := s.selfServiceProvider(sub)
			if err != nil {
				return nil, err
			}
			to, err := findPlan(ctx, tx, slug)
			if err != nil {
				return nil, err
			}
			if to.ID == sub.Plan.ID && sub.CheckoutID == "" {
				return nil, fault.New(fault.Conflict, "The organization already has this plan.")
			}
			if to.PriceCents > 0 {
				if err := requireNotSuspended(sub); err != nil {
					return nil, err
				}
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return provider.ChangePlan(ctx, sub, to)
			}, nil
		})
	return sub, err
}

// Cancel ends the subscription with its period. A plan that costs nothing is a
// Conflict.
func (s *Service) Cancel(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setCancel(ctx, orgID, true, "subscription.canceled", "There is nothing to cancel: the plan costs nothing.")
}

// Resume takes a cancellation back, for as long as the period lasts.
func (s *Service) Resume(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setCancel(ctx, orgID, false, "subscription.resumed", "There is nothing to resume: the plan costs nothing.")
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

// AddAddOn buys so many of an add-on. More of what the subscription has already
// is on the terms of that. A limit that is unlimited can't be raised.
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

// RemoveAddOn ends an add-on of the subscription; an unknown one is NotFound.
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

// findOffer returns what the subscription can have more of.
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

// errNotOffered says why: an add-on of another plan may raise what this one does
// not limit.
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
