package rest_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripe"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing/stripetest"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// billingAPI serves the billing of one organization, with a user for each role, and
// "nobody", who has no active organization.
type billingAPI struct {
	accounts // sends the requests
	service  *billing.Service
	org      uuid.UUID
}

type billingHandlers struct {
	unimplemented
	rest.Billing
}

func newBillingAPI(t *testing.T) *billingAPI {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	fake := clock.NewFake(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	a := &billingAPI{accounts: accounts{t: t, db: dbtest.Open(t, dsn, pg.Options{}), clock: fake}, org: uuid.Must(uuid.NewV7())}
	system := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	licenses, err := license.New(t.Context(), system, nil, slog.New(slog.DiscardHandler), license.Options{})
	must(t, err)
	t.Cleanup(func() { licenses.Close() })
	a.db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, a.org)
	must(t, pg.InTx(t.Context(), a.db, func(tx *sqlx.Tx) error {
		return plan.New(a.db).Subscribe(t.Context(), tx, a.org, plan.Free, fake.Now())
	}))
	a.service = &billing.Service{
		SelfService: true,
		DB:          dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole}), System: system, Clock: fake, Slots: licenses, Audit: &a.journal,
		Provider: billing.Manual{Clock: fake}, Logger: slog.New(slog.DiscardHandler),
	}
	a.serve()
	return a
}

func (a *billingAPI) serve() {
	a.t.Helper()
	callers := memberDirectory{"nobody": {user: uuid.New()}}
	for _, role := range []string{"owner", "admin", "member"} {
		callers[role] = member{uuid.New(), a.org, role}
	}
	public := &url.URL{Scheme: "https", Host: "svc.example"}
	door, err := access.New(callers, noKeys{}, callers, public)
	must(a.t, err)
	document := contracttest.Load(a.t, "cloud.yaml")
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: door.Authenticators(), Authorize: door.Authorize})
	must(a.t, err)
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware(), door.RequireSameOrigin)
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(billingHandlers{
		Billing: rest.Billing{Subscriptions: a.service, Public: public},
	}, nil))
	rest.StripeWebhook{Events: a.service}.Register(e)
	server := httptest.NewServer(e)
	a.t.Cleanup(server.Close)
	a.url, a.client = server.URL, contracttest.New(a.t, document, nil)
}

// throughStripe configures Stripe as the payment provider.
func (a *billingAPI) throughStripe() *stripetest.Stripe {
	a.t.Helper()
	fake := stripetest.New(a.t)
	provider, err := stripe.New(stripe.Config{
		SecretKey: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, APIBase: fake.URL,
	})
	must(a.t, err)
	a.service.Provider = provider
	return fake
}

// post sends a request that changes billing, as the owner.
func (a *billingAPI) post(path string, body any) reply {
	a.t.Helper()
	return a.do("POST", "/v1/billing/"+path, bearer("owner"), body)
}

// event sends an event like Stripe.
func (a *billingAPI) event(payload []byte, signature string) reply {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), "POST", a.url+"/v1/webhooks/stripe", bytes.NewReader(payload))
	must(a.t, err)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("Stripe-Signature", signature)
	res, err := a.client.Do(r)
	must(a.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(a.t, err)
	return read(a.t, res, body)
}
