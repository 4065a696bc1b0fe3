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
	// overdueAfter is how long after the end of a period Sweep waits for the
	// provider's event before it asks the provider.
	overdueAfter = time.Hour
	// eventRetention is how long event IDs are kept. The provider repeats an
	// event for three days, and its signature expires after minutes.
	eventRetention = 30 * 24 * time.Hour
)

// Sweep renews or ends manually billed subscriptions whose period is over, reads
// overdue subscriptions from a Remote provider, cancels the subscriptions of
// deleted organizations there, and deletes old events. It returns how many
// subscriptions of existing organizations it changed or read. Replicas may run it
// concurrently. It continues after failures and returns all of them.
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
	failures = append(failures, s.checkDeleted(ctx), s.deleteEvents(ctx, now.Add(-eventRetention)))
	return swept, errors.Join(failures...)
}

// dueSubscription is a subscription whose period is over.
type dueSubscription struct {
	OrgID    uuid.UUID `db:"organization_id"`
	Provider string    `db:"provider"`
	RemoteID string    `db:"remote_id"`
	End      time.Time `db:"current_period_end"`
}

// nextDue returns the next batch of due subscriptions, longest overdue first.
// Each sweep visits each subscription once, so that a failing one does not block
// the others.
func (s *Service) nextDue(ctx context.Context, last dueSubscription, now time.Time) ([]dueSubscription, error) {
	remoteName := ""
	if remote, ok := s.Provider.(Remote); ok {
		remoteName = remote.Name()
	}
	var batch []dueSubscription
	err := s.System.SelectContext(ctx, &batch, `
		SELECT organization_id, provider, coalesce(provider_subscription_id, '') AS remote_id, current_period_end FROM subscriptions
		WHERE current_period_end <= $1 AND (current_period_end, organization_id) > ($2, $3)
		  AND (provider = 'manual' OR provider = $4 AND provider_subscription_id IS NOT NULL AND current_period_end <= $5)
		ORDER BY current_period_end, organization_id LIMIT $6`,
		now, last.End, last.OrgID, remoteName, now.Add(-overdueAfter), sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("list due subscriptions: %w", err)
	}
	return batch, nil
}

// updateDue updates one due subscription; false if there was nothing to do.
func (s *Service) updateDue(ctx context.Context, d dueSubscription) (bool, error) {
	if d.Provider == ManualName {
		return s.renew(ctx, d.OrgID)
	}
	return true, s.resync(ctx, d.RemoteID)
}

// deleteEvents deletes events received before the given time, in batches.
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

// renew begins the next period or ends the subscription. It returns false if
// another replica did so or if a change is in progress; the next sweep tries
// again.
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

// resync reads a subscription from the provider, whose event did not arrive.
func (s *Service) resync(ctx context.Context, remoteID string) error {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return s.syncSubscription(ctx, s.Provider.(Remote), Event{Kind: "sweep", SubscriptionID: remoteID})
}
