package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Assign puts an organization on a plan for an operator, at once and on its terms
// of today. Manual bills it. An unknown plan is NotFound. The plan that it has
// already is a Conflict, and so is an organization that a payment provider bills,
// or that has a page to pay at: it would pay twice.
func (s *Service) Assign(ctx context.Context, orgID uuid.UUID, slug string) (Subscription, error) {
	manual := Manual{Clock: s.Clock}
	sub, _, err := s.change(ctx, orgID, "subscription.planAssigned", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			to, err := findPlan(ctx, tx, slug)
			switch {
			case err != nil:
				return nil, err
			case to.ID == sub.Plan.ID:
				return nil, fault.New(fault.Conflict, "The organization has this plan already.")
			case sub.Paid() && sub.Provider != ManualName:
				return nil, fault.New(fault.Conflict, fmt.Sprintf(
					"The organization is billed by %s. Let it change to the free plan there first, or change the plan there.", sub.Provider))
			case sub.CheckoutID != "":
				return nil, fault.New(fault.Conflict,
					"The organization has opened a page to pay at. Let it change to the free plan first, which closes the page.")
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return manual.ChangePlan(ctx, sub, to)
			}, nil
		})
	return sub, err
}

// Suspend keeps an organization from launching until Restore, whatever it pays
// meanwhile: its slots are 0. What runs goes on. One that is suspended already is
// a Conflict.
func (s *Service) Suspend(ctx context.Context, orgID uuid.UUID, reason string) (Subscription, error) {
	details := map[string]any{}
	if reason != "" {
		details["reason"] = reason
	}
	return s.setOperatorSuspended(ctx, orgID, true, "organization.suspended", "The organization is suspended already.", details)
}

// Restore takes Suspend back. An organization that is not suspended by an
// operator is a Conflict.
func (s *Service) Restore(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setOperatorSuspended(ctx, orgID, false, "organization.resumed", "The organization is not suspended by an operator.", nil)
}

// setOperatorSuspended needs no claim: it changes nothing that a change under way reads, and its
// lock keeps that from settling meanwhile.
func (s *Service) setOperatorSuspended(ctx context.Context, orgID uuid.UUID, held bool, action, refusal string, details map[string]any) (Subscription, error) {
	var sub Subscription
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if sub, err = lockSubscription(ctx, tx, orgID); err != nil {
			return err
		}
		if sub.OperatorSuspended == held {
			return fault.New(fault.Conflict, refusal)
		}
		sub.OperatorSuspended = held
		_, err = tx.ExecContext(ctx, `
			UPDATE subscriptions SET operator_suspended_at = CASE WHEN $2 THEN $3::timestamptz END WHERE organization_id = $1`,
			orgID, held, s.Clock.Now())
		if err != nil {
			return fmt.Errorf("suspend or resume organization %s: %w", orgID, err)
		}
		if err := s.Slots.SetLimit(ctx, tx, orgID, sub.Effective().Profiles); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, action, orgID.String(), details)
	})
	return sub, err
}

// isOperatorSuspended tells whether an operator suspended the organization.
func isOperatorSuspended(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (bool, error) {
	var held bool
	err := tx.GetContext(ctx, &held, `SELECT operator_suspended_at IS NOT NULL FROM subscriptions WHERE organization_id = $1`, orgID)
	if err != nil {
		return false, fmt.Errorf("find out whether organization %s is suspended: %w", orgID, err)
	}
	return held, nil
}
