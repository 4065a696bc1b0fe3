package billing

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Offers are stored as one JSON array.
type Offers []Offer

// Scan implements sql.Scanner.
func (o *Offers) Scan(value any) error {
	text, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("offers can't be read from a %T", value)
	}
	return json.Unmarshal(text, o)
}

// planRow is a plan of the catalog or of a subscription.
type planRow struct {
	ID         uuid.UUID `db:"plan_id"`
	Slug       string    `db:"slug"`
	Name       string    `db:"name"`
	PriceCents int       `db:"price_cents"`
	Currency   string    `db:"currency"`
	Interval   string    `db:"interval"`
	Profiles   *int      `db:"profile_limit"`
	Members    *int      `db:"member_limit"`
	APIRpm     *int      `db:"api_rpm_limit"`
	APIRph     *int      `db:"api_rph_limit"`
	Offers     Offers    `db:"add_ons"`
}

func (r planRow) plan() Plan {
	return Plan{
		ID: r.ID, Slug: r.Slug, Name: r.Name, PriceCents: r.PriceCents, Currency: r.Currency, Interval: r.Interval,
		Limits: Limits{Profiles: r.Profiles, Members: r.Members, APIRpm: r.APIRpm, APIRph: r.APIRph}, Offers: r.Offers,
	}
}

// findPlan returns a plan on its current terms, or NotFound.
func findPlan(ctx context.Context, tx *sqlx.Tx, slug string) (Plan, error) {
	var r planRow
	err := tx.GetContext(ctx, &r, `
		SELECT id AS plan_id, slug, name, price_cents, currency, interval, add_ons,
		       profile_limit, member_limit, api_rpm_limit, api_rph_limit
		FROM plans WHERE slug = $1`, slug)
	if errors.Is(err, sql.ErrNoRows) {
		return Plan{}, fault.Missing("plan")
	}
	if err != nil {
		return Plan{}, fmt.Errorf("find a plan: %w", err)
	}
	return r.plan(), nil
}

// fallbackRow contains the limits that apply during a suspension.
type fallbackRow struct {
	Profiles *int `db:"suspended_profile_limit"`
	Members  *int `db:"suspended_member_limit"`
	APIRpm   *int `db:"suspended_api_rpm_limit"`
	APIRph   *int `db:"suspended_api_rph_limit"`
}

type subscriptionRow struct {
	planRow
	fallbackRow
	Status      Status         `db:"status"`
	Anchor      *time.Time     `db:"period_anchor"`
	Start       *time.Time     `db:"current_period_start"`
	End         *time.Time     `db:"current_period_end"`
	Cancel      bool           `db:"cancel_at_period_end"`
	CreditCents int64          `db:"credit_cents"`
	Provider    sql.NullString `db:"provider"`
	CustomerID  sql.NullString `db:"provider_customer_id"`
	RemoteID    sql.NullString `db:"provider_subscription_id"`
	Held        bool           `db:"held"`
	CheckoutID  sql.NullString `db:"provider_checkout_id"`
	Revision    int64          `db:"revision"`
	CreatedAt   time.Time      `db:"created_at"`
	UpdatedAt   time.Time      `db:"updated_at"`
}

