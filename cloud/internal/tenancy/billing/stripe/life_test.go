package stripe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	endSub    = "DELETE /v1/subscriptions/sub_1"
	closePage = "POST /v1/checkout/sessions/cs_1/expire"
)

func TestSuspension_KeepsPurchase(t *testing.T) {
	for _, state := range []string{"unpaid", "paused"} {
		t.Run(state, func(t *testing.T) {
			h := newFixture(t)
			items := []map[string]any{item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 2)}
			h.subscribe(items...)
			bought := h.sub()
			h.exec(`UPDATE plans SET profile_limit = 5, add_ons = '[]' WHERE slug = 'team'`)
			h.setSubscription(subscriptionID, state, items...)
			h.must(h.event("customer.subscription.updated", subscriptionID))
			h.exec(`UPDATE plans SET profile_limit = 4 WHERE slug = 'free'`)
			h.must(h.event("customer.subscription.updated", subscriptionID))
			h.must(h.event("checkout.session.completed", subscriptionID))
			s := h.sub()
			if *s.Effective().Profiles != 3 || *s.Effective().Members != 1 || *s.Effective().APIRpm != 60 || *s.Effective().APIRph != 1000 || h.slots() != 3 {
				t.Errorf("suspended %+v, %d slots", s.Effective(), h.slots())
			}
			limits, err := plan.New(h.db).Limits(t.Context(), h.db, h.org)
			if err != nil || *limits.Profiles != 3 || *limits.Members != 1 || *limits.APIRpm != 60 || *limits.APIRph != 1000 {
				t.Errorf("enforced %+v, %v", limits, err)
			}
			diff(t, "add-ons", bought.AddOns, s.AddOns)
			diff(t, "plan", bought.Plan.Limits, s.Plan.Limits)
			h.setSubscription(subscriptionID, "active", items...)
			h.must(h.event("invoice.paid", "in_1"))
			h.must(h.event("customer.subscription.updated", subscriptionID))
			s = h.sub()
			diff(t, "add-ons", bought.AddOns, s.AddOns)
			diff(t, "limits", bought.Effective(), s.Effective())
			if s.Status != billing.Active || s.Fallback != nil || h.slots() != 70 {
				t.Errorf("paid again %+v", s)
			}
		})
	}
}

func TestSuspension_EndsByPaymentOrCancellation(t *testing.T) {
	h := newFixture(t)
	items := []map[string]any{item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 2)}
	h.subscribe(items...)
	h.setSubscription(subscriptionID, "unpaid", items...)
	h.must(h.event("customer.subscription.updated", subscriptionID))
	_, _, err := h.Checkout(t.Context(), h.org, "team", back)
	wantFault(t, "a second subscription", err, fault.Conflict)
	_, err = h.ChangePlan(t.Context(), h.org, "scale")
	wantFault(t, "another plan", err, fault.Conflict)
	_, err = h.AddAddOn(t.Context(), h.org, "members", 1)
	wantFault(t, "an add-on", err, fault.Conflict)
	_, err = h.RemoveAddOn(t.Context(), h.org, h.sub().AddOns[0].ID)
	wantFault(t, "a credit for what was not paid", err, fault.Conflict)
	wantFault(t, "an end of the organization", h.end(), fault.Conflict)
	if sent := h.stripe.Requests(changeSub); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
	if _, err := h.Portal(t.Context(), h.org, back); err != nil {
		t.Error(err)
	}
	if _, err := h.ChangePlan(t.Context(), h.org, "free"); err != nil {
		t.Error(err)
	}
	h.wantForm(endSub, map[string]string{"prorate": "false", "invoice_now": "false"}) // unpaid time is not credited
	h.setSubscription(subscriptionID, "canceled", items...)
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	if s := h.sub(); s.Status != billing.Canceled || s.Fallback != nil || s.RemoteID != "" || len(s.AddOns) > 0 {
		t.Errorf("ended %+v", s)
	}
	h.must(h.end())
	h.completeCheckout("cs_1")
}

