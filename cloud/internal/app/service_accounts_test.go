package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

const accounts = "/v1/organizations/{organizationId}/service-accounts"

// createAccount creates the service account deployment with these scopes and returns its path.
func (c *tokenClient) createAccount(h *testEnv, scopes ...string) (id, path string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"name": "deployment", "scopes": scopes})
	if err != nil {
		c.t.Fatal(err)
	}
	var created struct{ Data struct{ ID string } }
	text := c.want(http.StatusCreated, h, c.user, "POST", accounts, string(body))
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.Data.ID == "" {
		c.t.Fatalf("error %v: %s", err, text)
	}
	return created.Data.ID, accounts + "/" + created.Data.ID
}

// wantPart fails the test if the text does not contain the part.
func (c *tokenClient) wantPart(text, part string) {
	c.t.Helper()
	if !strings.Contains(text, part) {
		c.t.Errorf("got %s, want %s", text, part)
	}
}

func TestServiceAccounts_EndAtOnceOnEveryReplica(t *testing.T) {
	first := newTestEnv(t, nil)
	replicas := []*testEnv{first}
	for range 2 {
		replicas = append(replicas, newTestEnv(t, map[string]string{"DATABASE_URL": first.dsn}))
	}
	c := newTokenClient(t, first, "admin")
	_, path := c.createAccount(first, "profiles:read")
	everywhere := func(status int, token string) {
		t.Helper()
		for _, h := range replicas {
			c.want(status, h, token, "GET", "/v1/profiles", "")
		}
	}
	revokedID, revoked := c.createAt(first, path+"/tokens", "revoked", "profiles:read")
	_, disabled := c.createAt(first, path+"/tokens", "disabled", "profiles:read")
	everywhere(http.StatusOK, revoked)
	everywhere(http.StatusOK, disabled)

	c.want(http.StatusOK, replicas[1], c.user, "DELETE", path+"/tokens/"+revokedID, "")
	everywhere(http.StatusUnauthorized, revoked)
	everywhere(http.StatusOK, disabled)
	c.want(http.StatusNotFound, first, c.user, "DELETE", path+"/tokens/"+revokedID, "")

	c.wantPart(c.want(http.StatusOK, replicas[2], c.user, "PATCH", path, `{"disabled": true}`), `"disabled":true`)
	everywhere(http.StatusUnauthorized, disabled)
	c.want(http.StatusConflict, first, c.user, "POST", path+"/tokens", `{"name": "late", "scopes": ["profiles:read"]}`)
	c.want(http.StatusOK, first, c.user, "PATCH", path, `{"disabled": false}`)
	everywhere(http.StatusUnauthorized, disabled) // enabling does not restore tokens
	_, deleted := c.createAt(first, path+"/tokens", "deleted", "profiles:read")
	everywhere(http.StatusOK, deleted)

	c.want(http.StatusOK, replicas[1], c.user, "DELETE", path, "")
	everywhere(http.StatusUnauthorized, deleted)
	c.want(http.StatusNotFound, first, c.user, "GET", path, "")
	c.want(http.StatusNotFound, first, c.user, "GET", path+"/tokens", "")
	c.want(http.StatusNotFound, first, c.user, "POST", path+"/tokens", `{"name": "late", "scopes": ["profiles:read"]}`)
}

// An account belongs to no person: it remains without the one who created it.
func TestServiceAccounts_OutlivePersonWhoCreatedThem(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "admin")
	owner := h.signIn(t, c.tenant, "owner")
	_, path := c.createAccount(h, "profiles:write")
	_, token := c.createAt(h, path+"/tokens", "production", "profiles:write")
	c.wantPart(c.want(http.StatusOK, h, owner, "GET", path, ""), `"createdBy":"`+c.tenant["adminId"]+`"`)

	c.want(http.StatusOK, h, owner, "DELETE", "/v1/organizations/{organizationId}/members/{adminId}", "")
	c.want(http.StatusOK, h, token, "GET", "/v1/profiles", "")
	c.want(http.StatusUnauthorized, h, c.tenant["token"]+"admin", "GET", "/v1/profiles", "") // the person's own token

	h.all.MustExec(c.fill(`DELETE FROM users WHERE id = '{adminId}'`))
	c.want(http.StatusCreated, h, token, "POST", "/v1/profiles", `{"name": "without a person", "browserVersion": 156}`)
	c.wantPart(c.want(http.StatusOK, h, owner, "GET", path, ""), `"createdBy":null`)
}

