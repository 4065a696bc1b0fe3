package billing_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// start is the initial time of the fixture's clock, in a month of 30 days.
var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fixture is one organization on the free plan, on its own database.
type fixture struct {
	t     *testing.T
	db    *sqlx.DB
	clock *clock.Fake
	*billing.Service
	org uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	db := dbtest.Open(t, dsn, pg.Options{})
	tenants := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})
	system := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	h := &fixture{t: t, db: db, clock: clock.NewFake(start)}
	licenses, err := license.New(t.Context(), system, nil, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { licenses.Close() })
	h.exec(`CREATE TABLE audit (id serial, org uuid, action text, target text, details jsonb)`)
	h.exec(`GRANT ALL ON audit, audit_id_seq TO svc_app`)
	h.Service = &billing.Service{
		SelfService: true,
		DB:          tenants, System: system, Clock: h.clock, Slots: licenses, Audit: audit{}, Provider: billing.Manual{Clock: h.clock},
		Logger: slog.New(slog.DiscardHandler),
	}
	h.org = h.organization(plan.Free)
	t.Cleanup(h.checkLimits)
	return h
}

// organization creates another organization, as in production.
func (h *fixture) organization(slug string) uuid.UUID {
	h.t.Helper()
	id := uuid.Must(uuid.NewV7())
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'O', $2, now())`, id, id.String())
	plans := plan.New(h.db)
	err := pg.InOrg(h.t.Context(), h.db, id, func(tx *sqlx.Tx) error {
		if err := plans.Subscribe(h.t.Context(), tx, id, slug, start); err != nil {
			return err
		}
		limits, err := plans.Limits(h.t.Context(), tx, id)
		if err != nil {
			return err
		}
		return h.Slots.SetLimit(h.t.Context(), tx, id, limits.Profiles)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// audit writes the audit log to a table of the test.
type audit struct{}

func (audit) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO audit (org, action, target, details) VALUES ($1, $2, $3, $4)`, orgID, action, targetID, string(text))
	return err
}

// checkLimits checks the state at the end of every test: the slots equal the effective
// profile limit, the sums of the add-ons equal those of the subscription, no change is
// in progress, and the invoice numbers have no gaps.
func (h *fixture) checkLimits() {
	for query, what := range map[string]string{
		`SELECT count(*) FROM subscriptions s JOIN license_org l ON l.organization_id = s.organization_id
		 WHERE l.max_slots IS DISTINCT FROM s.effective_profile_limit`: "slots that are not the profile limit",
		`SELECT count(*) FROM subscriptions s WHERE additional_profile_limit + additional_member_limit <> (
		 SELECT coalesce(sum(amount * quantity), 0) FROM subscription_add_ons a
		 WHERE a.organization_id = s.organization_id AND limit_name IN ('profileLimit', 'memberLimit'))`: "limits that are not those of the add-ons",
		`SELECT count(*) FROM subscriptions WHERE changing_until IS NOT NULL`: "changes that have not ended",
		`SELECT count(*) FROM subscriptions s WHERE last_invoice <> (
		 SELECT count(*) FROM invoices i WHERE i.organization_id = s.organization_id AND provider = 'manual')`: "gaps between invoices",
	} {
		var n int
		if err := h.db.Get(&n, query); err != nil || n > 0 {
			h.t.Errorf("%d %s, %v", n, what, err)
		}
	}
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(query, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) sub() billing.Subscription {
	h.t.Helper()
	return h.must(h.Subscription(h.t.Context(), h.org))
}

// must fails the test on an error.
func (h *fixture) must(s billing.Subscription, err error) billing.Subscription {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// buy subscribes the organization to a plan.
func (h *fixture) buy(slug string) billing.Subscription {
	h.t.Helper()
	s, url, err := h.Checkout(h.t.Context(), h.org, slug, "https://example.com/")
	if url != "" {
		h.t.Errorf("got the payment page %q, want none", url)
	}
	return h.must(s, err)
}

func (h *fixture) sweep(want int) {
	h.t.Helper()
	if n, err := h.Sweep(h.t.Context()); n != want || err != nil {
		h.t.Errorf("swept %d, %v; want %d", n, err, want)
	}
}

// invoices returns all invoices, the oldest first.
func (h *fixture) invoices() []billing.Invoice {
	h.t.Helper()
	found, err := h.Invoices(h.t.Context(), h.org, page.Request{Page: 1, Limit: 100, SortBy: "createdAt"})
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// amounts returns the lines of an invoice without their periods.
func amounts(i billing.Invoice) map[string]int64 {
	found := map[string]int64{}
	for _, l := range i.Lines {
		found[l.Description] += l.AmountCents
	}
	return found
}

func (h *fixture) actions() []string {
	h.t.Helper()
	var found []string
	if err := h.db.Select(&found, `SELECT action FROM audit WHERE org = $1 AND target = $1::text ORDER BY id`, h.org); err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *fixture) slots() *int {
	h.t.Helper()
	var max *int
	if err := h.db.Get(&max, `SELECT max_slots FROM license_org WHERE organization_id = $1`, h.org); err != nil {
		h.t.Fatal(err)
	}
	return max
}

func limits(profiles, members, rpm, rph int) billing.Limits {
	return billing.Limits{Profiles: &profiles, Members: &members, APIRpm: &rpm, APIRph: &rph}
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func wantFault(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v, want the kind %d", what, err, kind)
	}
}
