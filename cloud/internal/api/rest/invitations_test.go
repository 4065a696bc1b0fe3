package rest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestInvitation_InviteToMembership(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	r := a.do("POST", tm.path+"/members/invite", tm.admin.c, map[string]any{"email": "New@Example.com", "role": "member"})
	created := decode[cloudapi.Invitation](t, r, 201)
	if got := r.header.Get("Location"); got != tm.path+"/invitations/"+created.Id.String() {
		t.Errorf("location %q", got)
	}
	token := a.outbox.token(t, "new@example.com")
	if strings.Contains(r.body, token) {
		t.Errorf("the answer contains the token: %s", r.body)
	}
	now := a.clock.Now()
	want := cloudapi.Invitation{Id: created.Id, Email: "new@example.com", Role: cloudapi.RoleMember, InvitedBy: &tm.admin.id,
		CreatedAt: now, ExpiresAt: now.Add(7 * 24 * time.Hour)}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("invitation (-want +got):\n%s", diff)
	}
	list := decode[cloudapi.InvitationList](t, a.do("GET", tm.path+"/invitations?sortBy=expiresAt", tm.admin.c, nil), 200)
	if diff := cmp.Diff([]cloudapi.Invitation{want}, list.Items); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	newcomer := a.person("new")
	joined := decode[cloudapi.Organization](t,
		a.do("POST", "/v1/invitations/accept", newcomer.c, map[string]any{"token": token}), 200)
	if joined.Id != tm.id || joined.Role != cloudapi.RoleMember || joined.Active || joined.Slug != "engines" {
		t.Errorf("joined %+v", joined)
	}
	a.do("GET", tm.path, newcomer.c, nil).want(t, 200, "")
	list = decode[cloudapi.InvitationList](t, a.do("GET", tm.path+"/invitations", tm.admin.c, nil), 200)
	if len(list.Items) != 0 {
		t.Errorf("still listed: %+v", list.Items)
	}
	a.wantRecorded("invitation.created", "member.joined")
}

func TestAcceptInvitation_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	newcomer := a.person("new")
	accept := func(p person, token string) reply {
		t.Helper()
		return a.do("POST", "/v1/invitations/accept", p.c, map[string]any{"token": token})
	}
	messages := map[string]string{}
	refused := func(what string, r reply, status int, code string) {
		t.Helper()
		r.want(t, status, code)
		if other, ok := messages[r.message]; ok {
			t.Errorf("%s and %s have the same message %q", what, other, r.message)
		}
		messages[r.message] = what
	}
	_, token := a.invite(tm, "new@example.com", "member")
	a.do("POST", "/v1/invitations/accept", nil, map[string]any{"token": token}).want(t, 401, "AUTHENTICATION_ERROR")
	refused("another user", accept(tm.otherUser, token), 403, "AUTHORIZATION_ERROR")
	a.db.MustExec(`UPDATE users SET email_verified_at = NULL WHERE id = $1`, newcomer.id)
	refused("an address that is not verified", accept(newcomer, token), 403, "AUTHORIZATION_ERROR")
	a.db.MustExec(`UPDATE users SET email_verified_at = now()`)
	a.limitMembers(tm.id, 3)
	full := accept(newcomer, token)
	refused("a full organization", full, 403, "AUTHORIZATION_ERROR")
	if diff := cmp.Diff([]string{"memberLimit CUSTOM"}, full.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	a.limitMembers(tm.id, 10)
	accept(newcomer, token).want(t, 200, "")
	refused("a used one", accept(newcomer, token), 409, "RESOURCE_CONFLICT")
	refused("an unknown one", accept(newcomer, strings.Repeat("a", 43)), 404, "RESOURCE_NOT_FOUND")

	other := a.person("other")
	revoked, token := a.invite(tm, "other@example.com", "member")
	decode[cloudapi.Empty](t, a.do("DELETE", tm.path+"/invitations/"+revoked.Id.String(), tm.admin.c, nil), 200)
	refused("a revoked one", accept(other, token), 409, "RESOURCE_CONFLICT")
	_, token = a.invite(tm, "other@example.com", "member")
	a.db.MustExec(`UPDATE invitations SET expires_at = $1 WHERE outcome IS NULL`, a.clock.Now())
	refused("an expired one", accept(other, token), 409, "RESOURCE_CONFLICT")

	for _, token := range []any{"", "short", strings.Repeat("!", 43), nil, 5} {
		r := a.wrong("POST", "/v1/invitations/accept", other.c, map[string]any{"token": token})
		r.want(t, 400, "VALIDATION_ERROR")
		if strings.Contains(r.body, "received") {
			t.Errorf("the answer contains the token: %s", r.body)
		}
	}
}

