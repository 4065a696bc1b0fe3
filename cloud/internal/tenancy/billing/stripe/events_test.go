package stripe_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/shared/fault"
)

func TestReceive_RefusesInvalidSignature(t *testing.T) {
	h := newFixture(t)
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	payload, good := signed(t, "evt_1", "customer.subscription.created", subscriptionID, time.Now(), stripetest.WebhookSecret)
	_, foreign := signed(t, "evt_1", "customer.subscription.created", subscriptionID, time.Now(), "whsec_other")
	old, stale := signed(t, "evt_1", "customer.subscription.created", subscriptionID, time.Now().Add(-301*time.Second), stripetest.WebhookSecret)
	for name, c := range map[string]struct {
		payload   []byte
		signature string
	}{
		"none": {payload, ""}, "nonsense": {payload, "nonsense"}, "of another secret": {payload, foreign},
		"of another body": {append(payload, ' '), good}, "too old": {old, stale},
		"a newer time on an old one": {old, strings.Replace(stale, "t=", fmt.Sprintf("t=%d,x=", time.Now().Unix()), 1)},
	} {
		wantFault(t, name, h.Receive(t.Context(), c.payload, c.signature), fault.Unauthenticated)
	}
	if s := h.sub(); s.Paid() || len(h.stripe.Requests(readSub)) > 0 {
		t.Errorf("subscription %+v", s)
	}
	h.must(h.Receive(t.Context(), payload, good))
	if s := h.sub(); !s.Paid() {
		t.Errorf("subscription %+v", s)
	}
	late, signature := signed(t, "evt_2", "customer.subscription.updated", subscriptionID, time.Now().Add(-290*time.Second), stripetest.WebhookSecret)
	h.must(h.Receive(t.Context(), late, signature))
}

func TestReceive_RefusesMalformedEvent(t *testing.T) {
	h := newFixture(t)
	for _, body := range []string{`{`, `[]`, `{}`, `{"object": "event"}`, `{"object": "event", "id": "evt_1"}`, `{"object": "v2.core.event", "id": "evt_1"}`} {
		signature := sign(body)
		wantFault(t, body, h.Receive(t.Context(), []byte(body), signature), fault.Validation)
	}
}

func TestReceive_AppliesEventOnce(t *testing.T) {
	h := newFixture(t)
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.must(h.send("evt_1", "customer.subscription.created", subscriptionID, time.Now()))
	read := len(h.stripe.Requests(readSub))
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:scale", 39900, 1))
	h.must(h.send("evt_1", "customer.subscription.created", subscriptionID, time.Now()))
	if s := h.sub(); s.Plan.Slug != "team" || len(h.stripe.Requests(readSub)) != read {
		t.Errorf("a replayed event was applied: %+v", s)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := h.send("evt_2", "customer.subscription.updated", subscriptionID, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	diff(t, "audit", []string{"subscription.changed", "subscription.changed"}, h.actions())
}

func TestReceive_NoAuditEventWithoutChange(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 1))
	h.clock.Advance(time.Hour)
	h.must(h.event("customer.subscription.updated", subscriptionID))
	diff(t, "audit", []string{"subscription.changed"}, h.actions())
	if s := h.sub(); !s.UpdatedAt.Equal(began) {
		t.Errorf("updated at %v", s.UpdatedAt)
	}
}

