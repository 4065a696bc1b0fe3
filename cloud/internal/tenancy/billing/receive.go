package billing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Remote is a Provider that keeps subscriptions itself: a change takes effect
// when its event arrives. Events may be late, duplicated and out of order, so an
// event only names the object, whose state is read from the provider.
type Remote interface {
	Provider
	// Event is an event of a Remote provider. At most one of the three IDs is
	// set; none if the kind of event is ignored.
	Event(payload []byte, signature string) (Event, error)
	// Subscription returns the provider's state of a subscription.
	Subscription(ctx context.Context, id string) (RemoteSubscription, error)
	// CurrentSubscriptions returns the IDs of the organization's subscriptions that
	// have not ended. A subscription created in the last minutes may be missing.
	CurrentSubscriptions(ctx context.Context, orgID uuid.UUID) ([]string, error)
	// Invoice returns the state of an invoice.
	Invoice(ctx context.Context, id string) (RemoteInvoice, error)
}

// Event is an event of a Remote provider. At most one of the three IDs is set; none if
// the kind of event is ignored.
type Event struct {
	ID             string
	Kind           string
	SubscriptionID string
	InvoiceID      string
	CheckoutID     string // of a checkout session that expired unpaid
}

// RemoteSubscription is a subscription as stored at the provider.
type RemoteSubscription struct {
	ID                string
	CustomerID        string
	OrgID             uuid.UUID // uuid.Nil if it is not an organization of this service
	Status            Status    // "" while the first payment is missing
	Plan              string    // the slug
	PriceCents        int
	Currency          string
	Interval          string
	AddOns            []RemoteAddOn
	Start, End        time.Time // of the period
	CancelAtPeriodEnd bool
}

// RemoteAddOn is an add-on as stored at the provider.
type RemoteAddOn struct {
	Slug       string
	Quantity   int
	PriceCents int // of one unit
}

// RemoteInvoice is an invoice as stored at the provider.
type RemoteInvoice struct {
	Invoice
	Draft          bool
	OrgID          uuid.UUID // uuid.Nil if the provider does not report it
	SubscriptionID string
}

// maxRereads bounds how often an object is read again because another event was
// applied meanwhile.
const maxRereads = 5

