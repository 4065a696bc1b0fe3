// Package billing manages subscriptions: plan changes, add-ons, cancellation and
// invoices (specification 2.7, 4.1, 8).
//
// The limits and prices of a plan or an add-on are copied at the purchase, so later
// changes of the catalog do not affect existing subscriptions. A change of the limits
// updates the organization's slots in the same transaction. A lower limit never deletes
// anything.
//
// A Provider collects the payments: Manual only writes invoices; a Remote provider
// reports the result of a change by an event.
package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Slots sets the maximum number of concurrent launches of an organization.
type Slots interface {
	// SetLimit sets the number of slots; nil is unlimited.
	SetLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, limit *int) error
}

// Recorder writes the audit log.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// Provider collects payments. It is called outside of transactions, with a deadline,
// and not concurrently for one organization. It returns *fault.Error; after an error
// nothing has changed.
type Provider interface {
	Name() string
	// Checkout subscribes an organization without a paid subscription.
	Checkout(ctx context.Context, s Subscription, plan Plan, returnURL string) (Outcome, error)
	// ChangePlan changes the plan immediately. A change to a free plan ends the paid
	// subscription, or closes the open checkout session.
	ChangePlan(ctx context.Context, s Subscription, newPlan Plan) (Outcome, error)
	// AddAddOn adds a quantity of an offered add-on.
	AddAddOn(ctx context.Context, s Subscription, o Offer, quantity int) (Outcome, error)
	// RemoveAddOn removes an add-on completely.
	RemoveAddOn(ctx context.Context, s Subscription, slug string) (Outcome, error)
	// SetCancel sets whether the subscription ends with its period.
	SetCancel(ctx context.Context, s Subscription, cancel bool) (Outcome, error)
	// Portal returns the URL of the page for the payment method, or "". Returns
	// Conflict if the organization has never paid.
	Portal(ctx context.Context, s Subscription, returnURL string) (string, error)
}

// Outcome is the result of a provider call.
type Outcome struct {
	URL          string        // the page on which the user pays; "" for none
	Subscription *Subscription // the new state; nil if an event will report it
	Invoice      *Invoice      // the invoice to write, without ID and Number
}

// The timeouts of the steps of a change. The change lock outlasts the other
// steps, so that it only expires if the process has died.
const (
	providerTimeout = 30 * time.Second
	commitTimeout   = 10 * time.Second
	changeLockTTL   = time.Minute
)

// Service changes subscriptions and reads them.
type Service struct {
	DB       *sqlx.DB // for statements on one organization
	System   *sqlx.DB // for Sweep and Receive; sees all organizations
	Clock    clock.Clock
	Slots    Slots
	Audit    Recorder
	Provider Provider // of new subscriptions
	Logger   *slog.Logger
	// SelfService lets organizations change manually billed plans and add-ons.
	// Otherwise only an operator can, with Assign.
	SelfService bool
	Contact     string // the operator's e-mail address for refusals; may be empty
}

// Subscription returns the organization's subscription.
func (s *Service) Subscription(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	var found Subscription
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		found, err = readSubscription(ctx, tx, orgID)
		return err
	})
	return found, err
}

// AvailableAddOn is an add-on that the plan currently offers, with the quantity that
// the subscription has.
type AvailableAddOn struct {
	Offer
	Bought *AddOn // nil for none
}

// AddOns returns the add-ons that the organization's plan currently offers.
func (s *Service) AddOns(ctx context.Context, orgID uuid.UUID) ([]AvailableAddOn, error) {
	list := []AvailableAddOn{}
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		list = list[:0]
		sub, err := readSubscription(ctx, tx, orgID)
		if err != nil {
			return err
		}
		today, err := findPlan(ctx, tx, sub.Plan.Slug)
		if err != nil {
			return err
		}
		for _, o := range today.Offers {
			list = append(list, AvailableAddOn{Offer: o, Bought: sub.addOn(o.Slug)})
		}
		return nil
	})
	return list, err
}

// Portal returns the URL of the page for the payment method, "" for none. Returns
// Conflict if the organization has never paid.
func (s *Service) Portal(ctx context.Context, orgID uuid.UUID, returnURL string) (string, error) {
	sub, err := s.Subscription(ctx, orgID)
	if err != nil {
		return "", err
	}
	provider, err := s.providerFor(sub)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return provider.Portal(ctx, sub, returnURL)
}

