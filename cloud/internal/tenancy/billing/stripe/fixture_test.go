package stripe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripe"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	subscriptionID = "sub_1"
	readSub        = "GET /v1/subscriptions/sub_1"
	changeSub      = "POST /v1/subscriptions/sub_1"
)

var (
	began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ends  = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
)

// fixture is one organization of a service that takes payments through Stripe.
type fixture struct {
	t      *testing.T
	db     *sqlx.DB
	clock  *clock.Fake
	stripe *stripetest.Stripe
	log    *testenv.Log
	*billing.Service
	org uuid.UUID

	events int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	db := dbtest.Open(t, dsn, pg.Options{})
	tenants := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})
	system := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	h := &fixture{t: t, db: db, clock: clock.NewFake(began), stripe: stripetest.New(t), log: &testenv.Log{}}
	licenses, err := license.New(t.Context(), system, nil, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { licenses.Close() })
	provider, err := stripe.New(stripe.Config{
		SecretKey: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, APIBase: h.stripe.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`CREATE TABLE audit (id serial, org uuid, action text, details jsonb)`)
	h.exec(`GRANT ALL ON audit, audit_id_seq TO svc_app`)
	h.Service = &billing.Service{
		SelfService: true,
		DB:          tenants, System: system, Clock: h.clock, Slots: licenses, Audit: audit{}, Provider: provider,
		Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	h.org = h.organization()
	return h
}

func (h *fixture) organization() uuid.UUID {
	h.t.Helper()
	id := uuid.Must(uuid.NewV7())
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'O', $2, now())`, id, id.String())
	err := pg.InTx(h.t.Context(), h.db, func(tx *sqlx.Tx) error {
		return plan.New(h.db).Subscribe(h.t.Context(), tx, id, plan.Free, began)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// audit writes the audit log to a table of the test.
type audit struct{}

func (audit) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, _ string, details map[string]any) error {
	text, err := json.Marshal(details)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO audit (org, action, details) VALUES ($1, $2, $3)`, orgID, action, string(text))
	}
	return err
}

// singleOrgRecorder refuses to record in a transaction that sees two organizations.
type singleOrgRecorder struct{ billing.Recorder }

func (o singleOrgRecorder) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	var visible int
	if err := tx.GetContext(ctx, &visible, `SELECT count(*) FROM subscriptions`); err != nil || visible != 1 {
		return fmt.Errorf("the transaction sees %d subscriptions: %w", visible, err)
	}
	return o.Recorder.Record(ctx, tx, orgID, action, targetID, details)
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(query, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) sub() billing.Subscription {
	h.t.Helper()
	s, err := h.Subscription(h.t.Context(), h.org)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *fixture) slots() int {
	h.t.Helper()
	var n int
	if err := h.db.Get(&n, `SELECT max_slots FROM license_org WHERE organization_id = $1`, h.org); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *fixture) actions() []string {
	h.t.Helper()
	var found []string
	if err := h.db.Select(&found, `SELECT action FROM audit WHERE org = $1 ORDER BY id`, h.org); err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *fixture) invoices() []billing.Invoice {
	h.t.Helper()
	found, err := h.Invoices(h.t.Context(), h.org, page.Request{Page: 1, Limit: 100, SortBy: "createdAt"})
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// item returns an item of a subscription as Stripe stores it.
func item(id, key string, cents, quantity int) map[string]any {
	return map[string]any{
		"id": id, "object": "subscription_item", "price": stripetest.Price(key, cents), "quantity": quantity,
		"current_period_start": began.Unix(), "current_period_end": ends.Unix(),
	}
}

// setSubscription sets the state of a subscription of the organization at Stripe.
func (h *fixture) setSubscription(id, status string, items ...map[string]any) map[string]any {
	fields := map[string]any{
		"id": id, "status": status, "customer": "cus_1", "cancel_at": nil, "cancel_at_period_end": false,
		"metadata": map[string]any{"organization_id": h.org.String()},
		"items":    map[string]any{"data": items},
	}
	h.stripe.Answer("GET /v1/subscriptions/"+id, fields)
	return fields
}

// setCheckout sets the state of a checkout session at Stripe, and its
// subscription.
func (h *fixture) setCheckout(id, status, subscription string) {
	fields := map[string]any{"id": id, "status": status, "subscription": nil}
	if status == "complete" {
		fields["subscription"] = subscription
	}
	h.stripe.Answer("GET /v1/checkout/sessions/"+id, fields)
}

// completeCheckout opens a checkout session.
func (h *fixture) completeCheckout(id string) {
	h.t.Helper()
	h.stripe.Answer("POST /v1/checkout/sessions", map[string]any{"id": id, "url": "https://checkout.stripe.com/c/pay/" + id})
	h.setCheckout(id, "open", "")
	_, _, err := h.Checkout(h.t.Context(), h.org, "team", back)
	h.must(err)
}

// end returns whether the organization may be deleted. It deletes nothing.
func (h *fixture) end() error {
	undo := errors.New("undo")
	err := pg.InOrg(h.t.Context(), h.DB, h.org, func(tx *sqlx.Tx) error {
		if err := h.EndOrganization(h.t.Context(), tx, h.org); err != nil {
			return err
		}
		return undo
	})
	if errors.Is(err, undo) {
		return nil
	}
	return err
}

// deleteOrganization deletes the organization.
func (h *fixture) deleteOrganization() {
	h.t.Helper()
	h.must(pg.InOrg(h.t.Context(), h.DB, h.org, func(tx *sqlx.Tx) error {
		if err := h.EndOrganization(h.t.Context(), tx, h.org); err != nil {
			return err
		}
		_, err := tx.ExecContext(h.t.Context(), `DELETE FROM organizations WHERE id = $1`, h.org)
		return err
	}))
}

// event sends an event with a current signature.
func (h *fixture) event(kind, object string) error {
	h.t.Helper()
	h.events++
	return h.send(fmt.Sprintf("evt_%d", h.events), kind, object, time.Now())
}

func (h *fixture) send(id, kind, object string, createdAt time.Time) error {
	h.t.Helper()
	payload, signature := signed(h.t, id, kind, object, createdAt, stripetest.WebhookSecret)
	return h.Receive(h.t.Context(), payload, signature)
}

func signed(t *testing.T, id, kind, object string, createdAt time.Time, secret string) ([]byte, string) {
	t.Helper()
	about := map[string]any{"id": object}
	if kind == "checkout.session.expired" {
		about["subscription"] = nil
	} else if strings.HasPrefix(kind, "checkout.") {
		about = map[string]any{"id": "cs_1", "subscription": object}
	}
	payload, err := json.Marshal(map[string]any{
		"id": id, "object": "event", "type": kind, "created": createdAt.Unix(), "api_version": "2020-08-27",
		"data": map[string]any{"object": about},
	})
	if err != nil {
		t.Fatal(err)
	}
	return payload, fmt.Sprintf("t=%d,v1=%x", createdAt.Unix(), webhook.ComputeSignature(createdAt, payload, secret))
}

// subscribe buys a plan and add-ons.
func (h *fixture) subscribe(items ...map[string]any) {
	h.t.Helper()
	h.setSubscription(subscriptionID, "active", items...)
	h.must(h.event("customer.subscription.created", subscriptionID))
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
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
