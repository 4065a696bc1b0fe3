package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestBilling_RequiresOwnerOrAdmin(t *testing.T) {
	a := newBillingAPI(t)
	for _, o := range []struct {
		method, path string
		body         any
	}{
		{"GET", "subscription", nil}, {"GET", "invoices", nil}, {"GET", "add-ons", nil},
		{"POST", "checkout", map[string]any{"plan": "team"}}, {"POST", "change-plan", map[string]any{"plan": "team"}},
		{"POST", "cancel", nil}, {"POST", "resume", nil}, {"POST", "portal", nil},
		{"POST", "add-ons", map[string]any{"addOn": "profiles"}}, {"DELETE", "add-ons/019a5f3e-b1c0-7a15-9d44-3f5e6a7b8c05", nil},
	} {
		path := "/v1/billing/" + o.path
		a.do(o.method, path, bearer("member"), o.body).want(t, 403, "AUTHORIZATION_ERROR")
		a.do(o.method, path, bearer("nobody"), o.body).want(t, 400, "VALIDATION_ERROR")
		a.do(o.method, path, nil, o.body).want(t, 401, "AUTHENTICATION_ERROR")
		a.do(o.method, path, apiKey("svc_00000000000000000000000000000000"), o.body).want(t, 401, "AUTHENTICATION_ERROR")
		for _, role := range []string{"owner", "admin"} {
			if r := a.do(o.method, path, bearer(role), o.body); r.status == 401 || r.status == 403 || r.status >= 500 {
				t.Errorf("%s %s as %s: %s", o.method, o.path, role, r.body)
			}
		}
	}
}

func TestBilling_SubscriptionLifecycle(t *testing.T) {
	a := newBillingAPI(t)
	free := decode[cloudapi.Subscription](t, a.do("GET", "/v1/billing/subscription", bearer("admin"), nil), 200)
	if free.Plan.Slug != "free" || free.Status != cloudapi.Active || free.CurrentPeriodEnd != nil || *free.EffectiveProfileLimit != 3 || free.AddOns == nil {
		t.Errorf("free %+v", free)
	}
	bought := decode[cloudapi.Checkout](t, a.post("checkout", map[string]any{"plan": "team"}), 200)
	if bought.Url != nil || bought.Subscription.Plan.Slug != "team" || !bought.Subscription.CurrentPeriodEnd.Equal(a.clock.Now().AddDate(0, 1, 0)) {
		t.Errorf("bought %+v", bought)
	}
	more := decode[cloudapi.Subscription](t, a.post("add-ons", map[string]any{"addOn": "profiles", "quantity": 2}), 200)
	if more.BaseProfileLimit == nil || *more.BaseProfileLimit != 50 || more.AdditionalProfileLimit != 20 || *more.EffectiveProfileLimit != 70 ||
		len(more.AddOns) != 1 || more.AddOns[0].Quantity != 2 {
		t.Errorf("with add-ons %+v", more)
	}
	offers := decode[cloudapi.AddOnList](t, a.do("GET", "/v1/billing/add-ons", bearer("owner"), nil), 200)
	if len(offers.Items) != 4 || offers.Items[0].Quantity != 2 || *offers.Items[0].AddOnId != more.AddOns[0].Id || offers.Items[1].AddOnId != nil {
		t.Errorf("offers %+v", offers)
	}
	less := decode[cloudapi.Subscription](t, a.do("DELETE", "/v1/billing/add-ons/"+more.AddOns[0].Id.String(), bearer("owner"), nil), 200)
	if len(less.AddOns) > 0 || *less.EffectiveProfileLimit != 50 {
		t.Errorf("without add-ons %+v", less)
	}
	if scale := decode[cloudapi.Subscription](t, a.post("change-plan", map[string]any{"plan": "scale"}), 200); *scale.EffectiveMemberLimit != 50 {
		t.Errorf("scale %+v", scale)
	}
	if s := decode[cloudapi.Subscription](t, a.post("cancel", nil), 200); !s.CancelAtPeriodEnd {
		t.Errorf("cancelled %+v", s)
	}
	if s := decode[cloudapi.Subscription](t, a.post("resume", nil), 200); s.CancelAtPeriodEnd {
		t.Errorf("resumed %+v", s)
	}
	unlimited := decode[cloudapi.Subscription](t, a.post("change-plan", map[string]any{"plan": "enterprise"}), 200)
	if unlimited.BaseProfileLimit != nil || unlimited.EffectiveProfileLimit != nil || unlimited.AdditionalProfileLimit != 0 || unlimited.EffectiveApiRphLimit != nil {
		t.Errorf("enterprise %+v", unlimited)
	}
	if p := decode[cloudapi.BillingPortal](t, a.post("portal", nil), 200); p.Url != nil {
		t.Errorf("portal %v", *p.Url)
	}
	if ended := decode[cloudapi.Subscription](t, a.post("change-plan", map[string]any{"plan": "free"}), 200); ended.Status != cloudapi.Canceled {
		t.Errorf("ended %+v", ended)
	}
}

