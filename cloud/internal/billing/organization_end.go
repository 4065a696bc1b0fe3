package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// EndOrganization returns Conflict if a payment provider bills the organization or
// might do so: the provider would continue after the deletion. The organization
// must change to the free plan first, which also closes an open checkout session.
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
		return fault.New(fault.Conflict, "The organization has a paid plan. Change to the free plan first.")
	case sub.CheckoutID != "":
		return fault.New(fault.Conflict, "A checkout session is still open. Change to the free plan first, which closes the session.")
	}
	return nil
}

// clearCheckout forgets a checkout session that has closed, unless a change is in
// progress: that change closed the session and saves the result itself.
func (s *Service) clearCheckout(ctx context.Context, id string) error {
	_, err := s.System.ExecContext(ctx, `
		UPDATE subscriptions SET provider_checkout_id = NULL
		WHERE provider_checkout_id = $1 AND (changing_until IS NULL OR changing_until <= clock_timestamp())`, id)
	if err != nil {
		return fmt.Errorf("clear a checkout session: %w", err)
	}
	return nil
}

// endOrphanedSubscription cancels a subscription at the provider whose organization
// was deleted here, so that the customer is no longer billed. A subscription of an
// organization that never existed here may belong to another service: it is only
// logged.
func (s *Service) endOrphanedSubscription(ctx context.Context, remote Remote, orgID uuid.UUID, event Event) error {
	log := s.Logger.With("event", event.ID, "organization", orgID, "subscription", event.SubscriptionID)
	var deleted bool
	err := s.System.GetContext(ctx, &deleted,
		`SELECT EXISTS (SELECT FROM audit_events WHERE organization_id = $1 AND action = 'organization.deleted')`, orgID)
	if err != nil {
		return fmt.Errorf("read whether organization %s was deleted: %w", orgID, err)
	}
	if !deleted {
		log.WarnContext(ctx, "payment event refers to an unknown organization")
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
	log.ErrorContext(ctx, "canceled the subscription of a deleted organization: refund what was paid")
	return nil
}
