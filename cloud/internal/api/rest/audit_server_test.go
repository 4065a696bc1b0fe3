package rest_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/cloud/internal/platform/contact"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// operationsAPI is the part of the cloud with the contact form, the audit log and
// profiles. Its pool has row-level security, as in the service.
type operationsAPI struct {
	accounts // sends the requests
	log      *audit.Log
	people   memberDirectory
	org      uuid.UUID
}

type operationsHandlers struct {
	unimplemented
	rest.Contact
	rest.Audit
	rest.Profiles
}

// memberDirectory contains the members by token, each of one organization.
type memberDirectory map[string]member

type member struct {
	user, org uuid.UUID
	role      string
}

func (p memberDirectory) Authenticate(_ context.Context, token string) (auth.Caller, error) {
	m, ok := p[token]
	if !ok {
		return auth.Caller{}, fault.New(fault.Unauthenticated, "unknown")
	}
	return auth.Caller{UserID: m.user, Session: token, ActiveOrgID: m.org}, nil
}

// AuthenticateToken finds no access token.
func (memberDirectory) AuthenticateToken(context.Context, string) (auth.Caller, error) {
	return auth.Caller{}, fault.New(fault.Unauthenticated, "unknown")
}

func (p memberDirectory) Role(_ context.Context, orgID, userID uuid.UUID) (string, error) {
	for _, m := range p {
		if m.user == userID && m.org == orgID {
			return m.role, nil
		}
	}
	return "", nil
}

// noKeys contains no organization keys.
type noKeys struct{}

func (noKeys) Verify(context.Context, string) (apikey.Identity, error) {
	return apikey.Identity{}, fault.New(fault.Unauthenticated, "unknown")
}

func (noKeys) Recall(string) (apikey.Identity, bool) { return apikey.Identity{}, false }

// newOperationsAPI trusts X-Forwarded-For from these proxies.
func newOperationsAPI(t *testing.T, proxies ...netip.Prefix) *operationsAPI {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	owner := dbtest.Open(t, dsn, pg.Options{})
	fake := clock.NewFake(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	a := &operationsAPI{accounts: accounts{t: t, clock: fake, db: dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole})}, org: uuid.Must(uuid.NewV7()), people: memberDirectory{}}
	owner.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, a.org)
	owner.MustExec(`INSERT INTO subscriptions (organization_id, plan_id, base_profile_limit, created_at, updated_at)
		SELECT $1, id, 10, now(), now() FROM plans WHERE slug = 'free'`, a.org)
	for token, org := range map[string]uuid.UUID{"owner": a.org, "admin": a.org, "member": a.org, "other": uuid.New()} {
		role := token
		if token == "other" {
			role = "owner"
		}
		a.people[token] = member{uuid.Must(uuid.NewV7()), org, role}
		owner.MustExec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, $2, 'U', '', now())`, a.people[token].user, token+"@example.com")
	}
	a.log = &audit.Log{DB: a.db, Clock: fake, Source: func(ctx context.Context) audit.Source {
		caller := auth.CallerFrom(ctx)
		return audit.Source{UserID: caller.UserID, KeyID: caller.KeyID, ClientAddress: httpd.ClientAddress(ctx), RequestID: httpd.RequestID(ctx)}
	}}
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	must(t, err)
	profiles := &profile.Service{DB: a.db, Clock: fake, Sealer: box, Limits: planLimits{plan.New(a.db), a.db}, LiveSessions: liveSessions{}, Recorder: a.log}
	a.serve(operationsHandlers{
		Contact: rest.Contact{Messages: &contact.Service{DB: a.db}}, Audit: rest.Audit{Events: a.log}, Profiles: rest.Profiles{Profiles: profiles},
	}, proxies)
	return a
}

func (a *operationsAPI) serve(handlers cloudapi.StrictServerInterface, proxies []netip.Prefix) {
	a.t.Helper()
	door, err := access.New(a.people, noKeys{}, a.people, &url.URL{Scheme: "http", Host: "svc.example"})
	must(a.t, err)
	document := contracttest.Load(a.t, "cloud.yaml")
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: door.Authenticators(), Authorize: door.Authorize})
	must(a.t, err)
	e := httpd.New(httpd.Options{Document: document, TrustedProxies: proxies})
	e.Use(guard.Middleware(), door.RequireSameOrigin)
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(handlers, nil))
	server := httptest.NewServer(e)
	a.t.Cleanup(server.Close)
	a.url, a.client = server.URL, contracttest.New(a.t, document, nil)
}

// record records an event of the organization, one minute after the previous one.
func (a *operationsAPI) record(org uuid.UUID, action, target string) {
	a.t.Helper()
	a.clock.Advance(time.Minute)
	must(a.t, pg.InOrg(a.t.Context(), a.db, org, func(tx *sqlx.Tx) error {
		return a.log.Record(a.t.Context(), tx, org, action, target, nil)
	}))
}
