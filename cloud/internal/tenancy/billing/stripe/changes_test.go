package stripe_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripe"
	"github.com/browser-svc/svc/shared/fault"
)

const back = "https://example.com/billing"

func TestNew_RequiresSecrets(t *testing.T) {
	for _, c := range []stripe.Config{{}, {SecretKey: "sk_test_1"}, {WebhookSecret: "whsec_1"}} {
		if _, err := stripe.New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// last returns the form of the last request of this kind.
func (h *fixture) last(route string) url.Values {
	h.t.Helper()
	sent := h.stripe.Requests(route)
	if len(sent) == 0 {
		h.t.Fatalf("no %s", route)
	}
	return sent[len(sent)-1].Form
}

func (h *fixture) wantForm(route string, want map[string]string) {
	h.t.Helper()
	got := map[string]string{}
	for name, values := range h.last(route) {
		got[name] = strings.Join(values, " ")
	}
	diff(h.t, route, want, got)
}

func TestCheckout_ChangesNothingUntilEvent(t *testing.T) {
	h := newFixture(t)
	h.stripe.Answer("POST /v1/checkout/sessions", map[string]any{"url": "https://checkout.stripe.com/c/pay/cs_1"})
	s, address, err := h.Checkout(t.Context(), h.org, "team", back)
	if err != nil || address != "https://checkout.stripe.com/c/pay/cs_1" || s.Plan.Slug != "free" || s.Paid() {
		t.Fatalf("checkout %q, %+v, %v", address, s, err)
	}
	h.wantForm("POST /v1/checkout/sessions", map[string]string{
		"mode": "subscription", "client_reference_id": h.org.String(), "success_url": back, "cancel_url": back,
		"line_items[0][price]": "price_svc:team", "line_items[0][quantity]": "1",
		"subscription_data[metadata][organization_id]": h.org.String(),
	})
	if sent := h.stripe.Requests("POST /v1/checkout/sessions"); sent[0].IdempotencyKey == "" {
		t.Error("without an idempotency key")
	}
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("checkout.session.completed", subscriptionID))
	s = h.sub()
	diff(t, "period", &billing.Period{Anchor: began, Start: began, End: ends}, s.Period)
	if s.Plan.Slug != "team" || s.Status != billing.Active || s.CustomerID != "cus_1" || s.RemoteID != subscriptionID || h.slots() != 50 {
		t.Errorf("subscription %+v", s)
	}
	diff(t, "audit", []string{"subscription.checkedOut", "subscription.changed"}, h.actions())
	_, _, err = h.Checkout(t.Context(), h.org, "scale", back)
	wantFault(t, "a second checkout", err, fault.Conflict)
}

func TestCheckout_OneOpenSession(t *testing.T) {
	h := newFixture(t)
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1)) // no event has reported it
	for i, c := range []struct {
		status string // status of the previous checkout session
		closed int
		kind   fault.Kind
	}{{"", 0, 0}, {"open", 1, 0}, {"expired", 0, 0}, {"complete", 0, fault.Conflict}} {
		h.stripe.Answer("POST /v1/checkout/sessions", map[string]any{"id": fmt.Sprint("cs_", i)})
		before := fmt.Sprint("cs_", i-1)
		h.setCheckout(before, c.status, subscriptionID)
		_, _, err := h.Checkout(t.Context(), h.org, "team", back)
		if c.kind != 0 {
			wantFault(t, c.status, err, c.kind)
		} else if err != nil {
			t.Error(err)
		}
		if n := len(h.stripe.Requests("POST /v1/checkout/sessions/" + before + "/expire")); n != c.closed {
			t.Errorf("%s: closed %d times, want %d", c.status, n, c.closed)
		}
	}
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	if _, _, err := h.Checkout(t.Context(), h.org, "team", back); err != nil { // the payment has been applied
		t.Error(err)
	}
}

func TestCheckout_ReusesCustomer(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	if _, _, err := h.Checkout(t.Context(), h.org, "team", back); err != nil {
		t.Fatal(err)
	}
	if got := h.last("POST /v1/checkout/sessions").Get("customer"); got != "cus_1" {
		t.Errorf("customer %q", got)
	}
}

