package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// accounts is the part of the cloud for accounts, served as in production.
type accounts struct {
	t      *testing.T
	db     *sqlx.DB
	clock  *clock.Fake
	client *http.Client // validates every exchange against the document
	url    string

	journal auditRecorder // audit events of the organizations
	outbox  outbox        // mails of the organizations
}

// unimplemented implements the operations of other parts.
type unimplemented struct{ cloudapi.StrictServerInterface }

// handlers implements the accounts' operations, and minimal versions of two other
// operations to test access.
type handlers struct {
	unimplemented
	rest.Auth
	rest.Organizations
	rest.Members
	rest.Invitations
	rest.APIKeys
	rest.Plans
}

func (handlers) GetProfileStats(context.Context, cloudapi.GetProfileStatsRequestObject) (cloudapi.GetProfileStatsResponseObject, error) {
	return cloudapi.GetProfileStats200JSONResponse{Success: true}, nil
}

func (handlers) ListLicenseSessions(context.Context, cloudapi.ListLicenseSessionsRequestObject) (cloudapi.ListLicenseSessionsResponseObject, error) {
	return cloudapi.ListLicenseSessions200JSONResponse{Success: true, Data: cloudapi.LicenseSessions{
		HeartbeatTtlSeconds: 300, UnreportedTtlSeconds: 21600, Sessions: []cloudapi.LicenseSession{}, DuplicateMachines: []cloudapi.DuplicateMachine{},
	}}, nil
}

// freePlan provisions as in production, without license accounting.
type freePlan struct {
	plans *plan.Service
	clock clock.Clock
}

func (f freePlan) Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	return f.plans.Subscribe(ctx, tx, orgID, plan.Free, f.clock.Now())
}

func newAccounts(t *testing.T, publicURL string) *accounts {
	t.Helper()
	a := &accounts{t: t, db: dbtest.New(t), clock: clock.NewFake(time.Now().Truncate(time.Microsecond))}
	address, err := url.Parse(publicURL)
	must(t, err)
	plans := plan.New(a.db)
	orgs := a.organizations(plans, address)
	users, err := auth.New(a.db, a.clock, orgs, auth.Cost{MemoryKiB: 64, Iterations: 1})
	must(t, err)
	orgs.Users, users.SignUpPolicy, users.Invitations = users, auth.SignUpOpen, orgs
	keys := &apikey.Service{DB: a.db, Clock: a.clock, Audit: &a.journal}
	checks, err := apikey.NewVerifier(t.Context(), a.db, a.clock, slog.New(slog.DiscardHandler))
	must(t, err)
	g, err := access.New(users, checks, orgs, address)
	must(t, err)
	document := contracttest.Load(t, "cloud.yaml")
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: g.Authenticators(), Authorize: g.Authorize})
	must(t, err)
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware(), g.RequireSameOrigin)
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(handlers{
		Auth:          rest.Auth{Accounts: users, SecureCookies: address.Scheme == "https", SingleSignOn: true},
		Organizations: rest.Organizations{Organizations: orgs, Activation: users},
		Members:       rest.Members{Members: orgs},
		Invitations:   rest.Invitations{Invitations: orgs},
		APIKeys:       rest.APIKeys{Keys: keys, Connect: apikey.Connector{Cloud: address, Registry: "registry.example.com"}},
		Plans:         rest.Plans{Plans: plans},
	}, nil))
	server := httptest.NewServer(e)
	t.Cleanup(func() { server.Close(); checks.Close() })
	a.client, a.url = contracttest.New(t, document, nil), server.URL
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// credential is a set of headers.
type credential map[string]string

func bearer(token string) credential { return credential{"Authorization": "Bearer " + token} }
func cookie(token string) credential { return credential{"Cookie": "svc_session=" + token} }
func apiKey(key string) credential   { return credential{"X-API-Key": key} }

// with returns the credential with an additional header.
func (c credential) with(name, value string) credential {
	result := credential{name: value}
	for n, v := range c {
		result[n] = v
	}
	return result
}

// reply is an answer.
type reply struct {
	status  int
	header  http.Header
	body    string
	data    json.RawMessage
	code    string
	message string
	fields  []string // of the details, as "field CODE"
}

// do sends a request that the document allows. The body is encoded as JSON.
func (a *accounts) do(method, path string, c credential, body any) reply {
	a.t.Helper()
	return a.send(a.t.Context(), method, path, c, body)
}

// wrong sends a request that the document does not allow.
func (a *accounts) wrong(method, path string, c credential, body any) reply {
	a.t.Helper()
	return a.send(contracttest.AllowInvalidRequest(a.t.Context()), method, path, c, body)
}

func (a *accounts) send(ctx context.Context, method, path string, c credential, body any) reply {
	a.t.Helper()
	var text io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		must(a.t, err)
		text = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, text)
	must(a.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c {
		r.Header.Set(name, value)
	}
	res, err := a.client.Do(r)
	must(a.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	must(a.t, err)
	return read(a.t, res, answer)
}

func read(t *testing.T, res *http.Response, body []byte) reply {
	t.Helper()
	var envelope struct {
		Data  json.RawMessage
		Error struct {
			Code, Message string
			Details       []struct{ Field, Code string }
		}
	}
	must(t, json.Unmarshal(body, &envelope))
	result := reply{
		status: res.StatusCode, header: res.Header, body: string(body), data: envelope.Data,
		code: envelope.Error.Code, message: envelope.Error.Message,
	}
	for _, d := range envelope.Error.Details {
		result.fields = append(result.fields, d.Field+" "+d.Code)
	}
	return result
}

// decode returns the data of an answer, which must have this status.
func decode[T any](t *testing.T, r reply, status int) T {
	t.Helper()
	var data T
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	must(t, json.Unmarshal(r.data, &data))
	return data
}

func (r reply) want(t *testing.T, status int, code string) {
	t.Helper()
	if r.status != status || r.code != code {
		t.Errorf("answer %d %s, want %d %s: %s", r.status, r.code, status, code, r.body)
	}
}

const password = "correct horse battery"

func (a *accounts) signUp(email string) cloudapi.SignIn {
	a.t.Helper()
	return decode[cloudapi.SignIn](a.t, a.do("POST", "/v1/auth/sign-up", nil,
		map[string]any{"email": email, "password": password, "name": "Ada"}), 201)
}

// verify verifies the addresses of all users, which a second organization requires.
func (a *accounts) verify() {
	a.t.Helper()
	if _, err := a.db.ExecContext(a.t.Context(), `UPDATE users SET email_verified_at = now()`); err != nil {
		a.t.Fatal(err)
	}
}

func (a *accounts) createOrg(c credential, name string) cloudapi.Organization {
	a.t.Helper()
	return decode[cloudapi.Organization](a.t,
		a.do("POST", "/v1/organizations", c, map[string]any{"name": name}), 201)
}

func (a *accounts) createKey(c credential, orgID uuid.UUID, body map[string]any) cloudapi.CreatedApiKey {
	a.t.Helper()
	return decode[cloudapi.CreatedApiKey](a.t,
		a.do("POST", "/v1/organizations/"+orgID.String()+"/api-keys", c, body), 201)
}

// join makes the user a member.
func (a *accounts) join(orgID, userID uuid.UUID, role string) {
	a.t.Helper()
	_, err := a.db.Exec(`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, now())`,
		orgID, userID, role)
	must(a.t, err)
}