func TestServiceAccounts_LimitedToScopes(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	_, path := c.createAccount(h, "profiles:write", "sessions:read")
	for _, scope := range []string{"keys:write", "members:write", "billing:read"} {
		text := c.want(http.StatusBadRequest, h, c.user, "POST", path+"/tokens", `{"name": "x", "scopes": ["sessions:read", "`+scope+`"]}`)
		c.wantPart(text, "must be scopes of the service account: profiles:write, sessions:read")
	}
	_, reader := c.createAt(h, path+"/tokens", "reader", "profiles:read") // writing includes reading
	_, writer := c.createAt(h, path+"/tokens", "writer", "profiles:write", "sessions:read")
	const profile = `{"name": "by account", "browserVersion": 156}`
	c.want(http.StatusForbidden, h, reader, "POST", "/v1/profiles", profile)
	c.want(http.StatusCreated, h, writer, "POST", "/v1/profiles", profile)

	c.want(http.StatusOK, h, c.user, "PATCH", path, `{"scopes": ["profiles:read"]}`)
	c.want(http.StatusOK, h, reader, "GET", "/v1/profiles", "")
	c.want(http.StatusOK, h, writer, "GET", "/v1/profiles", "")
	c.wantPart(c.want(http.StatusForbidden, h, writer, "POST", "/v1/profiles", profile), "The service account does not have the scope profiles:write.")
	c.want(http.StatusForbidden, h, writer, "GET", "/v1/sessions", "")
	c.want(http.StatusOK, h, c.user, "PATCH", path, `{"scopes": ["profiles:write"]}`)
	c.want(http.StatusCreated, h, writer, "POST", "/v1/profiles", profile)
}

// Of two accounts with the same name and scopes, the one of another organization sees
// nothing.
func TestServiceAccounts_OfAnotherOrganization(t *testing.T) {
	h := newTestEnv(t, nil)
	c, other := newTokenClient(t, h, "owner"), newTokenClient(t, h, "owner")
	id, path := c.createAccount(h, tokenScopes...)
	tokenID, token := c.createAt(h, path+"/tokens", "production", tokenScopes...)
	otherID, otherPath := other.createAccount(h, tokenScopes...)
	_, foreign := other.createAt(h, otherPath+"/tokens", "production", tokenScopes...)
	for _, resource := range []string{"/v1/profiles/{profileId}", "/v1/sessions/{pastId}", "/v1/organizations/{organizationId}/api-keys", "/v1/organizations/{organizationId}/members"} {
		c.want(http.StatusOK, h, token, "GET", resource, "")
		c.want(http.StatusNotFound, h, foreign, "GET", resource, "")
	}
	for _, base := range []string{path, accounts + "/" + id} { // below both organizations
		ask := c.want
		if base != path {
			ask = other.want
		}
		ask(http.StatusNotFound, h, other.user, "GET", base, "")
		ask(http.StatusNotFound, h, other.user, "PATCH", base, `{"disabled": true}`)
		ask(http.StatusNotFound, h, other.user, "DELETE", base, "")
		ask(http.StatusNotFound, h, other.user, "GET", base+"/tokens", "")
		ask(http.StatusNotFound, h, other.user, "POST", base+"/tokens", `{"name": "stolen", "scopes": ["profiles:read"]}`)
		ask(http.StatusNotFound, h, other.user, "DELETE", base+"/tokens/"+tokenID, "")
	}
	other.want(http.StatusNotFound, h, other.user, "DELETE", otherPath+"/tokens/"+tokenID, "") // its own account, the other's token
	if text := other.want(http.StatusOK, h, other.user, "GET", accounts, ""); strings.Contains(text, id) || !strings.Contains(text, otherID) {
		t.Errorf("the list of another organization: %s", text)
	}
	c.want(http.StatusOK, h, token, "GET", "/v1/profiles", "")
}