// providerFor returns the provider that bills the subscription: the one it was
// bought with, even if the service has another provider for new subscriptions.
func (s *Service) providerFor(sub Subscription) (Provider, error) {
	switch sub.Provider {
	case "", s.Provider.Name():
		return s.Provider, nil
	case ManualName:
		return Manual{Clock: s.Clock}, nil
	}
	return nil, fault.Wrap(fmt.Errorf("the subscription is billed by %s, but the service is configured for %s", sub.Provider, s.Provider.Name()),
		fault.Unavailable, "The payment provider of the subscription is not available.")
}

// selfServiceProvider returns the provider of the subscription if the
// organization may change it itself; otherwise it returns Forbidden with the
// operator's contact.
func (s *Service) selfServiceProvider(sub Subscription) (Provider, error) {
	if sub.OperatorSuspended {
		return nil, fault.New(fault.Forbidden, "The organization was suspended by the operator of this service. Contact "+s.operatorContact()+".")
	}
	provider, err := s.providerFor(sub)
	if err != nil || s.SelfService || provider.Name() != ManualName {
		return provider, err
	}
	return nil, fault.New(fault.Forbidden, "Only the operator of this service can change plans and add-ons. Contact "+s.operatorContact()+".")
}

func (s *Service) operatorContact() string {
	if s.Contact == "" {
		return "the operator, for example with POST /v1/contact"
	}
	return "the operator: " + s.Contact
}

// providerCall is the provider's part of a change.
type providerCall func(ctx context.Context, sub Subscription) (Outcome, error)

// change makes one change. It acquires the change lock, lets the provider do its
// part and saves the result. begin decides, under the row lock of the
// subscription, whether the change is allowed.
func (s *Service) change(ctx context.Context, orgID uuid.UUID, action string, details map[string]any,
	begin func(tx *sqlx.Tx, sub Subscription) (providerCall, error),
) (Subscription, string, error) {
	var sub Subscription
	var do providerCall
	var claim time.Time
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if sub, err = lockSubscription(ctx, tx, orgID); err != nil {
			return err
		}
		if do, err = begin(tx, sub); err != nil {
			return err
		}
		claim, err = acquireChangeLock(ctx, tx, orgID)
		return err
	})
	if err != nil {
		return Subscription{}, "", err
	}
	working, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	outcome, err := do(working, sub)
	// A disconnected client must not prevent saving the result.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err == nil {
		sub, err = s.commitChange(settling, orgID, claim, outcome, action, details)
	}
	if err != nil {
		s.abortChange(settling, orgID, claim)
		return Subscription{}, "", err
	}
	return sub, outcome.URL, nil
}

// commitChange saves the result of a change and releases its lock.
func (s *Service) commitChange(ctx context.Context, orgID uuid.UUID, claim time.Time, outcome Outcome, action string, details map[string]any) (Subscription, error) {
	var settled Subscription
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if err := releaseChangeLock(ctx, tx, orgID, claim); err != nil {
			return err
		}
		if err := s.applyOutcome(ctx, tx, outcome); err != nil {
			return err
		}
		if err := s.Audit.Record(ctx, tx, orgID, action, orgID.String(), details); err != nil {
			return err
		}
		settled, err = readSubscription(ctx, tx, orgID)
		return err
	})
	return settled, err
}

// abortChange releases the lock of a failed change. If that fails too, the lock
// expires.
func (s *Service) abortChange(ctx context.Context, orgID uuid.UUID, claim time.Time) {
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error { return releaseChangeLock(ctx, tx, orgID, claim) })
	if err != nil && !errors.Is(err, errChangeLockLost) {
		s.Logger.ErrorContext(ctx, "failed to release the subscription after a failed change", "organization", orgID, "error", err)
	}
}

// applyOutcome saves an outcome: the subscription, its slots and its invoice. The
// caller holds the row lock of the subscription.
func (s *Service) applyOutcome(ctx context.Context, tx *sqlx.Tx, outcome Outcome) error {
	if outcome.Subscription == nil {
		return nil
	}
	sub := *outcome.Subscription
	sub.UpdatedAt = s.Clock.Now()
	if err := saveSubscription(ctx, tx, sub); err != nil {
		return err
	}
	var err error
	if sub.OperatorSuspended, err = isOperatorSuspended(ctx, tx, sub.OrgID); err != nil { // the subscription may have changed since it was read
		return err
	}
	if err := s.Slots.SetLimit(ctx, tx, sub.OrgID, sub.Effective().Profiles); err != nil {
		return err
	}
	if outcome.Invoice == nil {
		return nil
	}
	return writeInvoice(ctx, tx, sub.OrgID, *outcome.Invoice)
}
