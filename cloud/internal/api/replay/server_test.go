package replay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/replay"
	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// testServer serves a few operations of the cloud's document through the guard and the
// middleware.
type testServer struct {
	t      *testing.T
	db     *sqlx.DB
	client *http.Client // checks every exchange against the document
	url    string
	log    *bytes.Buffer
	stored []idempotency.Answer
	*operations
}

// Complete implements replay.Store.
func (k recordingStore) Complete(ctx context.Context, c *idempotency.Claim, a idempotency.Answer) error {
	k.server.stored = append(k.server.stored, a)
	return k.Store.Complete(ctx, c, a)
}

// recordingStore is a Store that records the answers.
type recordingStore struct {
	*idempotency.Store
	server *testServer
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	h := &testServer{t: t, log: &bytes.Buffer{}, operations: &operations{}}
	h.db = dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AppRole})
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	must(t, err)
	document := contracttest.Load(t, "cloud.yaml")
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authorize: authorize, Authenticators: map[string]oapi.Authenticator{
		"dashboardSession": func(*http.Request) (context.Context, error) { return nil, oapi.ErrNoCredential },
		"dashboardBearer":  user, "organizationKey": worker,
	}})
	must(t, err)
	logger := slog.New(slog.NewTextHandler(h.log, nil))
	e := httpd.New(httpd.Options{Logger: logger, Document: document, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	store := &idempotency.Store{DB: h.db, Sealer: box}
	e.Use(rememberOrigin, guard.Middleware(), replay.New(guard, recordingStore{store, h}, logger).Middleware)
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(h.operations, nil))
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	h.client, h.url = contracttest.New(t, document, nil), server.URL
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type originKey struct{}

// rememberOrigin gives an operation access to the context that ends when the client
// disconnects.
func rememberOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		c.SetRequest(c.Request().WithContext(context.WithValue(ctx, originKey{}, ctx)))
		return next(c)
	}
}

// A token consists of a user id and the id of the active organization, and for a service
// account of its id and a third word; a key is its own id.
func user(r *http.Request) (context.Context, error) {
	fields := strings.Fields(r.Header.Get("Authorization"))
	if len(fields) == 4 {
		id, orgID := uuid.MustParse(fields[1]), uuid.MustParse(fields[2])
		return auth.WithCaller(r.Context(), auth.Caller{ServiceAccount: &auth.ServiceAccount{ID: id}, ActiveOrgID: orgID}), nil
	}
	if len(fields) != 3 {
		return nil, oapi.ErrNoCredential
	}
	return auth.WithCaller(r.Context(), auth.Caller{UserID: uuid.MustParse(fields[1]), ActiveOrgID: uuid.MustParse(fields[2])}), nil
}

func worker(r *http.Request) (context.Context, error) {
	id, err := uuid.Parse(r.Header.Get("X-API-Key"))
	if err != nil {
		return nil, oapi.ErrNoCredential
	}
	return auth.WithCaller(r.Context(), auth.Caller{KeyID: id, OrgID: uuid.New()}), nil
}

// authorize sets the organization like access.Authorizer. The zero organization has no
// members.
func authorize(ctx context.Context, op oapi.Operation) (context.Context, error) {
	if len(op.Roles) == 0 {
		return ctx, nil
	}
	caller := auth.CallerFrom(ctx)
	if caller.OrgID = caller.ActiveOrgID; caller.OrgID == uuid.Nil {
		return nil, fault.New(fault.Forbidden, "no member")
	}
	return auth.WithCaller(ctx, caller), nil
}

// operations counts calls; do, if set, determines the result.
type operations struct {
	cloudapi.StrictServerInterface
	mu    sync.Mutex
	calls int
	do    func(ctx context.Context, call int) error
}

func (o *operations) call(ctx context.Context) (int, error) {
	o.mu.Lock()
	o.calls++
	n, do := o.calls, o.do
	o.mu.Unlock()
	if do != nil {
		return n, do(ctx, n)
	}
	return n, nil
}

func (o *operations) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

func (o *operations) CreateOrganization(ctx context.Context, r cloudapi.CreateOrganizationRequestObject) (cloudapi.CreateOrganizationResponseObject, error) {
	if _, err := o.call(ctx); err != nil {
		return nil, err
	}
	id := uuid.Must(uuid.NewV7())
	return cloudapi.CreateOrganization201JSONResponse{
		Body: cloudapi.OrganizationResponse{Success: true, Data: cloudapi.Organization{
			Id: id, Name: r.Body.Name, Slug: "engines", Role: "owner", Active: true, CreatedAt: time.Now()}},
		Headers: cloudapi.CreateOrganization201ResponseHeaders{Location: "/v1/organizations/" + id.String()},
	}, nil
}

