package rest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// TestAuth_EveryAttemptKindIsLimited makes attempts of one kind until they are refused,
// and checks the number of attempts.
func TestAuth_EveryAttemptKindIsLimited(t *testing.T) {
	for _, c := range []struct {
		path   string
		body   func(i int) any
		within int
	}{
		{"sign-up", func(i int) any {
			return map[string]any{"email": fmt.Sprintf("user-%d@example.com", i), "password": password, "name": "U"}
		}, 11},
		{"verify-email", func(i int) any { return map[string]any{"token": token(i)} }, 21},
		{"verify-email/resend", func(int) any { return nil }, 6},
		{"password/forgot", func(int) any { return map[string]any{"email": "eve@example.com"} }, 6},
		{"password/reset", func(i int) any { return map[string]any{"token": token(i), "password": password} }, 21},
		{"password/change", func(int) any {
			return map[string]any{"currentPassword": "not the password", "newPassword": password}
		}, 6},
	} {
		t.Run(c.path, func(t *testing.T) {
			s := newSignIn(t)
			ada := bearer(s.signUp("ada@example.com").Token)
			for i := range c.within {
				r := s.do("POST", "/v1/auth/"+c.path, ada, c.body(i))
				if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
					return
				}
			}
			t.Errorf("%d attempts, and no pause", c.within)
		})
	}
}

// token is a token that was not mailed.
func token(i int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%032d", i))
}

// TestSingleSignOn_FailureStatuses lets the provider, and then the database, fail in
// each way at each of the two steps.
func TestSingleSignOn_FailureStatuses(t *testing.T) {
	s := newSingleSignOn(t)
	start := s.url + "/v1/auth/oidc/start"
	failures := []struct {
		status int
		answer http.HandlerFunc
	}{
		{http.StatusBadGateway, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }},
		{http.StatusServiceUnavailable, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{http.StatusGatewayTimeout, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the request only after its body is read
			<-r.Context().Done()
		}},
	}
	var back *url.URL
	var kept []*http.Cookie
	browser := s.browser()
	for _, step := range []func() string{
		func() string { return start },
		func() string { browser.Jar.SetCookies(back, kept); return back.String() },
	} {
		for _, f := range failures {
			s.provider.WrapHandler(func(http.Handler) http.Handler { return f.answer })
			s.timeout = 300 * time.Millisecond
			s.get(browser, step()).want(t, f.status, "EXTERNAL_SERVICE_ERROR")
		}
		s.provider.WrapHandler(nil)
		s.timeout = 0
		back = s.atProvider(browser, "ada", "/")
		kept = browser.Jar.Cookies(back)
	}
	must(t, s.db.Close())
	s.get(browser, back.String()).want(t, 500, "INTERNAL_ERROR")
}

