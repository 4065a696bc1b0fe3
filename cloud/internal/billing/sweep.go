package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

const (
	// sweepBatch is how many subscriptions one Sweep looks at.
	sweepBatch = 500
	// overdue is how long after the end of a period the provider's event is
	// waited for, before the provider is asked.
	overdue = time.Hour
	// eventsKept is how long events are remembered: the provider repeats one for
	// three days, and its signature is too old after minutes.
	eventsKept = 30 * 24 * time.Hour
)

// Sweep does what time brings: it renews the subscriptions of manual billing
// whose period is over, or puts those that were cancelled on the free plan; it
// asks a Remote provider about those whose event did not come; and it forgets
// old events. It returns how many subscriptions it changed or asked about. Any
// number of replicas may do it at once. It goes on after a failure and returns
// all of them.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	now := s.Clock.Now()
	var due []struct {
		OrgID    uuid.UUID `db:"organization_id"`
		Provider string    `db:"provider"`
		RemoteID *string   `db:"provider_subscription_id"`
	}
	err := s.System.SelectContext(ctx, &due, `
		SELECT organization_id, provider, provider_subscription_id FROM subscriptions
		WHERE current_period_end <= $1 AND (provider = 'manual' OR current_period_end <= $2)
		ORDER BY current_period_end LIMIT $3`, now, now.Add(-overdue), sweepBatch)
	if err != nil {
		return 0, fmt.Errorf("list the subscriptions whose period is over: %w", err)
	}
	swept, failures := 0, []error{}
	for _, d := range due {
		did, err := true, error(nil)
		if d.Provider == ManualName {
			did, err = s.renew(ctx, d.OrgID)
		} else if remote, ok := s.Provider.(Remote); ok && d.RemoteID != nil {
			err = s.ask(ctx, remote, *d.RemoteID)
		}
		if did && err == nil {
			swept++
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("sweep the subscription of organization %s: %w", d.OrgID, err))
		}
	}
	if _, err := s.System.ExecContext(ctx, `DELETE FROM payment_events WHERE received_at < $1`, now.Add(-eventsKept)); err != nil {
		failures = append(failures, fmt.Errorf("forget old events: %w", err))
	}
	return swept, errors.Join(failures...)
}

// renew begins the next period, or ends the subscription. False when another
// one did, or when a change is under way: the next sweep looks again.
func (s *Service) renew(ctx context.Context, orgID uuid.UUID) (bool, error) {
	did := false
	err := pg.InOrg(ctx, s.System, orgID, func(tx *sqlx.Tx) error {
		did = false
		sub, err := lock(ctx, tx, orgID)
		if err != nil {
			return err
		}
		var changing bool
		err = tx.GetContext(ctx, &changing, `
			SELECT coalesce(changing_until > clock_timestamp(), false) FROM subscriptions WHERE organization_id = $1`, orgID)
		if err != nil || changing || !sub.Paid() || sub.Provider != ManualName || sub.Period.End.After(s.Clock.Now()) {
			return err
		}
		free, err := findPlan(ctx, tx, freeSlug)
		if err != nil {
			return err
		}
		action := "subscription.renewed"
		if sub.CancelAtPeriodEnd {
			action = "subscription.ended"
		}
		if err := s.write(ctx, tx, Manual{Clock: s.Clock}.Renew(sub, free)); err != nil {
			return err
		}
		did = true
		return s.Audit.Record(ctx, tx, orgID, action, orgID.String(), map[string]any{"plan": sub.Plan.Slug})
	})
	return did, err
}

// ask reads from the provider's books what an event should have told.
func (s *Service) ask(ctx context.Context, remote Remote, remoteID string) error {
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	return s.syncSubscription(ctx, remote, Event{Kind: "sweep", SubscriptionID: remoteID})
}
