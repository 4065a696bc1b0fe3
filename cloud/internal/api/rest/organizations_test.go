package rest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestOrganizations_CreateListActivate(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := bearer(a.signUp("ada@example.com").Token)
	a.verify()
	r := a.do("POST", "/v1/organizations", me, map[string]any{"name": "Analytical Engines"})
	first := decode[cloudapi.Organization](t, r, 201)
	if got := r.header.Get("Location"); got != "/v1/organizations/"+first.Id.String() {
		t.Errorf("location %q", got)
	}
	if first.Slug != "analytical-engines" || first.Role != cloudapi.RoleOwner || !first.Active {
		t.Errorf("created %+v", first)
	}
	a.clock.Advance(time.Second)
	second := a.createOrg(me, "Analytical Engines")
	if !strings.HasPrefix(second.Slug, "analytical-engines-") {
		t.Errorf("the second slug is %q", second.Slug)
	}
	first.Active = false
	list := decode[cloudapi.OrganizationList](t, a.do("GET", "/v1/organizations", me, nil), 200)
	if diff := cmp.Diff([]cloudapi.Organization{second, first}, list.Items); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	got := decode[cloudapi.Organization](t, a.do("POST", "/v1/organizations/"+first.Id.String()+"/activate", me, nil), 200)
	first.Active, second.Active = true, false
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
	list = decode[cloudapi.OrganizationList](t,
		a.do("GET", "/v1/organizations?sortBy=createdAt&sortOrder=asc&limit=1&page=2", me, nil), 200)
	if diff := cmp.Diff([]cloudapi.Organization{second}, list.Items); diff != "" || list.Pagination.Total != 2 || list.Pagination.HasNext {
		t.Errorf("the second page, %+v (-want +got):\n%s", list.Pagination, diff)
	}
}

