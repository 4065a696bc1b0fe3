package access_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/usage"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

var (
	userID = uuid.MustParse("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a01")
	keyID  = uuid.MustParse("019a5f3e-5a07-7e44-8c61-90f3b1d2c403")
	home   = uuid.MustParse("019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02")
	other  = uuid.MustParse("019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e03")
	second = uuid.MustParse("019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e04")
)

// sessions accepts the token "good".
type sessions struct{}

func (sessions) Authenticate(_ context.Context, token string) (auth.Caller, error) {
	if token != "good" {
		return auth.Caller{}, fault.New(fault.Unauthenticated, "bad")
	}
	return auth.Caller{UserID: userID, Session: token, ActiveOrgID: home}, nil
}

// AuthenticateToken accepts the access token "svct_good".
func (sessions) AuthenticateToken(_ context.Context, token string) (auth.Caller, error) {
	if token != "svct_good" {
		return auth.Caller{}, fault.New(fault.Unauthenticated, "bad")
	}
	return tokenCaller("profiles:read"), nil
}

// keys accepts the key "good".
type keys struct{}

func (keys) Verify(_ context.Context, secret string) (apikey.Identity, error) {
	if secret != "good" {
		return apikey.Identity{}, fault.New(fault.Unauthenticated, "bad")
	}
	return apikey.Identity{KeyID: keyID, OrgID: home}, nil
}

// Recall never finds a key.
func (keys) Recall(string) (apikey.Identity, bool) { return apikey.Identity{}, false }

// memberships are the user's roles by organization.
type memberships map[uuid.UUID]string

func (m memberships) Role(_ context.Context, orgID, id uuid.UUID) (string, error) {
	if id != userID {
		return "", nil
	}
	if m[orgID] == "broken" {
		return "", errors.New("no database")
	}
	return m[orgID], nil
}

