package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// EndOrganization refuses to let an organization go that somebody else bills, or
// might: the provider would go on. It must change to the free plan first, which
// also closes a page to pay at.
func (s *Service) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	sub, err := lockSubscription(ctx, tx, orgID)
	if err != nil {
		return err
	}
	under, err := changeInProgress(ctx, tx, orgID)
	switch {
	case err != nil:
		return err
	case under:
		return errChangeInProgress()
	case sub.Paid() && sub.Provider != ManualName:
		return fault.New(fault.Conflict, "The organization pays for a plan. Change to the free plan first.")
	case sub.CheckoutID != "":
		return fault.New(fault.Conflict, "A page to pay at was opened. Change to the free plan first, which closes it.")
	}
	return nil
}

// clearCheckout takes in that a page to pay at has closed. A change that is
// under way has closed it itself, and writes down what came of it.
func (s *Service) clearCheckout(ctx context.Context, id string) error {
	_, err := s.System.ExecContext(ctx, `
		UPDATE subscriptions SET provider_checkout_id = NULL
		WHERE provider_checkout_id = $1 AND (changing_until IS NULL OR changing_until <= clock_timestamp())`, id)
	if err != nil {
		return fmt.Errorf("forget a page to pay at: %w", err)
	}
	return nil
}

// endOrphanedSubscription ends a subscription in the provider's books whose organization was
// deleted here, so that nobody is billed for nothing. One of an organization
// that never was here may be another service's, and is left alone.
func (s *Service) endOrphanedSubscription(ctx context.Context, remote Remote, orgID uuid.UUID, event Event) error {
	log := s.Logger.With("event", event.ID, "organization", orgID, "subscription", event.SubscriptionID)
	var deleted bool
	err := s.System.GetContext(ctx, &deleted,
		`SELECT EXISTS (SELECT FROM audit_events WHERE organization_id = $1 AND action = 'organization.deleted')`, orgID)
	if err != nil {
		return fmt.Errorf("look for the end of organization %s: %w", orgID, err)
	}
	if !deleted {
		log.WarnContext(ctx, "an event of a payment provider is about an organization that is not here")
		return nil
	}
	found, err := remote.Subscription(ctx, event.SubscriptionID)
	if err != nil || found.Status == Canceled {
		return err
	}
	_, err = remote.ChangePlan(ctx, Subscription{OrgID: orgID, Status: found.Status, RemoteID: found.ID}, Plan{Slug: freeSlug})
	if err != nil {
		return err
	}
	log.ErrorContext(ctx, "an organization that is gone was billed: its subscription has been ended, refund what was paid")
	return nil
}
