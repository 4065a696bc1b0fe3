package billing

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Assign changes an organization's plan on behalf of an operator, immediately and
// on the plan's current terms. Manual bills the plan. Returns NotFound for an
// unknown plan, and Conflict if the organization already has the plan, is billed
// by a payment provider or has an open checkout session: it would pay twice.
func (s *Service) Assign(ctx context.Context, orgID uuid.UUID, slug string) (Subscription, error) {
	manual := Manual{Clock: s.Clock}
	sub, _, err := s.change(ctx, orgID, "subscription.planAssigned", map[string]any{"plan": slug},
		func(tx *sqlx.Tx, sub Subscription) (providerCall, error) {
			newPlan, err := findPlan(ctx, tx, slug)
			switch {
			case err != nil:
				return nil, err
			case newPlan.ID == sub.Plan.ID:
				return nil, fault.New(fault.Conflict, "The organization already has this plan.")
			case sub.Paid() && sub.Provider != ManualName:
				return nil, fault.New(fault.Conflict, fmt.Sprintf(
					"The organization is billed by %s. Change the plan there, or change to the free plan first.", sub.Provider))
			case sub.CheckoutID != "":
				return nil, fault.New(fault.Conflict,
					"The organization has an open checkout session. It must change to the free plan first, which closes the session.")
			}
			return func(ctx context.Context, sub Subscription) (Outcome, error) {
				return manual.ChangePlan(ctx, sub, newPlan)
			}, nil
		})
	return sub, err
}

// Suspend sets an organization's slots to 0 until Restore, regardless of its payments in the
// meantime. Running sessions continue. Returns Conflict if the organization is
// already suspended.
func (s *Service) Suspend(ctx context.Context, orgID uuid.UUID, reason string) (Subscription, error) {
	details := map[string]any{}
	if reason != "" {
		details["reason"] = reason
	}
	return s.setOperatorSuspended(ctx, orgID, true, "organization.suspended", "The organization is already suspended.", details)
}

// Restore reverts Suspend. Returns Conflict if no operator has suspended the
// organization.
func (s *Service) Restore(ctx context.Context, orgID uuid.UUID) (Subscription, error) {
	return s.setOperatorSuspended(ctx, orgID, false, "organization.resumed", "The organization is not suspended by an operator.", nil)
}

// setOperatorSuspended does not take the change lock: it modifies nothing that a
// change in progress reads, and its row lock delays the commit of that change.
func (s *Service) setOperatorSuspended(ctx context.Context, orgID uuid.UUID, suspended bool, action, refusal string, details map[string]any) (Subscription, error) {
	var sub Subscription
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if sub, err = lockSubscription(ctx, tx, orgID); err != nil {
			return err
		}
		if sub.OperatorSuspended == suspended {
			return fault.New(fault.Conflict, refusal)
		}
		sub.OperatorSuspended = suspended
		_, err = tx.ExecContext(ctx, `
			UPDATE subscriptions SET operator_suspended_at = CASE WHEN $2 THEN $3::timestamptz END WHERE organization_id = $1`,
			orgID, suspended, s.Clock.Now())
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

// isOperatorSuspended reports whether an operator has suspended the organization.
func isOperatorSuspended(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (bool, error) {
	var suspended bool
	err := tx.GetContext(ctx, &suspended, `SELECT operator_suspended_at IS NOT NULL FROM subscriptions WHERE organization_id = $1`, orgID)
	if err != nil {
		return false, fmt.Errorf("read whether organization %s is suspended: %w", orgID, err)
	}
	return suspended, nil
}
