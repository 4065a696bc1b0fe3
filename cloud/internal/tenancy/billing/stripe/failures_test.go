package stripe_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/shared/fault"
)

func TestChange_StripeFailureChangesNothing(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	for _, c := range []struct {
		statuses []int
		kind     fault.Kind
		sent     int
	}{
		{[]int{500, 500, 500}, fault.Unavailable, 3}, {[]int{402}, fault.Conflict, 1}, {[]int{400}, fault.BadGateway, 1},
		{[]int{401}, fault.BadGateway, 1}, {[]int{429, 429, 429}, fault.Unavailable, 1},
	} {
		before := len(h.stripe.Requests(changeSub))
		h.stripe.Fail(changeSub, c.statuses...)
		_, err := h.ChangePlan(t.Context(), h.org, "scale")
		wantFault(t, "a failure", err, c.kind)
		if c.kind == fault.Conflict && fault.From(err).Message != "The payment was declined." {
			t.Errorf("message %q", fault.From(err).Message)
		}
		sent := h.stripe.Requests(changeSub)[before:]
		if len(sent) != c.sent {
			t.Errorf("%v: sent %d times, want %d", c.statuses, len(sent), c.sent)
		}
		for _, r := range sent {
			if r.IdempotencyKey == "" || r.Form.Get("items[0][id]") != "si_1" {
				t.Errorf("sent %v", r)
			}
			diff(t, "sent again", sent[0], r)
		}
		h.stripe.Fail(changeSub)
	}
	h.stripe.Fail(changeSub, 503)
	if _, err := h.ChangePlan(t.Context(), h.org, "scale"); err != nil { // a single failure is retried
		t.Error(err)
	}
	if s := h.sub(); s.Plan.Slug != "team" {
		t.Errorf("subscription %+v", s)
	}
	diff(t, "audit", []string{"subscription.changed", "subscription.planChanged"}, h.actions())
}

func TestChange_StripeCallHonorsDeadline(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	release := make(chan struct{})
	defer close(release)
	h.stripe.Before(changeSub, func() { <-release })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := h.ChangePlan(ctx, h.org, "scale")
	wantFault(t, "no answer", err, fault.Unavailable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if _, err := h.Cancel(t.Context(), h.org); err != nil { // the next change can begin
		t.Error(err)
	}
}

func TestChange_LostAnswerTakesEffectOnce(t *testing.T) {
	h := newFixture(t)
	h.subscribe(item("si_1", "svc:team", 9900, 1))
	h.stripe.Before(changeSub, func() { panic(http.ErrAbortHandler) })
	if _, err := h.AddAddOn(t.Context(), h.org, "profiles", 1); err != nil {
		t.Error(err)
	}
	sent := h.stripe.Requests(changeSub)
	if len(sent) != 2 || sent[0].IdempotencyKey == "" {
		t.Fatalf("sent %v", sent)
	}
	diff(t, "sent again", sent[0], sent[1])
}

func TestCheckout_MissingPriceIsUnavailable(t *testing.T) {
	h := newFixture(t)
	h.stripe.Answer("GET /v1/prices", map[string]any{"data": []any{}})
	_, _, err := h.Checkout(t.Context(), h.org, "team", back)
	wantFault(t, "no price", err, fault.BadGateway)
	if strings.Contains(fault.From(err).Message, "svc:") || !strings.Contains(err.Error(), `"svc:team"`) {
		t.Errorf("error %v", err)
	}
}

func TestErrors_ContainNoSecret(t *testing.T) {
	h := newFixture(t)
	h.stripe.Fail("POST /v1/checkout/sessions", 401)
	_, _, err := h.Checkout(t.Context(), h.org, "team", back)
	if err == nil || strings.Contains(err.Error(), stripetest.SecretKey) || strings.Contains(h.log.String(), stripetest.SecretKey) {
		t.Errorf("error %v, log %s", err, h.log.String())
	}
}