func TestCheckout_FailedDelayedPaymentAllowsNext(t *testing.T) {
	h := newFixture(t)
	h.completeCheckout("cs_1")
	h.setCheckout("cs_1", "complete", subscriptionID)
	h.setSubscription(subscriptionID, "incomplete", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("checkout.session.completed", subscriptionID))
	_, _, err := h.Checkout(t.Context(), h.org, "team", back)
	wantFault(t, "while the payment is under way", err, fault.Conflict)
	_, err = h.ChangePlan(t.Context(), h.org, "free")
	wantFault(t, "an end while the payment is under way", err, fault.Conflict)
	wantFault(t, "an end of the organization", h.end(), fault.Conflict)
	for _, over := range []string{"incomplete_expired", "canceled"} {
		h.setSubscription(subscriptionID, over, item("si_1", "svc:team", 9900, 1))
		h.must(h.event("checkout.session.async_payment_failed", subscriptionID))
		h.completeCheckout("cs_2")
		h.setCheckout("cs_2", "complete", subscriptionID)
	}
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("checkout.session.async_payment_succeeded", subscriptionID))
	if s := h.sub(); !s.Paid() || s.CheckoutID != "" {
		t.Errorf("subscription %+v", s)
	}
}

func TestDeleteOrganization_RefusedWhileSubscribed(t *testing.T) {
	h := newFixture(t)
	h.must(h.end())
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	wantFault(t, "while it pays", h.end(), fault.Conflict)
	h.setSubscription(subscriptionID, "past_due", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	wantFault(t, "while a payment is tried again", h.end(), fault.Conflict)
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	h.must(h.end())
}

func TestDeleteOrganization_RefusedWithOpenCheckout(t *testing.T) {
	h := newFixture(t)
	h.completeCheckout("cs_1")
	wantFault(t, "with a page", h.end(), fault.Conflict)
	s, err := h.ChangePlan(t.Context(), h.org, "free")
	if err != nil || s.Plan.Slug != "free" || s.Status != billing.Active || len(h.stripe.Requests(closePage)) != 1 {
		t.Errorf("closed %d times: %+v, %v", len(h.stripe.Requests(closePage)), s, err)
	}
	h.must(h.end())
	_, err = h.ChangePlan(t.Context(), h.org, "free")
	wantFault(t, "the same plan", err, fault.Conflict)
	h.exec(`UPDATE subscriptions SET changing_until = clock_timestamp() + interval '1 minute'`)
	wantFault(t, "while a page may be opened", h.end(), fault.Conflict)
}

func TestReceive_ExpiredCheckoutIsCleared(t *testing.T) {
	h := newFixture(t)
	h.completeCheckout("cs_1")
	h.completeCheckout("cs_2")
	h.must(h.event("checkout.session.expired", "cs_1"))
	if s := h.sub(); s.CheckoutID != "cs_2" {
		t.Errorf("previous checkout session: %+v", s)
	}
	h.exec(`UPDATE subscriptions SET changing_until = clock_timestamp() + interval '1 minute'`)
	h.must(h.event("checkout.session.expired", "cs_2"))
	if s := h.sub(); s.CheckoutID != "cs_2" {
		t.Errorf("during a change: %+v", s)
	}
	h.exec(`UPDATE subscriptions SET changing_until = NULL`)
	h.must(h.event("checkout.session.expired", "cs_2"))
	if s := h.sub(); s.CheckoutID != "" {
		t.Errorf("subscription %+v", s)
	}
	h.must(h.end())
}

func TestReceive_CancelsSubscriptionOfDeletedOrganization(t *testing.T) {
	h := newFixture(t)
	h.deleteOrganization() // leaves no audit event: its retention may be shorter than an outage of Stripe
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.stripe.Fail(endSub, 500, 500, 500)
	wantFault(t, "without Stripe", h.event("customer.subscription.created", subscriptionID), fault.Unavailable)
	h.must(h.event("customer.subscription.created", subscriptionID))
	h.wantForm(endSub, map[string]string{"prorate": "true", "invoice_now": "true"})
	if !strings.Contains(h.log.String(), "refund what was paid") {
		t.Errorf("log %s", h.log.String())
	}
	ended := len(h.stripe.Requests(endSub))
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	h.setInvoice("in_1", "paid", map[string]any{"organization_id": h.org.String()}, line("Team", 9900))
	h.must(h.event("invoice.paid", "in_1"))
	if again := len(h.stripe.Requests(endSub)); again != ended {
		t.Errorf("ended %d times more", again-ended)
	}
}

func TestReceive_KeepsSubscriptionOfUnknownOrganization(t *testing.T) {
	h := newFixture(t)
	h.exec(`DELETE FROM organizations WHERE id = $1`, h.org) // without a record of the deletion
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.created", subscriptionID))
	if n := len(h.stripe.Requests(endSub)); n != 0 || !strings.Contains(h.log.String(), "unknown organization") {
		t.Errorf("canceled %d times; log %s", n, h.log.String())
	}
}

const searchSubs = "GET /v1/subscriptions/search"

// setSearch sets the subscriptions that a search at Stripe finds.
func (h *fixture) setSearch(found ...map[string]any) {
	h.stripe.Answer(searchSubs, map[string]any{"data": found, "has_more": false, "next_page": nil})
}

// sweep advances the clock and runs Sweep.
func (h *fixture) sweep(after time.Duration) error {
	h.clock.Advance(after)
	_, err := h.Sweep(h.t.Context())
	return err
}

func (h *fixture) deletions() (n int) {
	h.t.Helper()
	h.must(h.db.Get(&n, `SELECT count(*) FROM deleted_organizations`))
	return n
}

func TestSweep_CancelsSubscriptionOfDeletedOrganization(t *testing.T) {
	h := newFixture(t)
	h.deleteOrganization()
	other := h.setSubscription("sub_2", "active", item("si_2", "svc:team", 9900, 1))
	other["metadata"] = map[string]any{"organization_id": uuid.NewString()}
	h.setSearch(h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1)), other)
	h.must(h.sweep(23 * time.Hour))
	if n := len(h.stripe.Requests(searchSubs)); n != 0 {
		t.Errorf("searched %d times before the check was due", n)
	}
	h.stripe.Fail(endSub, 500, 500, 500)
	if h.sweep(time.Hour) == nil {
		t.Error("a failed cancellation was not reported")
	}
	h.must(h.sweep(time.Hour))
	h.wantForm(searchSubs, map[string]string{"query": "metadata['organization_id']:'" + h.org.String() + "'", "limit": "100"})
	h.wantForm(endSub, map[string]string{"prorate": "true", "invoice_now": "true"})
	if n := len(h.stripe.Requests("DELETE /v1/subscriptions/sub_2")); n != 0 {
		t.Errorf("canceled the subscription of another organization %d times", n)
	}
}

