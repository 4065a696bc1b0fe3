package access_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// tokenCaller returns the caller of an access token of the organization home.
func tokenCaller(scopes ...string) auth.Caller {
	return auth.Caller{UserID: userID, ActiveOrgID: home, Token: &auth.AccessToken{
		ID: keyID, OrgID: home, UserID: userID, Name: "deployment", Scopes: scopes,
	}}
}

// accountCaller returns the caller of an access token of a service account of the
// organization home.
func accountCaller(account []string, token ...string) auth.Caller {
	c := tokenCaller(token...)
	c.UserID, c.Token.UserID, c.Token.ServiceAccountID = uuid.Nil, uuid.Nil, userID
	c.ServiceAccount = &auth.ServiceAccount{ID: userID, OrgID: home, Name: "deployment", Scopes: account}
	return c
}

func TestAuthorize_RequiresScopeOfAccessToken(t *testing.T) {
	const closed = "Access tokens are not allowed for this operation. Use a dashboard session."
	missing := func(scope string) string { return "The access token does not have the scope " + scope + "." }
	all := []string{"profiles:read", "profiles:write", "sessions:read", "keys:write", "members:write", "billing:read"}
	for _, test := range []struct {
		name   string
		caller auth.Caller
		scope  string // of the operation
		want   string // the message of the refusal, or ""
	}{
		{"the scope", tokenCaller("profiles:read"), "profiles:read", ""},
		{"one of two scopes", tokenCaller("sessions:read", "keys:write"), "keys:write", ""},
		{"writing includes reading", tokenCaller("profiles:write"), "profiles:read", ""},
		{"reading excludes writing", tokenCaller("profiles:read"), "profiles:write", missing("profiles:write")},
		{"another resource", tokenCaller("profiles:write"), "sessions:read", missing("sessions:read")},
		{"no scope of the operation", tokenCaller(all...), "", closed},
		{"no scope of the token", tokenCaller(), "billing:read", missing("billing:read")},
		{"a service account", accountCaller(all, "keys:write"), "keys:write", ""},
		{"a service account, writing includes reading", accountCaller([]string{"profiles:write"}, "profiles:read"), "profiles:read", ""},
		{"a service account without the scope", accountCaller([]string{"profiles:read"}, all...), "profiles:write", "The service account does not have the scope profiles:write."},
		{"a token without the scope of its service account", accountCaller(all, "profiles:read"), "keys:write", missing("keys:write")},
		{"a service account, no scope of the operation", accountCaller(all, all...), "", closed},
		{"a dashboard session", auth.Caller{UserID: userID, ActiveOrgID: home}, "", ""},
	} {
		for _, roles := range [][]string{nil, {"owner", "admin"}} {
			ctx := auth.WithCaller(t.Context(), test.caller)
			_, err := newAuthorizer(t, memberships{home: "owner"}).Authorize(ctx, oapi.Operation{Scope: test.scope, Roles: roles})
			if test.want == "" && err != nil {
				t.Errorf("%s, roles %v: error %v", test.name, roles, err)
			}
			if got := fault.From(err); test.want != "" && (err == nil || got.Kind != fault.Forbidden || got.Message != test.want) {
				t.Errorf("%s, roles %v: error %v, want %q", test.name, roles, err, test.want)
			}
		}
	}
}

// The user is an owner of both organizations, but the token belongs to one.
func TestAuthorize_AccessTokenActsForItsOrganizationOnly(t *testing.T) {
	g := newAuthorizer(t, memberships{home: "owner", second: "owner"})
	ctx := auth.WithCaller(t.Context(), tokenCaller("members:write"))
	for id, kind := range map[uuid.UUID]fault.Kind{home: -1, second: fault.NotFound, other: fault.NotFound} {
		for _, anyOrganization := range []bool{false, true} {
			got, err := g.Authorize(ctx, oapi.Operation{
				Scope: "members:write", Roles: []string{"owner"}, AnyOrganization: anyOrganization,
				Params: map[string]string{"organizationId": id.String()},
			})
			if kind >= 0 && !fault.Is(err, kind) || kind < 0 && (err != nil || auth.CallerFrom(got).OrgID != home) {
				t.Errorf("in %s, any organization %t: error %v", id, anyOrganization, err)
			}
		}
	}
}

// A token has at most the rights of its user at the time of the request.
func TestAuthorize_AccessTokenRequiresRoleOfUser(t *testing.T) {
	roles := memberships{home: "admin"}
	g := newAuthorizer(t, roles)
	ctx := auth.WithCaller(t.Context(), tokenCaller("keys:write"))
	op := oapi.Operation{Scope: "keys:write", Roles: []string{"owner", "admin"}}
	if _, err := g.Authorize(ctx, op); err != nil {
		t.Errorf("an admin: error %v", err)
	}
	roles[home] = "member"
	if _, err := g.Authorize(ctx, op); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a member: error %v, want Forbidden", err)
	}
	roles[home] = ""
	if _, err := g.Authorize(ctx, op); !fault.Is(err, fault.Validation) {
		t.Errorf("a removed member: error %v, want Validation", err)
	}
}

// A service account is no member. It has the role of an admin in its organization only.
func TestAuthorize_ServiceAccountActsAsAdmin(t *testing.T) {
	g := newAuthorizer(t, memberships{})
	ctx := auth.WithCaller(t.Context(), accountCaller([]string{"members:write"}, "members:write"))
	for _, test := range []struct {
		organization uuid.UUID
		roles        []string
		want         fault.Kind // -1 for success
	}{
		{home, []string{"owner", "admin"}, -1},
		{home, []string{"owner"}, fault.Forbidden},
		{second, []string{"owner", "admin"}, fault.NotFound},
	} {
		got, err := g.Authorize(ctx, oapi.Operation{Scope: "members:write", Roles: test.roles, Params: map[string]string{"organizationId": test.organization.String()}})
		if test.want >= 0 && !fault.Is(err, test.want) || test.want < 0 && (err != nil || auth.CallerFrom(got).Role != auth.Admin || auth.CallerFrom(got).OrgID != home) {
			t.Errorf("%v: error %v", test, err)
		}
	}
}