// TestBilling_StripeFailures lets Stripe refuse the request of each operation, and then
// be overloaded.
func TestBilling_StripeFailures(t *testing.T) {
	a := newBillingAPI(t)
	atStripe := a.throughStripe()
	for _, c := range []struct {
		method, path string
		body         any
		operation    string // request to Stripe that fails
	}{
		{"POST", "/v1/billing/checkout", map[string]any{"plan": "team"}, "POST /v1/checkout/sessions"},
		{"POST", "/v1/webhooks/stripe", "customer.subscription.created", "GET /v1/subscriptions/sub_1"}, // from here on with a paid subscription
		{"POST", "/v1/billing/change-plan", map[string]any{"plan": "scale"}, "POST /v1/subscriptions/sub_1"},
		{"POST", "/v1/billing/cancel", nil, "POST /v1/subscriptions/sub_1"},
		{"POST", "/v1/billing/resume", nil, "POST /v1/subscriptions/sub_1"},
		{"POST", "/v1/billing/portal", nil, "POST /v1/billing_portal/sessions"},
		{"POST", "/v1/billing/add-ons", map[string]any{"addOn": "profiles"}, "POST /v1/subscriptions/sub_1"},
		{"DELETE", "/v1/billing/add-ons/{addOnId}", nil, "POST /v1/subscriptions/sub_1"},
	} {
		ask := func() reply { return a.do(c.method, a.bought(c.path), bearer("owner"), c.body) }
		if kind, isEvent := c.body.(string); isEvent {
			a.subscribed(atStripe)
			ask = func() reply {
				return a.signed(fmt.Sprintf(`{"id": "evt_1", "object": "event", "type": %q, "data": {"object": {"id": "sub_1"}}}`, kind))
			}
		}
		for code, status := range map[int]int{http.StatusForbidden: http.StatusBadGateway, http.StatusTooManyRequests: http.StatusServiceUnavailable} {
			atStripe.Fail(c.operation, code)
			if r := ask(); r.status != status || r.code != "EXTERNAL_SERVICE_ERROR" {
				t.Errorf("%s with %d at Stripe: %d %s, want %d", c.path, code, r.status, r.body, status)
			}
		}
		atStripe.Fail(c.operation)
		if _, isEvent := c.body.(string); isEvent {
			ask().want(t, 200, "")
		}
	}
	a.signed(`{"id": "", "object": "event", "type": "invoice.paid", "data": {}}`).want(t, 400, "VALIDATION_ERROR")
	a.db.MustExec(`ALTER TABLE payment_events RENAME TO lost`)
	a.signed(`{"id": "evt_3", "object": "event", "type": "invoice.paid", "data": {"object": {"id": "in_1"}}}`).want(t, 500, "INTERNAL_ERROR")
}

// subscribed sets Stripe's subscription of the organization: the plan team with ten
// additional profiles.
func (a *billingAPI) subscribed(atStripe *stripetest.Stripe) {
	item := func(id, key string, cents int) map[string]any {
		return map[string]any{
			"id": id, "price": stripetest.Price(key, cents), "quantity": 1,
			"current_period_start": a.clock.Now().Unix(), "current_period_end": a.clock.Now().AddDate(0, 1, 0).Unix(),
		}
	}
	atStripe.Answer("GET /v1/subscriptions/sub_1", map[string]any{
		"customer": "cus_1", "cancel_at": nil, "cancel_at_period_end": false, "metadata": map[string]any{"organization_id": a.org.String()},
		"items": map[string]any{"data": []any{item("si_1", "svc:team", 9900), item("si_2", "svc:team:profiles", 1900)}},
	})
}

// bought replaces the placeholder in a path by the ID of the organization's add-on.
func (a *billingAPI) bought(path string) string {
	a.t.Helper()
	before, found := strings.CutSuffix(path, "{addOnId}")
	if !found {
		return path
	}
	s := decode[cloudapi.Subscription](a.t, a.do("GET", "/v1/billing/subscription", bearer("owner"), nil), 200)
	return before + s.AddOns[0].Id.String()
}

// signed sends a signed event.
func (a *billingAPI) signed(payload string) reply {
	a.t.Helper()
	now := time.Now()
	return a.event([]byte(payload), fmt.Sprintf("t=%d,v1=%x", now.Unix(), webhook.ComputeSignature(now, []byte(payload), stripetest.WebhookSecret)))
}

// busyLicenses is a license service in which every launch loses the race for a slot.
type busyLicenses struct{ *license.Service }

func (busyLicenses) Authorize(context.Context, license.Request) (license.Grant, error) {
	return license.Grant{}, fault.New(fault.Unavailable, "Too many requests for this session at once.")
}

func TestAuthorize_UnavailableAfterLostRaces(t *testing.T) {
	a := newLicenseAPI(t)
	a.serve(licenseHandlers{License: rest.License{Licenses: busyLicenses{}}})
	a.ask(newID(), "profileId", a.profile).want(t, 503, "EXTERNAL_SERVICE_ERROR")
}