func TestSweep_ForgetsDeletedOrganizationWhenNothingIsLeft(t *testing.T) {
	h := newFixture(t)
	h.deleteOrganization()
	h.setSearch()
	h.must(h.sweep(29 * 24 * time.Hour))
	if n := h.deletions(); n != 1 {
		t.Fatalf("%d deletions recorded while a payment may still succeed, want 1", n)
	}
	h.setSearch(h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1)))
	h.must(h.sweep(24 * time.Hour))
	h.stripe.Fail(searchSubs, 500, 500, 500)
	h.setSearch(h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1)))
	if h.sweep(24*time.Hour) == nil {
		t.Error("a failed search was not reported")
	}
	if n := h.deletions(); n != 1 {
		t.Fatalf("%d deletions recorded before the end was confirmed, want 1", n)
	}
	h.must(h.sweep(time.Hour))
	if n := h.deletions(); n != 0 {
		t.Errorf("%d deletions recorded after the end was confirmed, want 0", n)
	}
}

func TestSweep_ContinuesAfterUnreadableSubscription(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) SELECT gen_random_uuid(), 'S', 's' || n, now() FROM generate_series(1, 500) n`)
	h.exec(`INSERT INTO subscriptions (organization_id, plan_id, provider, provider_subscription_id, period_anchor, current_period_start, current_period_end, created_at, updated_at)
		SELECT o.id, p.id, 'stripe', 'sub_' || o.slug, $1, $1, $1, $1, $1 FROM organizations o, plans p WHERE o.name = 'S' AND p.slug = 'team'`, began)
	h.clock.Advance(ends.AddDate(0, 1, 0).Sub(began))
	if n, err := h.Sweep(t.Context()); n != 1 || err == nil {
		t.Errorf("swept %d, want 1", n)
	}
	if s := h.sub(); s.Paid() {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_TouchesOneOrganization(t *testing.T) {
	h := newFixture(t)
	h.organization()
	h.Audit = singleOrgRecorder{h.Audit}
	h.subscribe(item("si_1", "svc:team", 9900, 1))
}

func TestReceive_RecordsInvoiceChanges(t *testing.T) {
	h := newFixture(t)
	mine := map[string]any{"organization_id": h.org.String()}
	for _, status := range []string{"draft", "open", "open", "paid"} {
		fields := h.setInvoice("in_1", status, mine, line("Team", 9900))
		if status == "draft" {
			fields["number"] = nil
		}
		h.must(h.event("invoice.updated", "in_1"))
	}
	diff(t, "audit", slices.Repeat([]string{"invoice.changed"}, 2), h.actions())
	var details string
	h.must(h.db.Get(&details, `SELECT details->>'status' || ' ' || (details->>'event') FROM audit ORDER BY id DESC LIMIT 1`))
	if details != "paid evt_4" {
		t.Errorf("details %s", details)
	}
}