func TestListInvoices_Pagination(t *testing.T) {
	a := newBillingAPI(t)
	a.post("checkout", map[string]any{"plan": "team"}).want(t, 200, "")
	a.clock.Advance(15 * 24 * time.Hour)
	a.post("change-plan", map[string]any{"plan": "starter"}).want(t, 200, "")
	list := decode[cloudapi.InvoiceList](t, a.do("GET", "/v1/billing/invoices", bearer("owner"), nil), 200)
	if len(list.Items) != 2 || list.Pagination.Total != 2 || list.Items[0].TotalCents != -3500 || list.Items[0].AmountDueCents != 0 ||
		list.Items[0].Status != cloudapi.InvoiceStatusPaid || list.Items[0].HostedUrl != nil {
		t.Errorf("invoices %+v", list)
	}
	first := decode[cloudapi.InvoiceList](t, a.do("GET", "/v1/billing/invoices?limit=1&page=2", bearer("owner"), nil), 200)
	if diff := cmp.Diff(list.Items[1:], first.Items); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	dearest := decode[cloudapi.InvoiceList](t, a.do("GET", "/v1/billing/invoices?sortBy=totalCents&sortOrder=desc", bearer("owner"), nil), 200)
	if dearest.Items[0].TotalCents != 9900 {
		t.Errorf("invoices %+v", dearest)
	}
	a.wrong("GET", "/v1/billing/invoices?sortBy=number", bearer("owner"), nil).want(t, 400, "VALIDATION_ERROR")
}

func TestBilling_Refusals(t *testing.T) {
	a := newBillingAPI(t)
	for _, c := range []struct {
		path   string
		body   any
		status int
		code   string
		fields []string
	}{
		{"checkout", map[string]any{"plan": "golden"}, 404, "RESOURCE_NOT_FOUND", nil},
		{"checkout", map[string]any{"plan": "free"}, 400, "VALIDATION_ERROR", []string{"plan CUSTOM"}},
		{"change-plan", map[string]any{"plan": "free"}, 409, "RESOURCE_CONFLICT", nil},
		{"cancel", nil, 409, "RESOURCE_CONFLICT", nil},
		{"resume", nil, 409, "RESOURCE_CONFLICT", nil},
		{"add-ons", map[string]any{"addOn": "profiles"}, 400, "VALIDATION_ERROR", []string{"addOn CUSTOM"}},
		{"change-plan", map[string]any{"plan": "enterprise"}, 200, "", nil},
		{"checkout", map[string]any{"plan": "team"}, 409, "RESOURCE_CONFLICT", nil},
		{"add-ons", map[string]any{"addOn": "profiles"}, 409, "RESOURCE_CONFLICT", []string{"addOn CUSTOM"}},
	} {
		r := a.post(c.path, c.body)
		r.want(t, c.status, c.code)
		if diff := cmp.Diff(c.fields, r.fields); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.path, c.body, diff)
		}
	}
	a.do("DELETE", "/v1/billing/add-ons/019a5f3e-b1c0-7a15-9d44-3f5e6a7b8c05", bearer("owner"), nil).want(t, 404, "RESOURCE_NOT_FOUND")
	for path, body := range map[string]map[string]any{
		"checkout": {"plan": "team", "returnUrl": "javascript:alert(1)"}, "change-plan": {}, "portal": {"url": "https://example.com"},
	} {
		a.wrong("POST", "/v1/billing/"+path, bearer("owner"), body).want(t, 400, "VALIDATION_ERROR")
	}
	for _, quantity := range []any{0, 1001, -1, 1.5, "1"} {
		a.wrong("POST", "/v1/billing/add-ons", bearer("owner"), map[string]any{"addOn": "profiles", "quantity": quantity}).want(t, 400, "VALIDATION_ERROR")
	}
}