func (o *operations) CreateContactMessage(ctx context.Context, _ cloudapi.CreateContactMessageRequestObject) (cloudapi.CreateContactMessageResponseObject, error) {
	if _, err := o.call(ctx); err != nil {
		return nil, err
	}
	return cloudapi.CreateContactMessage201JSONResponse{
		Body:    cloudapi.ContactMessageResponse{Success: true, Data: cloudapi.ContactMessage{Id: uuid.New(), CreatedAt: time.Now()}},
		Headers: cloudapi.CreateContactMessage201ResponseHeaders{Location: "/v1/contact/x"},
	}, nil
}

func (o *operations) ReclaimLicenseSessions(ctx context.Context, _ cloudapi.ReclaimLicenseSessionsRequestObject) (cloudapi.ReclaimLicenseSessionsResponseObject, error) {
	n, err := o.call(ctx)
	return cloudapi.ReclaimLicenseSessions200JSONResponse{Success: true, Data: cloudapi.Reclaim{Released: int32(n)}}, err
}

// OpenBillingPortal returns the organization.
func (o *operations) OpenBillingPortal(ctx context.Context, _ cloudapi.OpenBillingPortalRequestObject) (cloudapi.OpenBillingPortalResponseObject, error) {
	_, err := o.call(ctx)
	page := "https://pay.example/" + auth.CallerFrom(ctx).OrgID.String()
	return cloudapi.OpenBillingPortal200JSONResponse{Success: true, Data: cloudapi.BillingPortal{Url: &page}}, err
}

// keyText is the secret of every created key.
const keyText = "svc_k3fdmz5w2v6x4y7a3b5c7d2e4f6gq7ta"

// key creates a key and returns its location.
func (o *operations) key(ctx context.Context) (cloudapi.CreatedApiKeyResponse, string, error) {
	_, err := o.call(ctx)
	id := uuid.Must(uuid.NewV7())
	return cloudapi.CreatedApiKeyResponse{Success: true, Data: cloudapi.CreatedApiKey{Key: keyText, KeyLower: keyText,
			ApiKey: cloudapi.ApiKey{Id: id, Name: "fleet", Prefix: keyText[:8], LastFour: keyText[32:], CreatedAt: time.Now()}}},
		"/v1/organizations/" + home.String() + "/api-keys/" + id.String(), err
}

func (o *operations) CreateApiKey(ctx context.Context, _ cloudapi.CreateApiKeyRequestObject) (cloudapi.CreateApiKeyResponseObject, error) {
	body, location, err := o.key(ctx)
	return cloudapi.CreateApiKey201JSONResponse{Body: body, Headers: cloudapi.CreateApiKey201ResponseHeaders{Location: location}}, err
}

func (o *operations) RotateApiKey(ctx context.Context, _ cloudapi.RotateApiKeyRequestObject) (cloudapi.RotateApiKeyResponseObject, error) {
	body, location, err := o.key(ctx)
	return cloudapi.RotateApiKey201JSONResponse{Body: body, Headers: cloudapi.RotateApiKey201ResponseHeaders{Location: location}}, err
}

func (o *operations) AuthorizeLaunch(ctx context.Context, _ cloudapi.AuthorizeLaunchRequestObject) (cloudapi.AuthorizeLaunchResponseObject, error) {
	n, err := o.call(ctx)
	reason := cloudapi.RefusalReason("concurrency_limit")
	return cloudapi.AuthorizeLaunch402JSONResponse{Body: cloudapi.AuthorizeResponse{
		Success: true, Data: cloudapi.Authorization{Current: int32(n), Limit: new(sharedapi.Limited), Reason: &reason},
	}}, err
}

func (o *operations) SignIn(ctx context.Context, _ cloudapi.SignInRequestObject) (cloudapi.SignInResponseObject, error) {
	_, err := o.call(ctx)
	return nil, errors.Join(err, fault.New(fault.Unauthenticated, "wrong"))
}

// reply is a response.
type reply struct {
	status   int
	header   http.Header
	body     string
	replayed bool
}

// post sends a request with these headers.
func (h *testServer) post(ctx context.Context, path, body string, headers ...string) reply {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", h.url+path, strings.NewReader(body))
	must(h.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := h.client.Do(r)
	must(h.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h.t, err)
	return reply{res.StatusCode, res.Header, string(text), res.Header.Get("Idempotent-Replayed") == "true"}
}

func bearer(userID, orgID uuid.UUID) string {
	return "Bearer " + userID.String() + " " + orgID.String()
}