// lockSubscription returns the organization's subscription and locks its row
// until the transaction ends. It locks before it reads, because a single
// statement would not see the plan that was committed while it waited.
func lockSubscription(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (Subscription, error) {
	_, err := tx.ExecContext(ctx, `SELECT FROM subscriptions WHERE organization_id = $1 FOR UPDATE`, orgID)
	if err != nil {
		return Subscription{}, fmt.Errorf("lock the subscription of organization %s: %w", orgID, err)
	}
	return readSubscription(ctx, tx, orgID)
}

// readSubscription returns the organization's subscription, or NotFound.
func readSubscription(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (Subscription, error) {
	var r subscriptionRow
	err := tx.GetContext(ctx, &r, `
		SELECT s.plan_id, p.slug, p.name, p.add_ons, s.price_cents, s.currency, s.interval,
		       s.base_profile_limit AS profile_limit, s.base_member_limit AS member_limit,
		       s.base_api_rpm_limit AS api_rpm_limit, s.base_api_rph_limit AS api_rph_limit,
		       s.suspended_profile_limit, s.suspended_member_limit, s.suspended_api_rpm_limit, s.suspended_api_rph_limit,
		       s.status, s.period_anchor, s.current_period_start, s.current_period_end, s.cancel_at_period_end,
		       s.credit_cents, s.provider, s.provider_customer_id, s.provider_subscription_id,
		       s.provider_checkout_id, s.operator_suspended_at IS NOT NULL AS held, s.revision, s.created_at, s.updated_at
		FROM subscriptions s JOIN plans p ON p.id = s.plan_id
		WHERE s.organization_id = $1`, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return Subscription{}, fault.Missing("subscription")
	}
	if err != nil {
		return Subscription{}, fmt.Errorf("read the subscription of organization %s: %w", orgID, err)
	}
	s := Subscription{
		OrgID: orgID, Plan: r.plan(), Status: r.Status, OperatorSuspended: r.Held, CancelAtPeriodEnd: r.Cancel, CreditCents: r.CreditCents,
		Provider: r.Provider.String, CustomerID: r.CustomerID.String, RemoteID: r.RemoteID.String, CheckoutID: r.CheckoutID.String,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, revision: r.Revision,
	}
	if r.Anchor != nil {
		s.Period = &Period{Anchor: r.Anchor.UTC(), Start: r.Start.UTC(), End: r.End.UTC()}
	}
	if s.Status == Suspended {
		s.Fallback = new(Limits(r.fallbackRow))
	}
	s.AddOns, err = readAddOns(ctx, tx, orgID)
	return s, err
}

func readAddOns(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) ([]AddOn, error) {
	var rows []struct {
		ID         uuid.UUID `db:"id"`
		Slug       string    `db:"slug"`
		Name       string    `db:"name"`
		Limit      string    `db:"limit_name"`
		Amount     int       `db:"amount"`
		Quantity   int       `db:"quantity"`
		PriceCents int       `db:"price_cents"`
		CreatedAt  time.Time `db:"created_at"`
	}
	err := tx.SelectContext(ctx, &rows, `
		SELECT id, slug, name, limit_name, amount, quantity, price_cents, created_at
		FROM subscription_add_ons WHERE organization_id = $1 ORDER BY created_at, id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("read the add-ons of organization %s: %w", orgID, err)
	}
	var list []AddOn
	for _, r := range rows {
		offer := Offer{Slug: r.Slug, Name: r.Name, Limit: r.Limit, Amount: r.Amount, PriceCents: r.PriceCents}
		list = append(list, AddOn{ID: r.ID, Offer: offer, Quantity: r.Quantity, CreatedAt: r.CreatedAt})
	}
	return list, nil
}

// saveSubscription saves the subscription. Returns Conflict if it has changed
// since it was read.
func saveSubscription(ctx context.Context, tx *sqlx.Tx, s Subscription) error {
	var anchor, start, end *time.Time
	if p := s.Period; p != nil {
		anchor, start, end = &p.Anchor, &p.Start, &p.End
	}
	var fallback Limits
	if s.Fallback != nil {
		fallback = *s.Fallback
	}
	base, more := s.Plan.Limits, s.Additional()
	result, err := tx.ExecContext(ctx, `
		UPDATE subscriptions SET
			plan_id = $2, price_cents = $3, currency = $4, interval = $5, status = $6,
			base_profile_limit = $7, base_member_limit = $8, base_api_rpm_limit = $9, base_api_rph_limit = $10,
			additional_profile_limit = $11, additional_member_limit = $12,
			additional_api_rpm_limit = $13, additional_api_rph_limit = $14,
			period_anchor = $15, current_period_start = $16, current_period_end = $17,
			cancel_at_period_end = $18, credit_cents = $19, provider = nullif($20, ''),
			provider_customer_id = nullif($21, ''), provider_subscription_id = nullif($22, ''),
			updated_at = $23, provider_checkout_id = nullif($25, ''),
			suspended_profile_limit = $26, suspended_member_limit = $27,
			suspended_api_rpm_limit = $28, suspended_api_rph_limit = $29, revision = revision + 1
		WHERE organization_id = $1 AND revision = $24`,
		s.OrgID, s.Plan.ID, s.Plan.PriceCents, s.Plan.Currency, s.Plan.Interval, s.Status,
		base.Profiles, base.Members, base.APIRpm, base.APIRph,
		more.Profiles, more.Members, more.APIRpm, more.APIRph,
		anchor, start, end, s.CancelAtPeriodEnd, s.CreditCents, s.Provider, s.CustomerID, s.RemoteID, s.UpdatedAt, s.revision, s.CheckoutID,
		fallback.Profiles, fallback.Members, fallback.APIRpm, fallback.APIRph)
	if err != nil {
		return fmt.Errorf("write the subscription of organization %s: %w", s.OrgID, err)
	}
	if written, err := result.RowsAffected(); err != nil || written == 0 {
		return errors.Join(err, fault.New(fault.Conflict, "The subscription was changed concurrently. Try again."))
	}
	return saveAddOns(ctx, tx, s)
}

func saveAddOns(ctx context.Context, tx *sqlx.Tx, s Subscription) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM subscription_add_ons WHERE organization_id = $1`, s.OrgID); err != nil {
		return fmt.Errorf("write the add-ons of organization %s: %w", s.OrgID, err)
	}
	for _, a := range s.AddOns {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO subscription_add_ons (id, organization_id, slug, name, limit_name, amount, quantity, price_cents, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			a.ID, s.OrgID, a.Slug, a.Name, a.Limit, a.Amount, a.Quantity, a.PriceCents, a.CreatedAt)
		if err != nil {
			return fmt.Errorf("write the add-ons of organization %s: %w", s.OrgID, err)
		}
	}
	return nil
}

// acquireChangeLock blocks other changes until releaseChangeLock or until the
// lock expires. Returns Conflict if another change holds the lock.
func acquireChangeLock(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (time.Time, error) {
	var until time.Time
	err := tx.GetContext(ctx, &until, `
		UPDATE subscriptions SET changing_until = clock_timestamp() + make_interval(secs => $2)
		WHERE organization_id = $1 AND (changing_until IS NULL OR changing_until <= clock_timestamp())
		RETURNING changing_until`, orgID, changeLockTTL.Seconds())
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, errChangeInProgress()
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("acquire the change lock of organization %s: %w", orgID, err)
	}
	return until, nil
}

// errChangeInProgress is the Conflict of a change while another one is in
// progress.
func errChangeInProgress() error {
	return fault.New(fault.Conflict, "Another change of the subscription is in progress. Try again later.")
}

// changeInProgress reports whether a change is in progress.
func changeInProgress(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (bool, error) {
	var is bool
	err := tx.GetContext(ctx, &is, `
		SELECT coalesce(changing_until > clock_timestamp(), false) FROM subscriptions WHERE organization_id = $1`, orgID)
	if err != nil {
		return false, fmt.Errorf("read the change lock of organization %s: %w", orgID, err)
	}
	return is, nil
}

// errChangeLockLost means that the lock expired during the change, so another
// change could begin.
var errChangeLockLost = errors.New("the change took longer than its lock on the subscription")

func releaseChangeLock(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, until time.Time) error {
	result, err := tx.ExecContext(ctx, `
		UPDATE subscriptions SET changing_until = NULL WHERE organization_id = $1 AND changing_until = $2`, orgID, until)
	if err != nil {
		return fmt.Errorf("release the change lock of organization %s: %w", orgID, err)
	}
	if ended, err := result.RowsAffected(); err != nil || ended == 1 {
		return err
	}
	return errChangeLockLost
}

// offersOf returns the offers of an add-on in all plans.
func offersOf(ctx context.Context, tx *sqlx.Tx, slug string) ([]Offer, error) {
	var all []Offers
	if err := tx.SelectContext(ctx, &all, `SELECT add_ons FROM plans ORDER BY position`); err != nil {
		return nil, fmt.Errorf("list the add-ons: %w", err)
	}
	var found []Offer
	for _, offers := range all {
		if o := (Plan{Offers: offers}).offer(slug); o != nil {
			found = append(found, *o)
		}
	}
	return found, nil
}