func TestBilling_WithStripe(t *testing.T) {
	a := newBillingAPI(t)
	atStripe := a.throughStripe()
	a.post("change-plan", map[string]any{"plan": "team"}).want(t, 409, "RESOURCE_CONFLICT")
	a.post("portal", nil).want(t, 409, "RESOURCE_CONFLICT")
	atStripe.Answer("POST /v1/checkout/sessions", map[string]any{"url": "https://checkout.stripe.com/c/pay/cs_1"})
	checkout := decode[cloudapi.Checkout](t, a.post("checkout", map[string]any{"plan": "team"}), 200)
	if *checkout.Url != "https://checkout.stripe.com/c/pay/cs_1" || checkout.Subscription.Plan.Slug != "free" {
		t.Errorf("checkout %+v", checkout)
	}
	if form := atStripe.Requests("POST /v1/checkout/sessions")[0].Form; form.Get("success_url") != "https://svc.example" {
		t.Errorf("form %v", form)
	}
	atStripe.Answer("GET /v1/subscriptions/sub_1", map[string]any{
		"customer": "cus_1", "cancel_at": nil, "cancel_at_period_end": false, "metadata": map[string]any{"organization_id": a.org.String()},
		"items": map[string]any{"data": []any{map[string]any{
			"id": "si_1", "price": stripetest.Price("svc:team", 9900), "quantity": 1,
			"current_period_start": a.clock.Now().Unix(), "current_period_end": a.clock.Now().AddDate(0, 1, 0).Unix(),
		}}},
	})
	payload := []byte(`{"id": "evt_1", "object": "event", "type": "customer.subscription.created", "data": {"object": {"id": "sub_1"}}}`)
	signature := func(signedAt time.Time, secret string) string {
		return fmt.Sprintf("t=%d,v1=%x", signedAt.Unix(), webhook.ComputeSignature(signedAt, payload, secret))
	}
	now := time.Now()
	a.event(payload, "").want(t, 401, "AUTHENTICATION_ERROR")
	a.event(payload, signature(now, "whsec_other")).want(t, 401, "AUTHENTICATION_ERROR")
	a.event(payload, signature(now.Add(-10*time.Minute), stripetest.WebhookSecret)).want(t, 401, "AUTHENTICATION_ERROR")
	a.event(append(payload, '\n'), signature(now, stripetest.WebhookSecret)).want(t, 401, "AUTHENTICATION_ERROR")
	a.event(payload, signature(now, stripetest.WebhookSecret)).want(t, 200, "")
	a.event(payload, signature(now, stripetest.WebhookSecret)).want(t, 200, "")
	s := decode[cloudapi.Subscription](t, a.do("GET", "/v1/billing/subscription", bearer("owner"), nil), 200)
	if s.Plan.Slug != "team" || *s.EffectiveProfileLimit != 50 {
		t.Errorf("subscription %+v", s)
	}
	atStripe.Answer("POST /v1/billing_portal/sessions", map[string]any{"url": "https://billing.stripe.com/p/session/1"})
	portal := decode[cloudapi.BillingPortal](t, a.post("portal", map[string]any{"returnUrl": "https://example.com/billing"}), 200)
	if form := atStripe.Requests("POST /v1/billing_portal/sessions")[0].Form; *portal.Url != "https://billing.stripe.com/p/session/1" ||
		form.Get("return_url") != "https://example.com/billing" || form.Get("customer") != "cus_1" {
		t.Errorf("portal %v, form %v", *portal.Url, form)
	}
	atStripe.Fail("POST /v1/subscriptions/sub_1", 500, 500, 500)
	a.post("cancel", nil).want(t, 503, "EXTERNAL_SERVICE_ERROR")
	atStripe.Fail("POST /v1/subscriptions/sub_1", 403)
	a.post("cancel", nil).want(t, 502, "EXTERNAL_SERVICE_ERROR")
}

func TestStripeWebhook_LimitsBody(t *testing.T) {
	a := newBillingAPI(t)
	payload := []byte(`{"id": "evt_1", "object": "event", "type": "a.kind", "data": {"object": {}}}`)
	a.event(payload, "t=1,v1=00").want(t, 404, "RESOURCE_NOT_FOUND") // without Stripe
	a.throughStripe()
	for body, status := range map[string]int{
		"{}": http.StatusUnauthorized, string(bytes.Repeat([]byte(" "), 1<<20+1)): http.StatusRequestEntityTooLarge,
	} {
		res, err := http.Post(a.url+"/v1/webhooks/stripe", "application/json; charset=utf-8", bytes.NewReader([]byte(body)))
		must(t, err)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d bytes: status %d, want %d", len(body), res.StatusCode, status)
		}
	}
	now := time.Now()
	a.event(payload, fmt.Sprintf("t=%d,v1=%x", now.Unix(), webhook.ComputeSignature(now, payload, stripetest.WebhookSecret))).want(t, 200, "")
}