func TestCreateOrganization_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := bearer(a.signUp("ada@example.com").Token)
	a.verify()
	slug := a.createOrg(me, "Taken").Slug
	r := a.do("POST", "/v1/organizations", me, map[string]any{"name": "Other", "slug": slug})
	r.want(t, 409, "RESOURCE_CONFLICT")
	if diff := cmp.Diff([]string{"slug CUSTOM"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, slug := range []string{"x", "Upper", "-a", "a-", "a b"} {
		a.wrong("POST", "/v1/organizations", me, map[string]any{"name": "N", "slug": slug}).want(t, 400, "VALIDATION_ERROR")
	}
	list := decode[cloudapi.OrganizationList](t, a.do("GET", "/v1/organizations", me, nil), 200)
	if list.Pagination.Total != 1 {
		t.Errorf("%d organizations, want the first only", list.Pagination.Total)
	}
	a.wrong("GET", "/v1/organizations?sortBy=slug", me, nil).want(t, 400, "VALIDATION_ERROR")
}

func TestOrganizationOperations_RefuseNonMembers(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	owner := bearer(a.signUp("ada@example.com").Token)
	orgID := a.createOrg(owner, "Engines").Id
	keyID := a.createKey(owner, orgID, map[string]any{"name": "fleet"}).ApiKey.Id
	otherUser := bearer(a.signUp("eve@example.com").Token)
	a.createOrg(otherUser, "Elsewhere")
	operations := []string{
		"POST /v1/organizations/%s/activate", "GET /v1/organizations/%s/api-keys", "POST /v1/organizations/%s/api-keys",
		"DELETE /v1/organizations/%s/api-keys/" + keyID.String(),
	}
	var foreign, unknown []string
	each(operations, orgID, func(method, path string, body any) {
		r := a.do(method, path, otherUser, body)
		r.want(t, 404, "RESOURCE_NOT_FOUND")
		foreign = append(foreign, r.body)
	})
	each(operations, uuid.New(), func(method, path string, body any) {
		r := a.do(method, path, otherUser, body)
		r.want(t, 404, "RESOURCE_NOT_FOUND")
		unknown = append(unknown, r.body)
	})
	if diff := cmp.Diff(unknown, foreign); diff != "" {
		t.Errorf("the answers for a foreign and an unknown organization differ (-unknown +foreign):\n%s", diff)
	}
	each([]string{"POST /v1/organizations/nonsense/activate", "GET /v1/organizations/nonsense/api-keys"}, orgID,
		func(method, path string, body any) {
			a.wrong(method, path, owner, body).want(t, 400, "VALIDATION_ERROR")
		})
	keys := decode[cloudapi.ApiKeyList](t, a.do("GET", "/v1/organizations/"+orgID.String()+"/api-keys", owner, nil), 200)
	if len(keys.Items) != 1 {
		t.Errorf("got the keys %v, want one", keys.Items)
	}
}

func TestListAPIKeys_ForbiddenForMembers(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	orgID := a.createOrg(bearer(a.signUp("ada@example.com").Token), "Engines").Id
	managers := []string{"GET /v1/organizations/%s/api-keys", "POST /v1/organizations/%s/api-keys",
		"DELETE /v1/organizations/%s/api-keys/019a5f3e-5a07-7e44-8c61-90f3b1d2c403"}
	for role, allowed := range map[string]bool{"member": false, "admin": true} {
		session := a.signUp(role + "@example.com")
		a.join(orgID, session.User.Id, role)
		active := decode[cloudapi.Organization](t, a.do("POST", "/v1/organizations/"+orgID.String()+"/activate", bearer(session.Token), nil), 200)
		if string(active.Role) != role {
			t.Errorf("activated as %s, want %s", active.Role, role)
		}
		each(managers, orgID, func(method, path string, body any) {
			r := a.do(method, path, bearer(session.Token), body)
			if allowed == (r.status == 403) {
				t.Errorf("%s as %s: %s", method, role, r.body)
			}
			if !allowed {
				r.want(t, 403, "AUTHORIZATION_ERROR")
			}
		})
	}
}

// TestOrganizationOperations_UseActiveOrganization: most operations require that the
// organization is the active one. Reading and activating it do not.
func TestOrganizationOperations_UseActiveOrganization(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	a.verify()
	me := bearer(session.Token)
	first := a.createOrg(me, "Engines").Id
	second := a.createOrg(me, "Looms").Id // the active one
	path := "/v1/organizations/" + first.String()
	operations := []struct {
		method, path string
		body         any
	}{
		{"POST", "/api-keys", map[string]any{"name": "fleet"}},
		{"GET", "/api-keys", nil},
		{"PATCH", "", map[string]any{"name": "N"}},
		{"DELETE", "?confirmSlug=engines", nil},
		{"GET", "/members", nil},
		{"POST", "/members/invite", map[string]any{"email": "x@example.com", "role": "member"}},
		{"GET", "/invitations", nil},
		{"GET", "/connect", nil},
	}
	for _, op := range operations {
		r := a.do(op.method, path+op.path, me, op.body)
		r.want(t, 409, "RESOURCE_CONFLICT")
		if !strings.Contains(r.message, "The active organization is "+second.String()) || !slices.Equal(r.fields, []string{"organizationId CUSTOM"}) {
			t.Errorf("%s %s: %s", op.method, op.path, r.body)
		}
	}
	if got := decode[cloudapi.Organization](t, a.do("GET", path, me, nil), 200); got.Active {
		t.Error("reading an organization activated it")
	}
	a.do("POST", path+"/activate", me, nil).want(t, 200, "")
	a.createKey(me, first, map[string]any{"name": "fleet"})

	a.do("POST", "/v1/organizations/"+second.String()+"/activate", me, nil).want(t, 200, "")
	a.db.MustExec(`DELETE FROM memberships WHERE organization_id = $1`, second)
	for _, op := range operations {
		r := a.do(op.method, path+op.path, me, op.body)
		r.want(t, 400, "VALIDATION_ERROR")
		if !slices.Equal(r.fields, []string{"activeOrganizationId REQUIRED"}) {
			t.Errorf("%s %s: %s", op.method, op.path, r.body)
		}
	}
}

func TestActiveOrganization_ClearedWithMembership(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	me := bearer(session.Token)
	r := a.do("GET", "/v1/profiles/stats", me, nil)
	r.want(t, 400, "VALIDATION_ERROR")
	if !strings.HasPrefix(r.message, "No active organization") || !strings.Contains(r.body, `"details":[{"field":"activeOrganizationId","code":"REQUIRED"`) {
		t.Errorf("message %q, answer %s", r.message, r.body)
	}
	a.createOrg(me, "Engines")
	a.do("GET", "/v1/profiles/stats", me, nil).want(t, 200, "")
	a.db.MustExec(`DELETE FROM memberships`)
	a.do("GET", "/v1/profiles/stats", me, nil).want(t, 400, "VALIDATION_ERROR")
	got := decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", me, nil), 200)
	if got.ActiveOrganizationId != nil {
		t.Errorf("still active: %v", got.ActiveOrganizationId)
	}
}

func TestOrganization_GetAndRename(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	got := decode[cloudapi.Organization](t, a.do("GET", tm.path, tm.member.c, nil), 200)
	if got.Name != "Engines" || got.Slug != "engines" || got.Role != cloudapi.RoleMember || !got.Active {
		t.Errorf("read %+v", got)
	}
	got = decode[cloudapi.Organization](t, a.do("PATCH", tm.path, tm.owner.c, map[string]any{"name": "Difference"}), 200)
	if got.Name != "Difference" || got.Slug != "engines" || got.Role != cloudapi.RoleOwner || !got.Active {
		t.Errorf("renamed %+v", got)
	}
	got = decode[cloudapi.Organization](t, a.do("PATCH", tm.path, tm.admin.c, map[string]any{"slug": "difference"}), 200)
	if got.Name != "Difference" || got.Slug != "difference" {
		t.Errorf("renamed %+v", got)
	}
	a.wantRecorded("organization.updated", "organization.updated")
	slug := a.createOrg(tm.otherUser.c, "Taken").Slug
	r := a.do("PATCH", tm.path, tm.owner.c, map[string]any{"slug": slug})
	r.want(t, 409, "RESOURCE_CONFLICT")
	if diff := cmp.Diff([]string{"slug CUSTOM"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, body := range []map[string]any{{}, {"name": " "}, {"slug": "A"}, {"name": 1}, {"role": "owner"}} {
		a.wrong("PATCH", tm.path, tm.owner.c, body).want(t, 400, "VALIDATION_ERROR")
	}
}

func TestUpdateOrganization_ChangesNetworkRules(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	rules := map[string]any{"navigate": map[string]any{"allow": []any{"*.example.com"}}, "connect": map[string]any{"deny": []any{"10.0.0.0/8"}}}
	for _, step := range []struct {
		by   person
		body map[string]any
		want any
	}{
		{tm.owner, map[string]any{"network": rules}, rules},
		{tm.admin, map[string]any{"name": "Difference"}, rules},
		{tm.admin, map[string]any{"network": nil}, nil},
	} {
		for _, r := range []reply{a.do("PATCH", tm.path, step.by.c, step.body), a.do("GET", tm.path, tm.member.c, nil)} {
			if diff := cmp.Diff(step.want, decode[map[string]any](t, r, 200)["network"]); diff != "" {
				t.Errorf("%v (-want +got):\n%s", step.body, diff)
			}
		}
	}
	a.wantRecorded("organization.updated", "organization.updated", "organization.updated")
	a.do("PATCH", tm.path, tm.member.c, map[string]any{"network": rules}).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("PATCH", tm.path, tm.otherUser.c, map[string]any{"network": rules}).want(t, 404, "RESOURCE_NOT_FOUND")
	r := a.do("PATCH", tm.path, tm.owner.c, map[string]any{"network": map[string]any{"navigate": map[string]any{"deny": []any{"a b"}}}})
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"network.navigate.deny[0] INVALID_FORMAT"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	a.wrong("PATCH", tm.path, tm.owner.c, map[string]any{"network": map[string]any{"open": true}}).want(t, 400, "VALIDATION_ERROR")
	a.wantRecorded()
}

func TestDeleteOrganization_RemovesAccess(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	key := a.createKey(tm.owner.c, tm.id, map[string]any{"name": "fleet"}).Key
	a.do("POST", tm.path+"/activate", tm.member.c, nil).want(t, 200, "")
	a.do("GET", "/v1/profiles/stats", tm.member.c, nil).want(t, 200, "")
	a.do("DELETE", tm.path+"?confirmSlug=engines", tm.admin.c, nil).want(t, 403, "AUTHORIZATION_ERROR")
	r := a.do("DELETE", tm.path+"?confirmSlug=other", tm.owner.c, nil)
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"confirmSlug CUSTOM"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	a.wrong("DELETE", tm.path, tm.owner.c, nil).want(t, 400, "VALIDATION_ERROR")
	a.do("GET", tm.path, tm.owner.c, nil).want(t, 200, "")

	decode[cloudapi.Empty](t, a.do("DELETE", tm.path+"?confirmSlug=engines", tm.owner.c, nil), 200)
	if diff := cmp.Diff([]uuid.UUID{tm.id}, a.journal.ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 401, "AUTHENTICATION_ERROR")
	for _, p := range []person{tm.owner, tm.member} {
		a.do("GET", tm.path, p.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")
		a.do("GET", "/v1/profiles/stats", p.c, nil).want(t, 400, "VALIDATION_ERROR")
		session := decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", p.c, nil), 200)
		list := decode[cloudapi.OrganizationList](t, a.do("GET", "/v1/organizations", p.c, nil), 200)
		if session.ActiveOrganizationId != nil || list.Pagination.Total != 0 {
			t.Errorf("active %v, %d organizations; want none", session.ActiveOrganizationId, list.Pagination.Total)
		}
	}
}

// Two tabs of a browser share a session. The first tab shows an organization, and the
// second tab activates another one.
func TestActivateOrganization_RefusesRequestsOfOtherTab(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := cookie(a.signUp("ada@example.com").Token)
	a.verify()
	tabOrg := a.createOrg(me, "Shown").Id
	active := a.createOrg(me, "Active").Id
	tab := me.with("X-Svc-Organization", tabOrg.String())
	path := "/v1/organizations/" + active.String()
	for _, op := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/v1/profiles", map[string]any{"name": "Mine", "browserVersion": 156}},
		{"PATCH", path, map[string]any{"name": "Renamed"}},
		{"POST", path + "/api-keys", map[string]any{"name": "fleet"}},
		{"DELETE", path + "?confirmSlug=active", nil},
	} {
		r := a.do(op.method, op.path, tab, op.body)
		r.want(t, 409, "RESOURCE_CONFLICT")
		if !strings.Contains(r.message, "The active organization is "+active.String()) || !slices.Equal(r.fields, []string{"X-Svc-Organization CUSTOM"}) {
			t.Errorf("%s %s: %s", op.method, op.path, r.body)
		}
		a.do(op.method, op.path, me.with("X-Svc-Organization", "shown"), op.body).want(t, 400, "VALIDATION_ERROR")
	}
	if got := decode[cloudapi.Organization](t, a.do("GET", path, me, nil), 200); got.Name != "Active" {
		t.Errorf("a refused request renamed the organization to %s", got.Name)
	}
	if keys := decode[cloudapi.ApiKeyList](t, a.do("GET", path+"/api-keys", me, nil), 200); len(keys.Items) != 0 {
		t.Errorf("a refused request created %+v", keys.Items)
	}
	a.do("GET", "/v1/profiles/stats", me.with("X-Svc-Organization", active.String()), nil).want(t, 200, "")

	// The first tab can still read and activate its organization.
	a.do("GET", "/v1/auth/session", tab, nil).want(t, 200, "")
	a.do("GET", "/v1/organizations", tab, nil).want(t, 200, "")
	a.do("GET", "/v1/organizations/"+tabOrg.String(), tab, nil).want(t, 200, "")
	a.do("POST", "/v1/organizations/"+tabOrg.String()+"/activate", tab, nil).want(t, 200, "")
	a.do("GET", "/v1/profiles/stats", tab, nil).want(t, 200, "")
}
