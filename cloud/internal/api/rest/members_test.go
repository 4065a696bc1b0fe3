package rest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestListMembers_AllowedForEveryMember(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	for query, want := range map[string][]string{
		"":                            {"member", "admin", "owner"},
		"?sortBy=name&sortOrder=asc":  {"admin", "member", "owner"},
		"?sortBy=role&sortOrder=desc": {"owner", "admin", "member"},
		"?sortBy=email&sortOrder=asc&page=2&limit=2": {"owner"},
		"?search=MEM":              {"member"},
		"?role=admin":              {"admin"},
		"?role=admin&search=owner": nil,
	} {
		list := decode[cloudapi.MemberList](t, a.do("GET", tm.path+"/members"+query, tm.member.c, nil), 200)
		var names []string
		for _, m := range list.Items {
			names = append(names, m.Name)
			if string(m.Email) != m.Name+"@example.com" || string(m.Role) != m.Name {
				t.Errorf("member %+v", m)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?sortBy=id", "?role=boss", "?search=", "?unknown=1"} {
		a.wrong("GET", tm.path+"/members"+query, tm.member.c, nil).want(t, 400, "VALIDATION_ERROR")
	}
}

func TestUpdateMember_Permissions(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	address := func(p person) string { return tm.path + "/members/" + p.id.String() }
	role := func(name string) map[string]any { return map[string]any{"role": name} }

	got := decode[cloudapi.Member](t, a.do("PATCH", address(tm.member), tm.owner.c, role("admin")), 200)
	if got.Role != cloudapi.RoleAdmin || got.Id != tm.member.id || got.Name != "member" {
		t.Errorf("changed to %+v", got)
	}
	a.wantRecorded("member.roleChanged")
	a.do("PATCH", address(tm.member), tm.admin.c, role("member")).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("PATCH", address(tm.member), tm.owner.c, role("member")).want(t, 200, "")
	a.do("PATCH", address(tm.member), tm.admin.c, role("admin")).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("PATCH", address(tm.member), tm.member.c, role("admin")).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("PATCH", address(tm.owner), tm.owner.c, role("admin")).want(t, 409, "RESOURCE_CONFLICT")
	a.do("PATCH", address(tm.otherUser), tm.owner.c, role("admin")).want(t, 404, "RESOURCE_NOT_FOUND")
	for _, body := range []map[string]any{{}, {"role": "boss"}, {"role": 1}, {"role": "admin", "name": "x"}} {
		a.wrong("PATCH", address(tm.member), tm.owner.c, body).want(t, 400, "VALIDATION_ERROR")
	}
}

func TestDeleteMember(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	address := func(p person) string { return tm.path + "/members/" + p.id.String() }
	key := a.createKey(tm.admin.c, tm.id, map[string]any{"name": "fleet"})
	a.journal.actions = nil

	a.do("DELETE", address(tm.admin), tm.member.c, nil).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("DELETE", address(tm.owner), tm.admin.c, nil).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("DELETE", address(tm.owner), tm.owner.c, nil).want(t, 409, "RESOURCE_CONFLICT")
	a.do("DELETE", address(tm.otherUser), tm.owner.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")

	decode[cloudapi.Empty](t, a.do("DELETE", address(tm.member), tm.member.c, nil), 200)
	a.do("GET", tm.path, tm.member.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	decode[cloudapi.Empty](t, a.do("DELETE", address(tm.admin), tm.owner.c, nil), 200)
	a.do("GET", tm.path+"/members", tm.admin.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.wantRecorded("member.left", "member.removed")
	a.do("GET", "/v1/license/sessions", apiKey(key.Key), nil).want(t, 200, "")
}

// TestMembersAndInvitations_RefuseNonMembers: for users who are not members, an
// existing organization gets the same answer as an unknown one.
func TestMembersAndInvitations_RefuseNonMembers(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	invited, _ := a.invite(tm, "new@example.com", "member")
	key := a.createKey(tm.owner.c, tm.id, map[string]any{"name": "fleet"}).ApiKey.Id.String()
	operations := []struct {
		method, path string
		body         any
	}{
		{"GET", "", nil},
		{"PATCH", "", map[string]any{"name": "N"}},
		{"DELETE", "?confirmSlug=engines", nil},
		{"GET", "/members", nil},
		{"PATCH", "/members/" + tm.member.id.String(), map[string]any{"role": "admin"}},
		{"DELETE", "/members/" + tm.member.id.String(), nil},
		{"POST", "/members/invite", map[string]any{"email": "x@example.com", "role": "member"}},
		{"GET", "/invitations", nil},
		{"DELETE", "/invitations/" + invited.Id.String(), nil},
		{"PATCH", "/api-keys/" + key, map[string]any{"name": "N"}},
		{"POST", "/api-keys/" + key + "/rotate", map[string]any{}},
		{"GET", "/connect", nil},
	}
	for _, op := range operations {
		foreign := a.do(op.method, tm.path+op.path, tm.otherUser.c, op.body)
		unknown := a.do(op.method, "/v1/organizations/"+uuid.NewString()+op.path, tm.otherUser.c, op.body)
		foreign.want(t, 404, "RESOURCE_NOT_FOUND")
		if foreign.status != unknown.status || foreign.body != unknown.body {
			t.Errorf("%s %s: got %d %s, want the answer for an unknown organization: %d %s", op.method, op.path, foreign.status, foreign.body, unknown.status, unknown.body)
		}
		a.do(op.method, tm.path+op.path, nil, op.body).want(t, 401, "AUTHENTICATION_ERROR")
	}
	for _, op := range operations { // operations for managers only
		leaves := op.method == "DELETE" && op.path == "/members/"+tm.member.id.String()
		if op.method != "GET" && !leaves || op.path == "/invitations" {
			a.do(op.method, tm.path+op.path, tm.member.c, op.body).want(t, 403, "AUTHORIZATION_ERROR")
		}
	}
}