func newAuthorizer(t *testing.T, m memberships) *access.Authorizer {
	t.Helper()
	g, err := access.New(sessions{}, keys{}, m, &url.URL{Scheme: "https", Host: "svc.example"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func request(method string, headers map[string]string) *http.Request {
	r := httptest.NewRequest(method, "http://backend.internal/v1/x", nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

func TestAuthenticators(t *testing.T) {
	user := auth.Caller{UserID: userID, Session: "good", ActiveOrgID: home}
	worker := auth.Caller{KeyID: keyID, OrgID: home}
	const absent, refused, foreign = "absent", "refused", "foreign"
	for _, test := range []struct {
		name, scheme, method string
		headers              map[string]string
		want                 any // the caller, or the expected error
	}{
		{"cookie", "dashboardSession", "GET", map[string]string{"Cookie": "a=b; svc_session=good"}, user},
		{"no cookie", "dashboardSession", "GET", nil, absent},
		{"an empty cookie", "dashboardSession", "GET", map[string]string{"Cookie": "svc_session="}, absent},
		{"a wrong cookie", "dashboardSession", "GET", map[string]string{"Cookie": "svc_session=bad"}, refused},
		{"a token in another cookie", "dashboardSession", "GET", map[string]string{"Cookie": "session=good"}, absent},
		{"a bearer is no cookie", "dashboardSession", "GET", map[string]string{"Authorization": "Bearer good"}, absent},

		{"cookie reads for another site", "dashboardSession", "GET", map[string]string{"Cookie": "svc_session=good", "Sec-Fetch-Site": "cross-site"}, user},
		{"cookie changes for another site", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good", "Sec-Fetch-Site": "cross-site"}, foreign},
		{"cookie changes for a sibling site", "dashboardSession", "DELETE", map[string]string{"Cookie": "svc_session=good", "Sec-Fetch-Site": "same-site"}, foreign},
		{"cookie changes for another origin", "dashboardSession", "PATCH", map[string]string{"Cookie": "svc_session=good", "Origin": "https://evil.example"}, foreign},
		{"cookie changes for no origin", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good", "Origin": "null"}, foreign},
		{"cookie changes for this site", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good", "Sec-Fetch-Site": "same-origin"}, user},
		{"cookie changes for the public address", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good", "Origin": "https://svc.example"}, user},
		{"cookie changes for its own host", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good", "Origin": "http://backend.internal"}, user},
		{"cookie changes for a program", "dashboardSession", "POST", map[string]string{"Cookie": "svc_session=good"}, user},

		{"bearer", "dashboardBearer", "GET", map[string]string{"Authorization": "Bearer good"}, user},
		{"bearer in any case", "dashboardBearer", "GET", map[string]string{"Authorization": "bearer  good"}, user},
		{"no bearer", "dashboardBearer", "GET", nil, absent},
		{"an empty bearer", "dashboardBearer", "GET", map[string]string{"Authorization": "Bearer "}, absent},
		{"another scheme", "dashboardBearer", "GET", map[string]string{"Authorization": "Basic good"}, absent},
		{"a wrong bearer", "dashboardBearer", "GET", map[string]string{"Authorization": "Bearer bad"}, refused},
		{"access token", "dashboardBearer", "POST", map[string]string{"Authorization": "Bearer svct_good"}, tokenCaller("profiles:read")},
		{"a wrong access token", "dashboardBearer", "GET", map[string]string{"Authorization": "Bearer svct_bad"}, refused},
		{"an access token in the cookie", "dashboardSession", "GET", map[string]string{"Cookie": "svc_session=svct_good"}, refused},
		{"an access token as key", "organizationKey", "GET", map[string]string{"X-API-Key": "svct_good"}, refused},
		{"bearer changes for another site", "dashboardBearer", "POST", map[string]string{"Authorization": "Bearer good", "Sec-Fetch-Site": "cross-site"}, user},

		{"key", "organizationKey", "POST", map[string]string{"X-API-Key": "good"}, worker},
		{"no key", "organizationKey", "POST", nil, absent},
		{"a wrong key", "organizationKey", "POST", map[string]string{"X-API-Key": "bad"}, refused},
		{"a bearer is no key", "organizationKey", "POST", map[string]string{"Authorization": "Bearer good"}, absent},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, err := newAuthorizer(t, nil).Authenticators()[test.scheme](request(test.method, test.headers))
			var got any
			switch {
			case errors.Is(err, oapi.ErrNoCredential):
				got = absent
			case fault.Is(err, fault.Unauthenticated):
				got = refused
			case fault.Is(err, fault.Forbidden):
				got = foreign
			case err == nil:
				got = auth.CallerFrom(ctx)
			default:
				got = err
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	const unsettled = fault.Kind(-1)
	all, managers := []string{"owner", "admin", "member"}, []string{"owner", "admin"}
	path := func(id string) map[string]string { return map[string]string{"organizationId": id} }
	for _, test := range []struct {
		name   string
		roles  []string
		params map[string]string
		active uuid.UUID
		want   any // the role, or the kind of the refusal
	}{
		{"no roles asked", nil, nil, home, unsettled},
		{"active", all, nil, home, auth.Member},
		{"active, role too low", managers, nil, home, fault.Forbidden},
		{"none active", all, nil, uuid.Nil, fault.Validation},
		{"active, no longer a member", all, nil, other, fault.Validation},
		{"active, beside another parameter", all, map[string]string{"profileId": other.String()}, home, auth.Member},
		{"path, active", all, path(home.String()), home, auth.Member},
		{"path, none active", all, path(home.String()), uuid.Nil, fault.Validation},
		{"path, no longer a member of the active one", all, path(home.String()), other, fault.Validation},
		{"path, another active", all, path(home.String()), second, fault.Conflict},
		{"path, another active, role too low", managers, path(home.String()), second, fault.Forbidden},
		{"path, role too low", managers, path(home.String()), home, fault.Forbidden},
		{"path, not a member", all, path(other.String()), home, fault.NotFound},
		{"path, not a member, role too low", managers, path(other.String()), home, fault.NotFound},
		{"path, zero", all, path(uuid.Nil.String()), home, fault.NotFound},
		{"path, malformed", all, path("home"), home, unsettled},
	} {
		t.Run(test.name, func(t *testing.T) {
			caller := auth.Caller{UserID: userID, Session: "good", ActiveOrgID: test.active}
			g := newAuthorizer(t, memberships{home: "member", second: "owner"})
			ctx, err := g.Authorize(auth.WithCaller(t.Context(), caller), oapi.Operation{Roles: test.roles, Params: test.params})
			if kind, refused := test.want.(fault.Kind); refused && kind != unsettled {
				if !fault.Is(err, kind) {
					t.Errorf("error %v, want one of kind %d", err, kind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if role, ok := test.want.(auth.Role); ok {
				caller.OrgID, caller.Role = home, role
			}
			if diff := cmp.Diff(caller, auth.CallerFrom(ctx)); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
		})
	}
}

// The refusal names the active organization. Some operations accept any organization
// of the user.
func TestAuthorize_ReportsActiveOrganization(t *testing.T) {
	g := newAuthorizer(t, memberships{home: "owner", second: "owner"})
	op := oapi.Operation{Roles: []string{"owner"}, Params: map[string]string{"organizationId": home.String()}}
	ctx := auth.WithCaller(t.Context(), auth.Caller{UserID: userID, Session: "good", ActiveOrgID: second})

	_, err := g.Authorize(ctx, op)
	got := fault.From(err)
	want := []fault.Detail{{
		Field: "organizationId", Code: fault.Custom, Message: "This is not the active organization.",
		Received: home, Constraint: map[string]any{"activeOrganizationId": second},
	}}
	if got == nil || got.Kind != fault.Conflict || !strings.Contains(got.Message, second.String()) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(want, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}

	ctx = auth.WithCaller(t.Context(), auth.Caller{UserID: userID, Session: "good"})
	_, err = g.Authorize(ctx, op)
	if got := fault.From(err); got == nil || len(got.Details) != 1 || got.Details[0].Field != "activeOrganizationId" {
		t.Errorf("no active organization: %v, want one detail", err)
	}

	op.AnyOrganization = true
	for _, active := range []uuid.UUID{uuid.Nil, second, other} {
		ctx = auth.WithCaller(t.Context(), auth.Caller{UserID: userID, Session: "good", ActiveOrgID: active})
		ctx, err := g.Authorize(ctx, op)
		if err != nil || auth.CallerFrom(ctx).OrgID != home {
			t.Errorf("any organization, %s active: error %v", active, err)
		}
	}
}

func TestAuthorize_KeyActsForItsOrganizationOnly(t *testing.T) {
	g := newAuthorizer(t, memberships{})
	ctx := auth.WithCaller(t.Context(), auth.Caller{KeyID: userID, OrgID: home})
	for org, kind := range map[string]fault.Kind{"": -1, home.String(): -1, other.String(): fault.NotFound} {
		op := oapi.Operation{Roles: []string{"owner"}}
		if org != "" {
			op.Params = map[string]string{"organizationId": org}
		}
		got, err := g.Authorize(ctx, op)
		if kind >= 0 && !fault.Is(err, kind) || kind < 0 && (err != nil || auth.CallerFrom(got) != auth.CallerFrom(ctx)) {
			t.Errorf("in %q: %v", org, err)
		}
	}
}

// requests counts requests. The limit is ten requests per minute.
type requests struct {
	counted map[uuid.UUID]int
	limit   *int
	err     error
}

func (r *requests) Count(orgID uuid.UUID) { r.counted[orgID]++ }

func (r *requests) Recent(context.Context, uuid.UUID) (usage.Usage, error) {
	return usage.Usage{Minute: usage.Window{Limit: r.limit, Used: 4, Ends: time.Unix(1795256160, 0)}}, r.err
}

// Refused requests, and those that act on no organization, are not counted.
func TestAuthorize_CountsRequestsThatActOnAnOrganization(t *testing.T) {
	member := auth.Caller{UserID: userID, ActiveOrgID: home}
	for _, test := range []struct {
		name   string
		caller auth.Caller
		roles  []string
		again  bool
		want   int
	}{
		{"a member", member, []string{"member"}, false, 1},
		{"a role too low", member, []string{"owner"}, false, 0},
		{"no role asked for", member, nil, false, 0},
		{"a key", auth.Caller{KeyID: keyID, OrgID: home}, nil, false, 1},
		{"no credential", auth.Caller{}, nil, false, 0},
		{"a check of a long response", member, []string{"member"}, true, 0},
	} {
		g, counts := newAuthorizer(t, memberships{home: "member"}), &requests{counted: map[uuid.UUID]int{}}
		g.Requests = counts
		_, _ = g.Authorize(auth.WithCaller(t.Context(), test.caller), oapi.Operation{ID: "getThing", Roles: test.roles, Again: test.again})
		if n := counts.counted[home]; n != test.want || len(counts.counted) > test.want {
			t.Errorf("%s: counted %v, want %d", test.name, counts.counted, test.want)
		}
	}
}

func TestRateLimitHeaders_SetForUsersOnSuccess(t *testing.T) {
	user, ten := auth.Caller{UserID: userID, OrgID: home}, 10
	headers := []string{"10", "6", "1795256160"}
	for _, test := range []struct {
		name     string
		caller   auth.Caller
		requests *requests
		status   int
		want     []string
	}{
		{"a success", user, &requests{limit: &ten}, 201, headers},
		{"a failure", user, &requests{limit: &ten}, 409, nil},
		{"no limit", user, &requests{}, 200, nil},
		{"numbers that can't be read", user, &requests{limit: &ten, err: errors.New("no database")}, 200, nil},
		{"a worker", auth.Caller{KeyID: keyID, OrgID: home}, &requests{limit: &ten}, 200, nil},
		{"no organization", auth.Caller{UserID: userID}, &requests{limit: &ten}, 200, nil},
		{"no counter", user, nil, 200, nil},
	} {
		g := newAuthorizer(t, nil)
		if test.requests != nil {
			g.Requests = test.requests
		}
		recorder := httptest.NewRecorder()
		r := request("GET", nil)
		c := echo.New().NewContext(r.WithContext(auth.WithCaller(t.Context(), test.caller)), recorder)
		if err := g.RateLimitHeaders(func(c echo.Context) error { return c.NoContent(test.status) })(c); err != nil {
			t.Errorf("%s: error %v", test.name, err)
		}
		var got []string
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			got = append(got, recorder.Result().Header.Values(name)...)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestAuthorize_FailsWithoutDatabase(t *testing.T) {
	ctx := auth.WithCaller(t.Context(), auth.Caller{UserID: userID, ActiveOrgID: home})
	_, err := newAuthorizer(t, memberships{home: "broken"}).Authorize(ctx, oapi.Operation{Roles: []string{"owner"}})
	if err == nil || fault.From(err).Kind != fault.Internal {
		t.Errorf("error %v, want an internal error", err)
	}
}

func TestRequireSameOrigin_RefusesCrossSiteRequests(t *testing.T) {
	for _, test := range []struct {
		name, method string
		headers      map[string]string
		refused      bool
	}{
		{"program", "POST", nil, false},
		{"own page", "POST", map[string]string{"Sec-Fetch-Site": "same-origin"}, false},
		{"other page", "POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		{"other page in an old browser", "POST", map[string]string{"Origin": "https://evil.example"}, true},
		{"other page reads", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"other page with a bearer", "POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Authorization": "Bearer x"}, false},
		{"other page with a key", "POST", map[string]string{"Sec-Fetch-Site": "cross-site", "X-API-Key": "x"}, false},
	} {
		passed := false
		handler := newAuthorizer(t, nil).RequireSameOrigin(func(echo.Context) error { passed = true; return nil })
		err := handler(echo.New().NewContext(request(test.method, test.headers), httptest.NewRecorder()))
		if fault.Is(err, fault.Forbidden) != test.refused || passed == test.refused {
			t.Errorf("%s: error %v, passed %v", test.name, err, passed)
		}
	}
}

// cachedKeyStore is a key store with the cached key "known". good reports whether that key is
// still valid.
type cachedKeyStore struct{ good bool }

func (k cachedKeyStore) Verify(context.Context, string) (apikey.Identity, error) {
	if !k.good {
		return apikey.Identity{}, fault.New(fault.Unauthenticated, "bad")
	}
	return apikey.Identity{KeyID: keyID, OrgID: home}, nil
}

func (cachedKeyStore) Recall(secret string) (apikey.Identity, bool) {
	return apikey.Identity{KeyID: keyID, OrgID: home}, secret == "known"
}

// Only a launch proceeds with a pending key, and only without an Idempotency-Key.
func TestAuthorize_DefersCachedKeyCheckForLaunchOnly(t *testing.T) {
	for _, test := range []struct {
		operation, repeat string
		good              bool
		want              any // the caller, the pending key or the expected error
	}{
		{"authorizeLaunch", "", false, auth.PendingKey{KeyID: keyID, OrgID: home, Secret: "known"}},
		{"authorizeLaunch", "again", false, fault.Unauthenticated},
		{"authorizeLaunch", "again", true, auth.Caller{KeyID: keyID, OrgID: home}},
		{"startProfileSession", "", false, fault.Unauthenticated},
		{"startProfileSession", "", true, auth.Caller{KeyID: keyID, OrgID: home}},
	} {
		g, err := access.New(sessions{}, cachedKeyStore{test.good}, memberships{}, &url.URL{Scheme: "https", Host: "svc.example"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := g.Authenticators()["organizationKey"](request("POST", map[string]string{"X-API-Key": "known", "Idempotency-Key": test.repeat}))
		if err == nil {
			ctx, err = g.Authorize(ctx, oapi.Operation{ID: test.operation})
		}
		var got any
		switch {
		case fault.Is(err, fault.Unauthenticated):
			got = fault.Unauthenticated
		case err == nil:
			got = auth.CallerFrom(ctx)
			if key, pending := auth.PendingKeyFrom(ctx); pending {
				if got != (auth.Caller{}) {
					t.Errorf("%+v: the pending key has the caller %+v", test, got)
				}
				got = key
			}
		default:
			got = err
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test, diff)
		}
	}
}

func TestRejectInvalidKey_HidesOtherErrors(t *testing.T) {
	wrong := fault.New(fault.Validation, "wrong")
	for _, test := range []struct {
		pending string
		good    bool
		err     error
		want    fault.Kind // -1 for none
	}{
		{"known", false, wrong, fault.Unauthenticated},
		{"known", true, wrong, fault.Validation},
		{"", false, wrong, fault.Validation},
		{"known", false, nil, -1},
	} {
		g, err := access.New(sessions{}, cachedKeyStore{test.good}, memberships{}, &url.URL{Scheme: "https", Host: "svc.example"})
		if err != nil {
			t.Fatal(err)
		}
		handler := g.RejectInvalidKey(func(c echo.Context) error {
			r := c.Request()
			ctx := auth.WithCaller(r.Context(), auth.Caller{KeyID: keyID})
			if test.pending != "" {
				ctx = auth.WithPendingKey(ctx, auth.PendingKey{KeyID: keyID, Secret: test.pending})
			}
			c.SetRequest(r.WithContext(ctx))
			return test.err
		})
		err = handler(echo.New().NewContext(request("POST", nil), httptest.NewRecorder()))
		if test.want < 0 && err != nil || test.want >= 0 && !fault.Is(err, test.want) {
			t.Errorf("%+v: error %v", test, err)
		}
	}
}
