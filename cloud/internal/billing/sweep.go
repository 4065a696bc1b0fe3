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
	// sweepBatch is how many subscriptions or events Sweep takes at a time.
	sweepBatch = 500
	// overdueAfter is how long after the end of a period the provider's event is
	// waited for, before the provider is asked.
	overdueAfter = time.Hour
	// eventRetention is how long events are remembered: the provider repeats one for
	// three days, and its signature is too old after minutes.
	eventRetention = 30 * 24 * time.Hour
)

// Sweep does what time brings: it renews the subscriptions of manual billing
// whose period is over, or puts those that were cancelled on the free plan; it
// asks a Remote provider about those whose event did not come; and it forgets
// old events. It returns how many subscriptions it changed or asked about. Any
// number of replicas may do it at once. It goes on after a failure and returns
// all of them.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	now := s.Clock.Now()
	swept, failures := 0, []error{}
	for last := (dueSubscription{}); ctx.Err() == nil; {
		batch, err := s.nextDue(ctx, last, now)
		if err != nil {
			failures = append(failures, err)
			break
		}
		for _, d := range batch {
			did, err := s.updateDue(ctx, d)
			if err != nil {
				failures = append(failures, fmt.Errorf("sweep the subscription of organization %s: %w", d.OrgID, err))
			} else if did {
				swept++
			}
		}
		if len(batch) < sweepBatch {
			break
		}
		last = batch[len(batch)-1]
	}
	failures = append(failures, s.deleteEvents(ctx, now.Add(-eventRetention)))
	return swept, errors.Join(failures...)
}

// dueSubscription is a subscription whose period is over.
type dueSubscription struct {
	OrgID    uuid.UUID `db:"organization_id"`
	Provider string    `db:"provider"`
	RemoteID string    `db:"remote_id"`
	End      time.Time `db:"current_period_end"`
}

// nextDue returns the next of those that something can be done about, the
// longest over first. Each sweep passes each once, so that one which fails keeps
// none from its turn.
func (s *Service) nextDue(ctx context.Context, last dueSubscription, now time.Time) ([]dueSubscription, error) {
	asked := ""
	if remote, ok := s.Provider.(Remote); ok {
		asked = remote.Name()
	}
	var batch []dueSubscription
	err := s.System.SelectContext(ctx, &batch, `
		SELECT organization_id, provider, coalesce(provider_subscription_id, '') AS remote_id, current_period_end FROM subscriptions
		WHERE current_period_end <= $1 AND (current_period_end, organization_id) > ($2, $3)
		  AND (provider = 'manual' OR provider = $4 AND provider_subscription_id IS NOT NULL AND current_period_end <= $5)
		ORDER BY current_period_end, organization_id LIMIT $6`,
		now, last.End, last.OrgID, asked, now.Add(-overdueAfter), sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("list due subscriptions: %w", err)
	}
	return batch, nil
}

// updateDue does what is to be done about one; false when that was nothing.
func (s *Service) updateDue(ctx context.Context, d dueSubscription) (bool, error) {
	if d.Provider == ManualName {
		return s.renew(ctx, d.OrgID)
	}
	return true, s.resync(ctx, d.RemoteID)
}

// deleteEvents removes those that were taken in before, a batch at a time.
// Replicas share the work.
func (s *Service) deleteEvents(ctx context.Context, before time.Time) error {
	for {
		result, err := s.System.ExecContext(ctx, `
			DELETE FROM payment_events WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM payment_events WHERE received_at < $1
				ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, before, sweepBatch)
		if err != nil {
			return fmt.Errorf("delete old events: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n < sweepBatch {
			return err
		}
	}
}

// renew begins the next period, or ends the subscription. False when another
// one did, or when a change is under way: the next sweep looks again.
func (s *Service) renew(ctx context.Context, orgID uuid.UUID) (bool, error) {
	did := false
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		did = false
		sub, err := lockSubscription(ctx, tx, orgID)
		if err != nil {
			return err
		}
		under, err := changeInProgress(ctx, tx, orgID)
		if err != nil || under || !sub.Paid() || sub.Provider != ManualName || sub.Period.End.After(s.Clock.Now()) {
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
		if err := s.applyOutcome(ctx, tx, Manual{Clock: s.Clock}.Renew(sub, free)); err != nil {
			return err
		}
		did = true
		return s.Audit.Record(ctx, tx, orgID, action, orgID.String(), map[string]any{"plan": sub.Plan.Slug})
	})
	return did, err
}

// resync reads from the provider's books what an event should have told.
func (s *Service) resync(ctx context.Context, remoteID string) error {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return s.syncSubscription(ctx, s.Provider.(Remote), Event{Kind: "sweep", SubscriptionID: remoteID})
}
