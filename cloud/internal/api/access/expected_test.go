package access_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/access"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// expecting authenticates and authorizes a request with these values of
// X-Svc-Organization. The active organization is home.
func expecting(t *testing.T, g *access.Authorizer, scheme string, op oapi.Operation, values ...string) (auth.Caller, error) {
	t.Helper()
	r := request("GET", map[string]string{"Cookie": "svc_session=good", "Authorization": "Bearer good", "X-API-Key": "good"})
	if len(values) > 0 {
		r.Header[http.CanonicalHeaderKey("X-Svc-Organization")] = values
	}
	ctx, err := g.Authenticators()[scheme](r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err = g.Authorize(ctx, op)
	if err != nil {
		return auth.Caller{}, err
	}
	return auth.CallerFrom(ctx), nil
}

func TestAuthorize_RefusesUnexpectedActiveOrganization(t *testing.T) {
	op := oapi.Operation{Roles: []string{"owner"}}
	conflict := []fault.Detail{{
		Field: "X-Svc-Organization", Code: fault.Custom, Received: second,
		Message:    "This is not the active organization. Activate it, or send the id of the active organization.",
		Constraint: map[string]any{"activeOrganizationId": home},
	}}
	malformed := func(text string) []fault.Detail {
		return []fault.Detail{{
			Field: "X-Svc-Organization", Code: fault.InvalidFormat, Received: text, Constraint: map[string]any{"format": "uuid"},
			Message: "must be the id of one organization, such as 019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02",
		}}
	}
	for _, test := range []struct {
		name   string
		values []string
		kind   fault.Kind // -1 for success
		want   []fault.Detail
	}{
		{"no header", nil, -1, nil},
		{"the active organization", []string{home.String()}, -1, nil},
		{"the active organization in upper case", []string{strings.ToUpper(home.String())}, -1, nil},
		{"another organization", []string{second.String()}, fault.Conflict, conflict},
		{"an empty header", []string{""}, fault.Validation, malformed("")},
		{"a name", []string{"home"}, fault.Validation, malformed("home")},
		{"another notation", []string{"{" + home.String() + "}"}, fault.Validation, malformed("{" + home.String() + "}")},
		{"without hyphens", []string{strings.ReplaceAll(home.String(), "-", "")}, fault.Validation, malformed(strings.ReplaceAll(home.String(), "-", ""))},
		{"two headers", []string{home.String(), home.String()}, fault.Validation, malformed(home.String() + ", " + home.String())},
	} {
		for _, scheme := range []string{"dashboardSession", "dashboardBearer"} {
			g := newAuthorizer(t, memberships{home: "owner", second: "owner"})
			counts := &requests{counted: map[uuid.UUID]int{}}
			g.Requests = counts
			caller, err := expecting(t, g, scheme, op, test.values...)
			if test.kind < 0 {
				if err != nil || caller.OrgID != home {
					t.Errorf("%s, %s: error %v, caller %+v", test.name, scheme, err, caller)
				}
				continue
			}
			got := fault.From(err)
			if err == nil || got.Kind != test.kind || len(counts.counted) > 0 {
				t.Errorf("%s, %s: error %v, counted %v", test.name, scheme, err, counts.counted)
				continue
			}
			if diff := cmp.Diff(test.want, got.Details); diff != "" {
				t.Errorf("%s, %s: details (-want +got):\n%s", test.name, scheme, diff)
			}
			if test.kind == fault.Conflict && !strings.Contains(got.Message, home.String()) {
				t.Errorf("%s: message %q", test.name, got.Message)
			}
		}
	}
}

func TestAuthorize_ExpectedOrganizationPrecedesOtherRefusals(t *testing.T) {
	g := newAuthorizer(t, memberships{home: "member", second: "owner"})
	for name, op := range map[string]oapi.Operation{
		"role too low":         {Roles: []string{"owner"}},
		"another organization": {Roles: []string{"member"}, Params: map[string]string{"organizationId": second.String()}},
		"not a member":         {Roles: []string{"member"}, Params: map[string]string{"organizationId": other.String()}},
	} {
		_, err := expecting(t, g, "dashboardSession", op, second.String())
		if got := fault.From(err); err == nil || got.Kind != fault.Conflict || got.Details[0].Field != "X-Svc-Organization" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A caller who is no longer a member of the active organization learns only that.
func TestAuthorize_ExpectedOrganizationRequiresActiveOrganization(t *testing.T) {
	_, err := expecting(t, newAuthorizer(t, memberships{second: "owner"}), "dashboardSession", oapi.Operation{Roles: []string{"owner"}}, second.String())
	if got := fault.From(err); err == nil || got.Kind != fault.Validation || got.Details[0].Field != "activeOrganizationId" {
		t.Errorf("error %v", err)
	}
}

func TestAuthorize_IgnoresExpectedOrganizationElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		scheme string
		op     oapi.Operation
	}{
		"no organization":  {"dashboardSession", oapi.Operation{ID: "listOrganizations"}},
		"any organization": {"dashboardSession", oapi.Operation{ID: "activateOrganization", Roles: []string{"owner"}, Params: map[string]string{"organizationId": second.String()}, AnyOrganization: true}},
		"a key":            {"organizationKey", oapi.Operation{ID: "listMachines", Roles: []string{"owner"}}},
	} {
		for _, value := range []string{second.String(), other.String(), "nonsense"} {
			if _, err := expecting(t, newAuthorizer(t, memberships{home: "owner", second: "owner"}), test.scheme, test.op, value); err != nil {
				t.Errorf("%s, %s: error %v", name, value, err)
			}
		}
	}
}
