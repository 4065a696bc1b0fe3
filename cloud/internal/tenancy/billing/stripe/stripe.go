// Package stripe takes payments through Stripe. Stripe keeps the subscription;
// billing.Service copies it when an event reports a change.
//
// Prices are found by their lookup keys: `svc:PLAN` for a plan and
// `svc:PLAN:ADD-ON` for an add-on of the plan, with the slugs of the catalog.
// When a lookup key is transferred to a newer price, the older price must keep
// its key as the metadata `svc`, so that subscriptions at that price can still be
// read.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	api "github.com/stripe/stripe-go/v85"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/shared/fault"
)

// Name is the name of the provider.
const Name = "stripe"

// organizationKey is the metadata key of Stripe subscriptions for the
// organization ID.
const organizationKey = "organization_id"

// Config configures the Stripe client.
type Config struct {
	SecretKey     string
	WebhookSecret string // of the endpoint that receives events
	APIBase       string // Stripe's own if empty
}

// Provider is the Stripe provider.
type Provider struct {
	client *api.Client
	secret string
}

var _ billing.Remote = (*Provider)(nil)

// New returns a Provider. Both secrets are required: without the webhook secret,
// anyone could send events.
func New(c Config) (*Provider, error) {
	if c.SecretKey == "" || c.WebhookSecret == "" {
		return nil, errors.New("stripe requires a secret key and a webhook secret")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = attemptTime
	config := &api.BackendConfig{
		HTTPClient:        &http.Client{Timeout: callTime, Transport: retryTransport{transport}},
		MaxNetworkRetries: new(int64(0)), // retryTransport retries instead
		EnableTelemetry:   new(false),
		LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull}, // the returned errors contain the details
	}
	if c.APIBase != "" {
		config.URL = &c.APIBase
	}
	client := api.NewClient(c.SecretKey, api.WithBackends(api.NewBackendsWithConfig(config)))
	return &Provider{client: client, secret: c.WebhookSecret}, nil
}

// Name implements billing.Provider.
func (*Provider) Name() string { return Name }

// Checkout implements billing.Provider: the user pays on Stripe's page. The
// previous checkout session is expired first, so that nobody pays twice.
func (p *Provider) Checkout(ctx context.Context, s billing.Subscription, plan billing.Plan, returnURL string) (billing.Outcome, error) {
	prices, err := p.prices(ctx, planKey(plan.Slug))
	if err != nil {
		return billing.Outcome{}, err
	}
	if err := p.closeCheckout(ctx, s.CheckoutID); err != nil {
		return billing.Outcome{}, err
	}
	organization := s.OrgID.String()
	params := &api.CheckoutSessionCreateParams{
		Mode:              new(string(api.CheckoutSessionModeSubscription)),
		ClientReferenceID: &organization,
		SuccessURL:        &returnURL,
		CancelURL:         &returnURL,
		LineItems:         []*api.CheckoutSessionCreateLineItemParams{{Price: new(prices[planKey(plan.Slug)]), Quantity: new(int64(1))}},
		SubscriptionData: &api.CheckoutSessionCreateSubscriptionDataParams{
			Metadata: map[string]string{organizationKey: organization},
		},
	}
	if s.CustomerID != "" {
		params.Customer = &s.CustomerID
	}
	session, err := p.client.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return billing.Outcome{}, providerError("start a checkout", err)
	}
	s.CheckoutID = session.ID
	return billing.Outcome{URL: session.URL, Subscription: &s}, nil
}

// closeCheckout expires a checkout session. Returns Conflict if it has been paid
// or a delayed payment is pending: an event will follow. A session whose
// subscription has ended, for example because the payment failed, counts as
// closed.
func (p *Provider) closeCheckout(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	session, err := p.client.V1CheckoutSessions.Retrieve(ctx, id, nil)
	if err != nil {
		return providerError("read a checkout", err)
	}
	switch session.Status {
	case api.CheckoutSessionStatusComplete:
		return p.checkEnded(ctx, session.Subscription)
	case api.CheckoutSessionStatusOpen:
		if _, err := p.client.V1CheckoutSessions.Expire(ctx, id, nil); err != nil {
			return providerError("close a checkout", err)
		}
	}
	return nil
}

// checkEnded returns Conflict if the subscription of a checkout session is still
// active.
func (p *Provider) checkEnded(ctx context.Context, subscription *api.Subscription) error {
	if subscription == nil {
		return nil
	}
	found, err := p.client.V1Subscriptions.Retrieve(ctx, subscription.ID, nil)
	if err != nil {
		return providerError("read a subscription", err)
	}
	switch status(found.Status) {
	case billing.Canceled:
		return nil
	case "":
		return fault.New(fault.Conflict, "A payment is being processed. Try again when it has succeeded or failed.")
	}
	return fault.New(fault.Conflict, "The organization has just paid for a plan, which becomes active shortly.")
}

// Portal implements billing.Provider.
func (p *Provider) Portal(ctx context.Context, s billing.Subscription, returnURL string) (string, error) {
	if s.CustomerID == "" {
		return "", fault.New(fault.Conflict, "The organization has never had a paid plan.")
	}
	session, err := p.client.V1BillingPortalSessions.Create(ctx,
		&api.BillingPortalSessionCreateParams{Customer: &s.CustomerID, ReturnURL: &returnURL})
	if err != nil {
		return "", providerError("open the portal", err)
	}
	return session.URL, nil
}

// providerError converts the error of a Stripe call to a fault with a public
// message; the details are for the log. Neither contains what Stripe says about a
// card or a customer.
func providerError(what string, err error) error {
	refused, ok := errors.AsType[*api.Error](err)
	if !ok {
		return fault.Wrap(fmt.Errorf("%s at Stripe: %w", what, err), fault.Unavailable, "The payment provider cannot be reached.")
	}
	cause := fmt.Errorf("%s at Stripe: status %d, %s %s, parameter %q, request %s: %s",
		what, refused.HTTPStatusCode, refused.Type, refused.Code, refused.Param, refused.RequestID, refused.Msg)
	switch status := refused.HTTPStatusCode; {
	case status == http.StatusPaymentRequired:
		return fault.Wrap(cause, fault.Conflict, "The payment was declined.")
	case status == http.StatusTooManyRequests, status == http.StatusConflict, status >= http.StatusInternalServerError:
		return fault.Wrap(cause, fault.Unavailable, "The payment provider cannot be reached.")
	}
	return fault.Wrap(cause, fault.BadGateway, "The payment provider rejected the request.")
}
