package billing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	// deletedWatch is how long after its deletion an organization is checked at the
	// provider. A checkout session expires after a day, a delayed payment succeeds
	// or fails within two weeks.
	deletedWatch = 30 * 24 * time.Hour
	// deletedCheckInterval is the time between two checks.
	deletedCheckInterval = 24 * time.Hour
	// deletedCheckTTL is how long one replica has for a check. After a failed check
	// it is the time until the next one.
	deletedCheckTTL = 30 * time.Minute
)

// EndOrganization returns Conflict if a payment provider bills the organization or
// might do so: the provider would continue after the deletion. The organization
// must change to the free plan first, which also closes an open checkout session.
// It records the deletion, so that a subscription that appears at a Remote provider
// later is canceled.
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
	if _, remote := s.Provider.(Remote); !remote && sub.CustomerID == "" {
		return nil
	}
	now := s.Clock.Now()
	_, err = tx.ExecContext(ctx, `
		INSERT INTO deleted_organizations (organization_id, deleted_at, next_check_at) VALUES ($1, $2, $3)`,
		orgID, now, now.Add(deletedCheckInterval))
	if err != nil {
		return fmt.Errorf("record the deletion of organization %s: %w", orgID, err)
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

// endOrphanedSubscription cancels the subscription of an event whose organization
// was deleted here, so that the customer is no longer billed. A subscription of an
// organization that never existed here may belong to another service: it is only
// logged.
func (s *Service) endOrphanedSubscription(ctx context.Context, remote Remote, orgID uuid.UUID, event Event) error {
	var deleted bool
	err := s.System.GetContext(ctx, &deleted, `SELECT EXISTS (SELECT FROM deleted_organizations WHERE organization_id = $1)`, orgID)
	if err != nil {
		return fmt.Errorf("read whether organization %s was deleted: %w", orgID, err)
	}
	if !deleted {
		s.Logger.WarnContext(ctx, "payment event refers to an unknown organization",
			"event", event.ID, "organization", orgID, "subscription", event.SubscriptionID)
		return nil
	}
	return s.cancelOrphanedSubscription(ctx, remote, orgID, event.SubscriptionID)
}

// cancelOrphanedSubscription cancels a subscription of a deleted organization
// unless it has ended.
func (s *Service) cancelOrphanedSubscription(ctx context.Context, remote Remote, orgID uuid.UUID, id string) error {
	found, err := remote.Subscription(ctx, id)
	if err != nil || found.Status == Canceled {
		return err
	}
	_, err = remote.ChangePlan(ctx, Subscription{OrgID: orgID, Status: found.Status, RemoteID: found.ID}, Plan{Slug: freeSlug})
	if err != nil {
		return err
	}
	s.Logger.ErrorContext(ctx, "canceled the subscription of a deleted organization: refund what was paid",
		"organization", orgID, "subscription", id)
	return nil
}

// deletedOrganization is a deleted organization that is still checked.
type deletedOrganization struct {
	OrgID     uuid.UUID `db:"organization_id"`
	DeletedAt time.Time `db:"deleted_at"`
}

// checkDeleted asks a Remote provider for subscriptions of deleted organizations
// and cancels them. The events of a subscription are not enough: the provider
// stops sending an event that fails for days.
func (s *Service) checkDeleted(ctx context.Context) error {
	remote, ok := s.Provider.(Remote)
	if !ok {
		return nil
	}
	var failures []error
	for ctx.Err() == nil {
		d, err := s.nextDeleted(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("find a deleted organization to check: %w", err))
			break
		}
		if err := s.checkDeletedOrganization(ctx, remote, d); err != nil {
			failures = append(failures, fmt.Errorf("check the subscriptions of deleted organization %s: %w", d.OrgID, err))
		}
	}
	return errors.Join(failures...)
}

// nextDeleted returns the next deleted organization to check, or sql.ErrNoRows. No
// other call returns it for deletedCheckTTL.
func (s *Service) nextDeleted(ctx context.Context) (deletedOrganization, error) {
	var d deletedOrganization
	now := s.Clock.Now()
	err := s.System.GetContext(ctx, &d, `
		UPDATE deleted_organizations SET next_check_at = $2 WHERE organization_id = (
			SELECT organization_id FROM deleted_organizations WHERE next_check_at <= $1
			ORDER BY next_check_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING organization_id, deleted_at`, now, now.Add(deletedCheckTTL))
	return d, err
}

// checkDeletedOrganization cancels the organization's subscriptions. It deletes the
// record of the deletion if there is none and deletedWatch is over.
func (s *Service) checkDeletedOrganization(ctx context.Context, remote Remote, d deletedOrganization) error {
	asking, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	ids, err := remote.CurrentSubscriptions(asking, d.OrgID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.cancelOrphanedSubscription(asking, remote, d.OrgID, id); err != nil {
			return err
		}
	}
	now := s.Clock.Now()
	if len(ids) == 0 && now.Sub(d.DeletedAt) >= deletedWatch {
		_, err = s.System.ExecContext(ctx, `DELETE FROM deleted_organizations WHERE organization_id = $1`, d.OrgID)
		return err
	}
	_, err = s.System.ExecContext(ctx, `
		UPDATE deleted_organizations SET next_check_at = $2 WHERE organization_id = $1`, d.OrgID, now.Add(deletedCheckInterval))
	return err
}
