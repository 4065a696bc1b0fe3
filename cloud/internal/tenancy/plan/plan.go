// Package plan holds the available plans, and the limits that each organization's
// subscription copied from its plan (specification 2.7, 8).
package plan

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Free is the slug of the initial plan of every organization.
const Free = "free"

// Plan is a plan that organizations can subscribe to.
type Plan struct {
	ID         uuid.UUID `db:"id"`
	Slug       string    `db:"slug"`
	Name       string    `db:"name"`
	PriceCents int       `db:"price_cents"` // per interval, in hundredths of the currency
	Currency   string    `db:"currency"`    // ISO 4217, lowercase
	Interval   string    `db:"interval"`    // month or year
	AddOns     AddOns    `db:"add_ons"`
	Limits
}

// Limits are the limits of a plan or a subscription; nil is unlimited. The two API
// limits are displayed, not enforced (specification 8).
type Limits struct {
	Profiles *int `db:"profile_limit"`
	Members  *int `db:"member_limit"`
	APIRpm   *int `db:"api_rpm_limit"` // requests per minute
	APIRph   *int `db:"api_rph_limit"` // requests per hour
}

// AddOn raises one limit of a plan.
type AddOn struct {
	Slug       string `json:"slug"`
	Name       string `json:"name"`
	Limit      string `json:"limit"` // profileLimit, memberLimit, apiRpmLimit or apiRphLimit
	Amount     int    `json:"amount"`
	PriceCents int    `json:"priceCents"`
}

// AddOns are stored as a JSON array.
type AddOns []AddOn

// Scan implements sql.Scanner.
func (a *AddOns) Scan(value any) error {
	text, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("can't scan add-ons from %T", value)
	}
	return json.Unmarshal(text, a)
}

// Value implements driver.Valuer. It returns text, which the driver sends unchanged.
func (a AddOns) Value() (driver.Value, error) {
	text, err := json.Marshal(a)
	return string(text), err
}

// Service reads plans and subscriptions.
type Service struct {
	db *sqlx.DB
}

// New returns a Service.
func New(db *sqlx.DB) *Service { return &Service{db: db} }

// sortColumns maps sortBy of the API to columns.
var sortColumns = map[string]string{"position": "position", "priceCents": "price_cents", "name": "name"}

// List returns a page of plans.
func (s *Service) List(ctx context.Context, req page.Request) (page.Page[Plan], error) {
	result := page.Page[Plan]{Request: req, Items: []Plan{}}
	if err := s.db.GetContext(ctx, &result.Total, `SELECT count(*) FROM plans`); err != nil {
		return result, fmt.Errorf("count the plans: %w", err)
	}
	err := s.db.SelectContext(ctx, &result.Items, fmt.Sprintf(`
		SELECT id, slug, name, price_cents, currency, interval, add_ons,
		       profile_limit, member_limit, api_rpm_limit, api_rph_limit
		FROM plans%s LIMIT %d OFFSET %d`, req.OrderBy(sortColumns), req.Limit, req.Offset()))
	if err != nil {
		return result, fmt.Errorf("list the plans: %w", err)
	}
	return result, nil
}

// Subscribe subscribes an organization without a subscription to a plan. It copies the
// limits and the price, so later changes of the plan do not affect the subscription
// (specification 8). It does not bill. An unknown plan is NotFound.
func (s *Service) Subscribe(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, planSlug string, now time.Time) error {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO subscriptions (organization_id, plan_id, price_cents, currency, interval,
		                           base_profile_limit, base_member_limit, base_api_rpm_limit, base_api_rph_limit,
		                           created_at, updated_at)
		SELECT $1, id, price_cents, currency, interval, profile_limit, member_limit, api_rpm_limit, api_rph_limit, $3, $3
		FROM plans WHERE slug = $2`, orgID, planSlug, now)
	if err != nil {
		return fmt.Errorf("insert a subscription: %w", err)
	}
	if inserted, err := result.RowsAffected(); err != nil || inserted == 1 {
		return err
	}
	return fault.Missing("plan")
}

// LockProfileLimit returns the organization's effective profile limit, nil if it is
// unlimited. Until the transaction ends, no other transaction can change the limit or
// lock it, so the caller can count in the next statement and then insert. An
// organization that was removed meanwhile is NotFound.
func (s *Service) LockProfileLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (*int, error) {
	return lockLimit(ctx, tx, orgID, "profile")
}

// LockMemberLimit is LockProfileLimit for the member limit.
func (s *Service) LockMemberLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (*int, error) {
	return lockLimit(ctx, tx, orgID, "member")
}

func lockLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, name string) (*int, error) {
	var limit *int
	err := tx.GetContext(ctx, &limit,
		`SELECT effective_`+name+`_limit FROM subscriptions WHERE organization_id = $1 FOR UPDATE`, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.Missing("organization")
	}
	if err != nil {
		return nil, fmt.Errorf("lock the %s limit of organization %s: %w", name, orgID, err)
	}
	return limit, nil
}

// Limits returns the effective limits of the organization, NotFound without a
// subscription.
func (s *Service) Limits(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (Limits, error) {
	var l Limits
	err := sqlx.GetContext(ctx, q, &l, `
		SELECT effective_profile_limit AS profile_limit, effective_member_limit AS member_limit,
		       effective_api_rpm_limit AS api_rpm_limit, effective_api_rph_limit AS api_rph_limit
		FROM subscriptions WHERE organization_id = $1`, orgID)
	if errors.Is(err, sql.ErrNoRows) {
		return Limits{}, fault.Missing("subscription")
	}
	if err != nil {
		return Limits{}, fmt.Errorf("read the limits of organization %s: %w", orgID, err)
	}
	return l, nil
}

// CountFree returns how many of the organizations have a free subscription.
func (s *Service) CountFree(ctx context.Context, q sqlx.QueryerContext, orgIDs []uuid.UUID) (int, error) {
	var n int
	err := sqlx.GetContext(ctx, q, &n,
		`SELECT count(*) FROM subscriptions WHERE price_cents = 0 AND organization_id = ANY ($1)`, pq.Array(orgIDs))
	if err != nil {
		return 0, fmt.Errorf("count the free organizations: %w", err)
	}
	return n, nil
}