// Receive processes an event of the provider. A repeated event has no effect.
// After an error the event counts as not received, and the provider sends it
// again.
func (s *Service) Receive(ctx context.Context, payload []byte, signature string) error {
	remote, ok := s.Provider.(Remote)
	if !ok {
		return fault.New(fault.NotFound, "This payment provider is not configured.")
	}
	event, err := remote.Event(payload, signature)
	switch {
	case err != nil:
		return err
	case event.CheckoutID != "":
		return s.clearCheckout(ctx, event.CheckoutID)
	case event.SubscriptionID == "" && event.InvoiceID == "":
		return nil
	}
	var duplicate bool
	if err := s.System.GetContext(ctx, &duplicate, `SELECT EXISTS (SELECT FROM payment_events WHERE id = $1)`, event.ID); err != nil {
		return fmt.Errorf("find an event: %w", err)
	}
	if duplicate {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	if event.InvoiceID != "" {
		return s.syncInvoice(ctx, remote, event)
	}
	return s.syncSubscription(ctx, remote, event)
}

// syncSubscription copies the subscription from the provider.
func (s *Service) syncSubscription(ctx context.Context, remote Remote, event Event) error {
	orgID, err := s.findOrganization(ctx, event.SubscriptionID)
	if err != nil {
		return err
	}
	if orgID == uuid.Nil {
		found, err := remote.Subscription(ctx, event.SubscriptionID)
		if err != nil || found.OrgID == uuid.Nil {
			return err
		}
		orgID = found.OrgID
	}
	err = s.sync(ctx, orgID, event, func() (applyFunc, error) {
		found, err := remote.Subscription(ctx, event.SubscriptionID)
		return func(tx *sqlx.Tx, sub Subscription) error {
			after, err := s.applyRemote(ctx, tx, sub, found, remote.Name())
			if err != nil || reflect.DeepEqual(after, sub) {
				return err
			}
			if err := s.applyOutcome(ctx, tx, Outcome{Subscription: &after}); err != nil {
				return err
			}
			return s.Audit.Record(ctx, tx, orgID, "subscription.changed", orgID.String(), map[string]any{
				"provider": remote.Name(), "event": event.ID, "plan": after.Plan.Slug, "status": string(after.Status),
			})
		}, err
	})
	if errors.Is(err, errOrganizationDeleted) {
		return s.endOrphanedSubscription(ctx, remote, orgID, event)
	}
	return err
}

// syncInvoice copies the invoice from the provider.
func (s *Service) syncInvoice(ctx context.Context, remote Remote, event Event) error {
	found, err := remote.Invoice(ctx, event.InvoiceID)
	if err != nil {
		return err
	}
	orgID := found.OrgID
	if orgID == uuid.Nil {
		if orgID, err = s.findOrganization(ctx, found.SubscriptionID); err != nil || orgID == uuid.Nil {
			return err
		}
	}
	err = s.sync(ctx, orgID, event, func() (applyFunc, error) {
		found, err := remote.Invoice(ctx, event.InvoiceID)
		return func(tx *sqlx.Tx, _ Subscription) error {
			if found.Draft {
				return nil
			}
			changed, err := upsertInvoice(ctx, tx, orgID, found.Invoice)
			if err != nil || !changed {
				return err
			}
			return s.Audit.Record(ctx, tx, orgID, "invoice.changed", found.Number, map[string]any{
				"provider": remote.Name(), "event": event.ID, "status": string(found.Status), "amountDueCents": found.AmountDueCents,
			})
		}, err
	})
	if errors.Is(err, errOrganizationDeleted) {
		s.Logger.WarnContext(ctx, "payment event refers to a deleted organization", "event", event.ID, "organization", orgID)
		return nil
	}
	return err
}

// applyFunc saves what was read from the provider, under the row lock of the
// subscription.
type applyFunc func(tx *sqlx.Tx, sub Subscription) error

// errOrganizationDeleted means that the organization of an event does not exist.
var errOrganizationDeleted = errors.New("the organization of the event was deleted")

// sync reads the object from the provider and applies it. If another event was applied
// meanwhile, it reads again, so that older state never replaces newer state. It returns
// errOrganizationDeleted for a deleted organization.
func (s *Service) sync(ctx context.Context, orgID uuid.UUID, event Event, fetch func() (applyFunc, error)) error {
	for range maxRereads {
		var revision int64
		err := s.System.GetContext(ctx, &revision, `SELECT revision FROM subscriptions WHERE organization_id = $1`, orgID)
		if errors.Is(err, sql.ErrNoRows) {
			return errOrganizationDeleted
		}
		if err != nil {
			return fmt.Errorf("read the revision of a subscription: %w", err)
		}
		apply, err := fetch()
		if err != nil {
			return err
		}
		done, err := s.applyAt(ctx, orgID, revision, event, apply)
		if err != nil || done {
			return err
		}
	}
	return fault.New(fault.Unavailable, "The subscription was changed concurrently. Try again.")
}

// applyAt applies a state that was read when the subscription had this revision. It
// returns false if the revision has changed.
func (s *Service) applyAt(ctx context.Context, orgID uuid.UUID, revision int64, event Event, apply applyFunc) (bool, error) {
	done := false
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		done = false
		sub, err := lockSubscription(ctx, tx, orgID)
		if err != nil {
			return err
		}
		if done = sub.revision == revision; !done {
			return nil
		}
		fresh, err := s.recordEvent(ctx, tx, event)
		if err != nil || !fresh {
			return err
		}
		if err := apply(tx, sub); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE subscriptions SET revision = $2 WHERE organization_id = $1`, orgID, revision+1)
		return err
	})
	return done, err
}

// recordEvent records an event as received; it returns false if it was already
// recorded. Events that did not come from the provider are not recorded.
func (s *Service) recordEvent(ctx context.Context, tx *sqlx.Tx, event Event) (bool, error) {
	if event.ID == "" {
		return true, nil
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO payment_events (id, kind, received_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`,
		event.ID, event.Kind, s.Clock.Now())
	if err != nil {
		return false, fmt.Errorf("record an event: %w", err)
	}
	inserted, err := result.RowsAffected()
	return inserted == 1, err
}

// findOrganization returns the organization of a subscription at the provider, or
// uuid.Nil.
func (s *Service) findOrganization(ctx context.Context, remoteID string) (uuid.UUID, error) {
	var orgID uuid.UUID
	err := s.System.GetContext(ctx, &orgID, `SELECT organization_id FROM subscriptions WHERE provider_subscription_id = $1`, remoteID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return uuid.Nil, fmt.Errorf("find the organization of a subscription: %w", err)
	}
	return orgID, nil
}