func TestReceive_ConcurrentRepetitionAppliesOnce(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	reading, release := make(chan struct{}), make(chan struct{})
	h.stripe.Before(readSub, func() {
		close(reading)
		<-release
	})
	slow := make(chan error)
	go func() { slow <- h.send("evt_x", "customer.subscription.updated", subscriptionID, time.Now()) }()
	<-reading
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:scale", 39900, 1))
	h.must(h.send("evt_x", "customer.subscription.updated", subscriptionID, time.Now()))
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:starter", 2900, 1)) // another event will report it
	close(release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if s := h.sub(); s.Plan.Slug != "scale" {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_FailedEventIsRetried(t *testing.T) {
	h := newFixture(t)
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:team", 9900, 1))
	h.stripe.Fail(readSub, 500, 500, 500)
	wantFault(t, "without Stripe", h.send("evt_1", "customer.subscription.created", subscriptionID, time.Now()), fault.Unavailable)
	h.must(h.send("evt_1", "customer.subscription.created", subscriptionID, time.Now()))
	if s := h.sub(); s.Plan.Slug != "team" {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_OrderDoesNotMatter(t *testing.T) {
	h := newFixture(t)
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1)) // the current state at Stripe
	h.must(h.event("customer.subscription.deleted", subscriptionID))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	h.must(h.event("customer.subscription.created", subscriptionID))
	if s := h.sub(); s.Paid() || s.Plan.Slug != "free" {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_StaleReadDoesNotOverwriteNewer(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription(subscriptionID, "active", item("si_1", "svc:scale", 39900, 1))
	reading, release := make(chan struct{}), make(chan struct{})
	h.stripe.Before(readSub, func() { // after the slow request has read scale
		close(reading)
		<-release
	})
	slow := make(chan error)
	go func() { slow <- h.send("evt_slow", "customer.subscription.updated", subscriptionID, time.Now()) }()
	<-reading
	h.setSubscription(subscriptionID, "past_due", item("si_1", "svc:starter", 2900, 1))
	h.must(h.send("evt_fast", "customer.subscription.updated", subscriptionID, time.Now()))
	close(release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if s := h.sub(); s.Plan.Slug != "starter" || s.Status != billing.PastDue || h.slots() != 10 {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_AcknowledgesUnusedKinds(t *testing.T) {
	h := newFixture(t)
	h.must(h.event("charge.refunded", "ch_1"))
	h.must(h.event("invoice.upcoming", ""))
	h.must(h.event("checkout.session.expired", ""))
	h.must(h.event("a.kind.of.the.future", "x_1"))
	if sent := h.stripe.Requests(readSub); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
}

func TestReceive_IgnoresForeignSubscriptions(t *testing.T) {
	h := newFixture(t)
	h.setSubscription("sub_2", "active", item("si_1", "other", 1, 1))["metadata"] = map[string]any{}
	h.must(h.event("customer.subscription.created", "sub_2"))
	h.setSubscription("sub_3", "active", item("si_1", "svc:team", 9900, 1))["metadata"] = map[string]any{"organization_id": uuid.NewString()}
	h.must(h.event("customer.subscription.created", "sub_3"))
	if s := h.sub(); s.Paid() {
		t.Errorf("subscription %+v", s)
	}
	if !strings.Contains(h.log.String(), "unknown organization") || len(h.stripe.Requests("DELETE /v1/subscriptions/sub_3")) > 0 {
		t.Errorf("log %s", h.log.String())
	}
}

func TestReceive_SecondSubscriptionIsLogged(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription("sub_2", "active", item("si_1", "svc:scale", 39900, 1))
	h.must(h.event("customer.subscription.created", "sub_2"))
	if s := h.sub(); s.RemoteID != subscriptionID || s.Plan.Slug != "team" || !strings.Contains(h.log.String(), "pays for two subscriptions") {
		t.Errorf("subscription %+v, log %s", s, h.log.String())
	}
	h.setSubscription("sub_2", "canceled", item("si_1", "svc:scale", 39900, 1))
	h.must(h.event("customer.subscription.deleted", "sub_2"))
	if s := h.sub(); s.RemoteID != subscriptionID || !s.Paid() {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_MapsStripeStatuses(t *testing.T) {
	for state, want := range map[string]struct {
		status billing.Status
		slots  int
	}{
		"active": {billing.Active, 50}, "trialing": {billing.Active, 50}, "past_due": {billing.PastDue, 50},
		"incomplete": {billing.Active, 50}, // unchanged
		"unpaid":     {billing.Suspended, 3}, "paused": {billing.Suspended, 3},
		"canceled": {billing.Canceled, 3}, "incomplete_expired": {billing.Canceled, 3},
	} {
		t.Run(state, func(t *testing.T) {
			h := newFixture(t)
			h.subscribe(item("si_1", "svc:team", 9900, 1))
			h.setSubscription(subscriptionID, state, item("si_1", "svc:team", 9900, 1))
			h.must(h.event("customer.subscription.updated", subscriptionID))
			if s := h.sub(); s.Status != want.status || h.slots() != want.slots {
				t.Errorf("subscription %+v", s)
			}
			h.subscribe(item("si_1", "svc:team", 9900, 1)) // a payment ends the suspension
			if s := h.sub(); s.Status != billing.Active || h.slots() != 50 {
				t.Errorf("after the payment: %+v", s)
			}
		})
	}
}

func TestReceive_KeepsPurchasedLimits(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 1))
	h.exec(`UPDATE plans SET profile_limit = 1, add_ons = '[]'`)
	next := item("si_1", "svc:team", 9900, 1)
	next["current_period_start"], next["current_period_end"] = ends.Unix(), ends.AddDate(0, 1, 0).Unix()
	h.setSubscription(subscriptionID, "active", next, item("si_2", "svc:team:profiles", 1900, 2))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	s := h.sub()
	if *s.Effective().Profiles != 70 || !s.Period.Start.Equal(ends) || !s.Period.Anchor.Equal(began) {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_MergesAddOnAtTwoPrices(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1), item("si_2", "svc:team:profiles", 1900, 1), item("si_3", "svc:team:profiles", 1500, 2))
	h.must(h.event("customer.subscription.updated", subscriptionID))
	if s := h.sub(); len(s.AddOns) != 1 || s.AddOns[0].Quantity != 3 || h.slots() != 80 {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_FindsPriceByMetadata(t *testing.T) {
	h := newFixture(t)
	old := item("si_1", "", 7900, 1)
	old["price"].(map[string]any)["metadata"] = map[string]any{"svc": "svc:team"}
	h.subscribe(old)
	if s := h.sub(); s.Plan.Slug != "team" || s.Plan.PriceCents != 7900 {
		t.Errorf("subscription %+v", s)
	}
}

func TestReceive_UnknownPriceIsRetried(t *testing.T) {
	h := newFixture(t)
	for _, items := range [][]map[string]any{
		{item("si_1", "other", 1, 1)},
		{item("si_1", "svc:golden", 1, 1)},
		{item("si_1", "svc:team", 1, 1), item("si_2", "svc:team:gold", 1, 1)},
	} {
		h.setSubscription(subscriptionID, "active", items...)
		wantFault(t, "unknown", fault.From(h.event("customer.subscription.created", subscriptionID)), fault.Internal)
		if s := h.sub(); s.Paid() {
			t.Errorf("subscription %+v", s)
		}
	}
	var count int
	if err := h.db.Get(&count, `SELECT count(*) FROM payment_events`); err != nil || count > 0 {
		t.Errorf("got %d recorded events, %v", count, err)
	}
}

func TestSweep_ResyncsOverdueSubscriptions(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.setSubscription(subscriptionID, "canceled", item("si_1", "svc:team", 9900, 1))
	h.clock.Advance(ends.Sub(began) + 59*time.Minute)
	if n, err := h.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("within the hour: swept %d, %v", n, err)
	}
	h.clock.Advance(time.Minute)
	if n, err := h.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if s := h.sub(); s.Paid() || s.Status != billing.Canceled {
		t.Errorf("subscription %+v", s)
	}
}

func TestSweep_DeletesOldEvents(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	for _, want := range []int{1, 0} {
		if _, err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := h.db.Get(&n, `SELECT count(*) FROM payment_events`); err != nil || n != want {
			t.Errorf("%d events, %v; want %d", n, err, want)
		}
		h.clock.Advance(31 * 24 * time.Hour)
	}
}