// The actor of a change is the account, with the token that it used.
func TestServiceAccounts_InAuditLog(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	id, path := c.createAccount(h, "profiles:write", "members:write", "keys:write")
	tokenID, token := c.createAt(h, path+"/tokens", "production", "profiles:write", "members:write", "keys:write")
	began := time.Now()
	c.want(http.StatusCreated, h, token, "POST", "/v1/profiles", `{"name": "by account", "browserVersion": 156}`)
	c.want(http.StatusCreated, h, token, "POST", "/v1/organizations/{organizationId}/api-keys", `{"name": "by account"}`)
	c.want(http.StatusCreated, h, token, "POST", "/v1/organizations/{organizationId}/members/invite", `{"email": "guest-of-{mark}@example.com", "role": "member"}`)
	c.want(http.StatusForbidden, h, token, "POST", "/v1/organizations/{organizationId}/members/invite", `{"email": "chief-{mark}@example.com", "role": "admin"}`)
	c.want(http.StatusOK, h, token, "DELETE", "/v1/organizations/{organizationId}/members/{otherId}", "")
	c.want(http.StatusForbidden, h, token, "DELETE", "/v1/organizations/{organizationId}/members/{adminId}", "")
	answerText := c.want(http.StatusOK, h, c.user, "GET", path, "")
	var account struct {
		Data struct{ LastUsedAt *time.Time }
	}
	if err := json.Unmarshal([]byte(answerText), &account); err != nil || account.Data.LastUsedAt == nil || account.Data.LastUsedAt.Before(began.Add(-time.Second)) {
		t.Errorf("error %v, last use in %s", err, answerText)
	}
	c.want(http.StatusOK, h, c.user, "DELETE", path, "")

	type event struct {
		Action  string
		Actor   struct{ Type, ID, Name string }
		Details struct {
			Name, Reason, ServiceAccount string
			AccessToken                  struct{ ID, Name string }
		}
	}
	var answer struct{ Data struct{ Items []event } }
	text := c.want(http.StatusOK, h, c.user, "GET", "/v1/audit-events?sortOrder=asc&actorId="+id, "")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range answer.Data.Items {
		actions = append(actions, e.Action)
		if e.Actor.Type != "serviceAccount" || e.Actor.Name != "deployment" || e.Details.AccessToken.ID != tokenID || e.Details.AccessToken.Name != "production" {
			t.Errorf("event %+v", e)
		}
	}
	if got := strings.Join(actions, " "); got != "profile.created apiKey.created invitation.created member.removed" {
		t.Errorf("the account did %s", got)
	}
	text = c.want(http.StatusOK, h, c.user, "GET", "/v1/audit-events?targetId="+tokenID, "")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	for _, e := range answer.Data.Items {
		if e.Actor.Type != "user" || e.Details.ServiceAccount != "deployment" || e.Action == "accessToken.revoked" && e.Details.Reason != "serviceAccountDeleted" {
			t.Errorf("event %+v", e)
		}
	}
}

func TestServiceAccounts_RefusedAtLimit(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	_, path := c.createAccount(h, "profiles:read")
	const again, token = `{"name": "deployment", "scopes": ["profiles:read"]}`, `{"name": "x", "scopes": ["profiles:read"]}`
	c.want(http.StatusConflict, h, c.user, "POST", accounts, again)
	c.want(http.StatusConflict, h, c.user, "PATCH", path, c.fill(`{"name": "robot-{mark}"}`))
	h.all.MustExec(c.fill(`INSERT INTO service_accounts (id, organization_id, name, scopes, created_at)
		SELECT gen_random_uuid(), '{organizationId}', 'account ' || i, '{keys:write}', now() FROM generate_series(3, 50) AS i`))
	c.wantPart(c.want(http.StatusForbidden, h, c.user, "POST", accounts, token), `"constraint":{"current":50,"limit":50}`)
	for range 50 {
		c.want(http.StatusCreated, h, c.user, "POST", path+"/tokens", token)
	}
	c.wantPart(c.want(http.StatusForbidden, h, c.user, "POST", path+"/tokens", token), `"constraint":{"current":50,"limit":50}`)
	c.want(http.StatusOK, h, c.user, "DELETE", path, "")
	c.want(http.StatusCreated, h, c.user, "POST", accounts, again)
}