// TestInviteMember_DoesNotRevealAccounts compares complete answers.
func TestInviteMember_DoesNotRevealAccounts(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	var bodies []string
	for _, email := range []string{"unknown@example.com", "someone1@example.com"} {
		r := a.do("POST", tm.path+"/members/invite", tm.owner.c, map[string]any{"email": email, "role": "member"})
		created := decode[cloudapi.Invitation](t, r, 201)
		bodies = append(bodies, strings.NewReplacer(email, "E", created.Id.String(), "I").Replace(r.body))
		again := a.do("POST", tm.path+"/members/invite", tm.owner.c, map[string]any{"email": email, "role": "member"})
		again.want(t, 409, "RESOURCE_CONFLICT")
		bodies = append(bodies, strings.ReplaceAll(again.body, email, "E"))
	}
	if diff := cmp.Diff(bodies[:2], bodies[2:]); diff != "" {
		t.Errorf("the answers differ (-known +unknown):\n%s", diff)
	}
}

func TestInviteMember_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	path := tm.path + "/members/invite"
	invite := func(p person, email, role string) reply {
		t.Helper()
		return a.do("POST", path, p.c, map[string]any{"email": email, "role": role})
	}
	invite(tm.admin, "x@example.com", "admin").want(t, 403, "AUTHORIZATION_ERROR")
	invite(tm.member, "x@example.com", "member").want(t, 403, "AUTHORIZATION_ERROR")
	invite(tm.owner, "Member@example.com", "member").want(t, 409, "RESOURCE_CONFLICT")
	a.limitMembers(tm.id, 3)
	full := invite(tm.owner, "x@example.com", "member")
	full.want(t, 403, "AUTHORIZATION_ERROR")
	if !strings.Contains(full.body, `"field":"memberLimit","code":"CUSTOM"`) || !strings.Contains(full.body, `"constraint":{"current":3,"limit":3}`) {
		t.Errorf("body %s", full.body)
	}
	for _, body := range []map[string]any{{}, {"email": "x@example.com"}, {"email": "nobody", "role": "member"},
		{"email": "x@example.com", "role": "boss"}, {"email": "x@example.com", "role": "member", "name": "X"}} {
		a.wrong("POST", path, tm.owner.c, body).want(t, 400, "VALIDATION_ERROR")
	}
	a.wantRecorded()
}

func TestRevokeInvitation_Permissions(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	admin, _ := a.invite(tm, "a@example.com", "admin")
	plain, _ := a.invite(tm, "m@example.com", "member")
	address := func(id uuid.UUID) string { return tm.path + "/invitations/" + id.String() }
	a.do("DELETE", address(admin.Id), tm.admin.c, nil).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("DELETE", address(plain.Id), tm.admin.c, nil).want(t, 200, "")
	a.do("DELETE", address(plain.Id), tm.admin.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.do("DELETE", address(uuid.New()), tm.owner.c, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.wrong("DELETE", tm.path+"/invitations/nonsense", tm.owner.c, nil).want(t, 400, "VALIDATION_ERROR")
	a.do("DELETE", address(admin.Id), tm.owner.c, nil).want(t, 200, "")
}