func TestChangePlan_UpdatesItemsInOneRequest(t *testing.T) {
	h := newFixture(t)
	items := []map[string]any{
		item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 2),
		item("si_3", "svc:team:gone", 100, 1), item("si_4", "other", 1, 1),
	}
	h.exec(`UPDATE plans SET add_ons = add_ons || '[{"slug": "gone", "name": "Gone", "limit": "memberLimit", "amount": 1, "priceCents": 100}]' WHERE slug = 'team'`)
	h.subscribe(items...)
	h.setSubscription(subscriptionID, "active", items...)["cancel_at_period_end"] = true
	s, err := h.ChangePlan(t.Context(), h.org, "scale")
	if err != nil || s.Plan.Slug != "team" {
		t.Errorf("before the event: %+v, %v", s.Plan, err)
	}
	h.wantForm(changeSub, map[string]string{
		"items[0][id]": "si_1", "items[0][price]": "price_svc:scale", "items[0][quantity]": "1",
		"items[1][id]": "si_2", "items[1][price]": "price_svc:scale:profiles", "items[1][quantity]": "2",
		"items[2][id]": "si_3", "items[2][deleted]": "true",
		"proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete", "cancel_at_period_end": "false",
	})
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:scale", 39900, 1), item("si_2", "svc:scale:profiles", 1900, 2))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	s = h.sub()
	if s.Plan.Slug != "scale" || *s.Effective().Profiles != 270 || h.slots() != 270 || s.Plan.PriceCents != 39900 {
		t.Errorf("after the event: %+v", s)
	}
}

func TestChangePlan_ToFreeCancelsAtStripe(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	if _, err := h.ChangePlan(t.Context(), h.org, "free"); err != nil {
		t.Fatal(err)
	}
	h.wantForm("DELETE /v1/subscriptions/sub_1", map[string]string{"prorate": "true", "invoice_now": "true"})
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	if s := h.sub(); s.Plan.Slug != "free" || s.Status != billing.Canceled || s.Paid() || s.RemoteID != "" || h.slots() != 3 {
		t.Errorf("subscription %+v", s)
	}
}

func TestAddOns_AreSubscriptionItems(t *testing.T) {
	h := newFixture(t)
	plan := item("si_1", "svc:team", 9900, 1)
	h.subscribe(plan)
	if _, err := h.AddAddOn(t.Context(), h.org, "profiles", 2); err != nil {
		t.Fatal(err)
	}
	h.wantForm(changeSub, map[string]string{
		"items[0][price]": "price_svc:team:profiles", "items[0][quantity]": "2",
		"proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete",
	})
	// The event has not arrived. Another purchase must not lose it.
	h.setSubscription(subscriptionID, "active", plan, item("si_2", "svc:team:profiles", 1900, 2))
	if _, err := h.AddAddOn(t.Context(), h.org, "profiles", 3); err != nil {
		t.Fatal(err)
	}
	if form := h.last(changeSub); form.Get("items[0][id]") != "si_2" || form.Get("items[0][quantity]") != "5" {
		t.Errorf("form %v", form)
	}
	h.setSubscription(subscriptionID, "active", plan, item("si_2", "svc:team:profiles", 1700, 5))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	s := h.sub()
	if len(s.AddOns) != 1 || s.AddOns[0].Quantity != 5 || s.AddOns[0].PriceCents != 1700 || h.slots() != 100 {
		t.Fatalf("subscription %+v", s)
	}
	if _, err := h.RemoveAddOn(t.Context(), h.org, s.AddOns[0].ID); err != nil {
		t.Fatal(err)
	}
	if form := h.last(changeSub); form.Get("items[0][id]") != "si_2" || form.Get("items[0][deleted]") != "true" {
		t.Errorf("form %v", form)
	}
	h.setSubscription(subscriptionID, "active", plan)
	h.must(h.event("customer.subscription.updated", subscriptionID))
	if s := h.sub(); len(s.AddOns) > 0 || h.slots() != 50 {
		t.Errorf("subscription %+v", s)
	}
}

func TestCancelAndResume_SetFlagAtStripe(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	for _, cancel := range []bool{true, false} {
		do := h.Resume
		if cancel {
			do = h.Cancel
		}
		if s, err := do(t.Context(), h.org); err != nil || s.CancelAtPeriodEnd == cancel {
			t.Errorf("before the event: %+v, %v", s, err)
		}
		h.wantForm(changeSub, map[string]string{"cancel_at_period_end": map[bool]string{true: "true", false: "false"}[cancel]})
		h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))["cancel_at_period_end"] = cancel
		h.must(h.event("customer.subscription.updated", subscriptionID))
		if s := h.sub(); s.CancelAtPeriodEnd != cancel {
			t.Errorf("after the event: %+v", s)
		}
	}
}

func TestPortal_RequiresCustomer(t *testing.T) {
	h := newFixture(t)
	_, err := h.Portal(t.Context(), h.org, back)
	wantFault(t, "who never paid", err, fault.Conflict)
	_, err = h.ChangePlan(t.Context(), h.org, "team")
	wantFault(t, "a change before a checkout", err, fault.Conflict)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.stripe.Answer("POST /v1/billing_portal/sessions", map[string]any{"url": "https://billing.stripe.com/p/1"})
	if address, err := h.Portal(t.Context(), h.org, back); err != nil || address != "https://billing.stripe.com/p/1" {
		t.Errorf("portal %q, %v", address, err)
	}
	h.wantForm("POST /v1/billing_portal/sessions", map[string]string{"customer": "cus_1", "return_url": back})
}
