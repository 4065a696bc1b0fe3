package stripe

import (
	"context"

	api "github.com/stripe/stripe-go/v85"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/shared/fault"
)

// item is an item of a Stripe subscription.
type item = api.SubscriptionUpdateItemParams

// ChangePlan implements billing.Provider. The remainder of the period is credited
// and charged immediately; if the payment fails, nothing changes.
func (p *Provider) ChangePlan(ctx context.Context, s billing.Subscription, newPlan billing.Plan) (billing.Outcome, error) {
	if newPlan.PriceCents == 0 {
		return p.endSubscription(ctx, s)
	}
	return p.update(ctx, s, func(now *api.Subscription) ([]*item, error) {
		keys := map[string]string{} // by item ID
		for _, i := range now.Items.Data {
			plan, addOn := parseKey(i.Price)
			switch {
			case plan == "":
			case addOn == "":
				keys[i.ID] = planKey(newPlan.Slug)
			case newPlan.Raises(addOn):
				keys[i.ID] = addOnKey(newPlan.Slug, addOn)
			default:
				keys[i.ID] = ""
			}
		}
		return p.repriceItems(ctx, now, keys)
	})
}

// endSubscription cancels the subscription immediately and credits the remainder
// of a paid period. Without a subscription it closes the checkout session.
func (p *Provider) endSubscription(ctx context.Context, s billing.Subscription) (billing.Outcome, error) {
	if s.RemoteID == "" {
		err := p.closeCheckout(ctx, s.CheckoutID)
		s.CheckoutID = ""
		return billing.Outcome{Subscription: &s}, err
	}
	paid := s.Status == billing.Active
	_, err := p.client.V1Subscriptions.Cancel(ctx, s.RemoteID, &api.SubscriptionCancelParams{Prorate: &paid, InvoiceNow: &paid})
	if err != nil {
		return billing.Outcome{}, providerError("end a subscription", err)
	}
	return billing.Outcome{}, nil
}

// repriceItems sets the items to the prices of these keys and removes items whose
// key is empty. Items without a key stay unchanged.
func (p *Provider) repriceItems(ctx context.Context, now *api.Subscription, keys map[string]string) ([]*item, error) {
	var priceKeys []string
	for _, key := range keys {
		if key != "" {
			priceKeys = append(priceKeys, key)
		}
	}
	prices, err := p.prices(ctx, priceKeys...)
	if err != nil {
		return nil, err
	}
	var items []*item
	for _, i := range now.Items.Data {
		key, changes := keys[i.ID]
		switch {
		case !changes:
		case key == "":
			items = append(items, &item{ID: &i.ID, Deleted: new(true)})
		default:
			items = append(items, &item{ID: &i.ID, Price: new(prices[key]), Quantity: &i.Quantity})
		}
	}
	return items, nil
}

// AddAddOn implements billing.Provider. The quantity is computed from Stripe's
// state, so that a purchase whose event has not arrived is not lost.
func (p *Provider) AddAddOn(ctx context.Context, s billing.Subscription, o billing.Offer, quantity int) (billing.Outcome, error) {
	return p.update(ctx, s, func(now *api.Subscription) ([]*item, error) {
		plan := ""
		for _, i := range now.Items.Data {
			itemPlan, addOn := parseKey(i.Price)
			if addOn == o.Slug {
				return []*item{{ID: &i.ID, Quantity: new(i.Quantity + int64(quantity))}}, nil
			}
			if itemPlan != "" && addOn == "" {
				plan = itemPlan
			}
		}
		key := addOnKey(plan, o.Slug)
		prices, err := p.prices(ctx, key)
		return []*item{{Price: new(prices[key]), Quantity: new(int64(quantity))}}, err
	})
}

// RemoveAddOn implements billing.Provider.
func (p *Provider) RemoveAddOn(ctx context.Context, s billing.Subscription, slug string) (billing.Outcome, error) {
	return p.update(ctx, s, func(now *api.Subscription) ([]*item, error) {
		for _, i := range now.Items.Data {
			if _, addOn := parseKey(i.Price); addOn == slug {
				return []*item{{ID: &i.ID, Deleted: new(true)}}, nil
			}
		}
		return nil, nil
	})
}

// SetCancel implements billing.Provider.
func (p *Provider) SetCancel(ctx context.Context, s billing.Subscription, cancel bool) (billing.Outcome, error) {
	_, err := p.client.V1Subscriptions.Update(ctx, s.RemoteID, &api.SubscriptionUpdateParams{CancelAtPeriodEnd: &cancel})
	if err != nil {
		return billing.Outcome{}, providerError("cancel or resume a subscription", err)
	}
	return billing.Outcome{}, nil
}

// update changes the items of a subscription in one request, which also reverts a
// cancellation. Without items it changes nothing.
func (p *Provider) update(ctx context.Context, s billing.Subscription, edit func(now *api.Subscription) ([]*item, error)) (billing.Outcome, error) {
	if s.RemoteID == "" {
		return billing.Outcome{}, fault.New(fault.Conflict, "The organization has no paid subscription. Start a checkout first.")
	}
	now, err := p.client.V1Subscriptions.Retrieve(ctx, s.RemoteID, nil)
	if err != nil {
		return billing.Outcome{}, providerError("read a subscription", err)
	}
	items, err := edit(now)
	if err != nil || len(items) == 0 {
		return billing.Outcome{}, err
	}
	params := &api.SubscriptionUpdateParams{
		Items:             items,
		ProrationBehavior: new("always_invoice"),
		PaymentBehavior:   new("error_if_incomplete"),
	}
	if now.CancelAtPeriodEnd {
		params.CancelAtPeriodEnd = new(false)
	}
	if _, err := p.client.V1Subscriptions.Update(ctx, s.RemoteID, params); err != nil {
		return billing.Outcome{}, providerError("change a subscription", err)
	}
	return billing.Outcome{}, nil
}
