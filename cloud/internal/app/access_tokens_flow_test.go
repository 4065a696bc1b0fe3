package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// tokenClient sends requests of a user and of its access tokens, to any replica.
type tokenClient struct {
	t *testing.T
	tenant
	user string // the token of a dashboard session
}

func newTokenClient(t *testing.T, h *testEnv, user string) *tokenClient {
	t.Helper()
	c := &tokenClient{t: t, tenant: newTenant(cheapHash(t))}
	h.all.MustExec(c.fill(accessSQL))
	c.user = h.signIn(t, c.tenant, user)
	return c
}

// ask returns the status and the body of the answer to a request with a Bearer token.
func (c *tokenClient) ask(h *testEnv, bearer, method, path, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, h.url+c.fill(path), strings.NewReader(c.fill(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json"}}
	a := &call{t: c.t, client: http.DefaultClient, op: operation{method: method}}
	got := a.send(r)
	return got.status, got.body
}

// want fails the test if the answer has another status.
func (c *tokenClient) want(status int, h *testEnv, bearer, method, path, body string) string {
	c.t.Helper()
	got, text := c.ask(h, bearer, method, path, body)
	if got != status {
		c.t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// create creates an access token with these scopes.
func (c *tokenClient) create(h *testEnv, name string, scopes ...string) (id, token string) {
	c.t.Helper()
	return c.createAt(h, "/v1/auth/tokens", name, scopes...)
}

// createAt creates an access token of the user or of a service account.
func (c *tokenClient) createAt(h *testEnv, path, name string, scopes ...string) (id, token string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"name": name, "scopes": scopes})
	if err != nil {
		c.t.Fatal(err)
	}
	var created struct {
		Data struct {
			Token       string
			AccessToken struct{ ID string }
		}
	}
	text := c.want(http.StatusCreated, h, c.user, "POST", path, string(body))
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.Data.Token == "" {
		c.t.Fatalf("error %v: %s", err, text)
	}
	return created.Data.AccessToken.ID, created.Data.Token
}

func TestAccessTokens_RevokedAtOnceOnEveryReplica(t *testing.T) {
	first := newTestEnv(t, nil)
	replicas := []*testEnv{first}
	for range 2 {
		replicas = append(replicas, newTestEnv(t, map[string]string{"DATABASE_URL": first.dsn}))
	}
	c := newTokenClient(t, first, "owner")
	id, token := c.create(first, "deployment", "profiles:read")
	for _, h := range replicas {
		c.want(http.StatusOK, h, token, "GET", "/v1/profiles", "")
	}
	c.want(http.StatusNotFound, first, first.signIn(t, c.tenant, "admin"), "DELETE", "/v1/auth/tokens/"+id, "")
	c.want(http.StatusOK, replicas[1], c.user, "DELETE", "/v1/auth/tokens/"+id, "")
	for _, h := range replicas {
		if text := c.want(http.StatusUnauthorized, h, token, "GET", "/v1/profiles", ""); !strings.Contains(text, "The access token is invalid, revoked or expired.") {
			t.Errorf("answer %s", text)
		}
	}
	c.want(http.StatusNotFound, first, c.user, "DELETE", "/v1/auth/tokens/"+id, "")
}

func TestAccessTokens_FollowRoleAndMembership(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "admin")
	owner := h.signIn(t, c.tenant, "owner")
	_, token := c.create(h, "deployment", "keys:write", "profiles:read")
	const keys, member = "/v1/organizations/{organizationId}/api-keys", "/v1/organizations/{organizationId}/members/{adminId}"
	c.want(http.StatusOK, h, token, "GET", keys, "")
	c.want(http.StatusOK, h, owner, "PATCH", member, `{"role": "member"}`)
	c.want(http.StatusForbidden, h, token, "GET", keys, "")
	c.want(http.StatusOK, h, token, "GET", "/v1/profiles", "")
	c.want(http.StatusOK, h, owner, "DELETE", member, "")
	c.want(http.StatusUnauthorized, h, token, "GET", "/v1/profiles", "")
}

// The audit log has the user, and the token if the change was made with one.
func TestAccessTokens_InAuditLog(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	h.all.MustExec(c.fill(`DELETE FROM access_tokens WHERE organization_id = '{organizationId}'`))
	id, token := c.create(h, "deployment", "profiles:write")
	c.want(http.StatusCreated, h, token, "POST", "/v1/profiles", `{"name": "by token", "browserVersion": 156}`)
	c.want(http.StatusCreated, h, c.user, "POST", "/v1/profiles", `{"name": "by session", "browserVersion": 156}`)
	c.want(http.StatusOK, h, c.user, "DELETE", "/v1/auth/tokens/"+id, "")
	_, other := c.create(h, "second", "profiles:read")
	c.want(http.StatusOK, h, c.user, "POST", "/v1/auth/sign-out-everywhere", "")
	c.want(http.StatusUnauthorized, h, other, "GET", "/v1/profiles", "")
	var events []struct {
		Action, Name string
		Email        *string `db:"actor_email"`
		Token        *string
		Reason       *string
	}
	err := h.all.Select(&events, c.fill(`SELECT action, details->>'name' AS name, actor_email, details->'accessToken'->>'name' AS token, details->>'reason' AS reason
		FROM audit_events WHERE organization_id = '{organizationId}' AND details ? 'name' ORDER BY id`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		text := e.Action + " " + e.Name
		for _, part := range []*string{e.Email, e.Token, e.Reason} {
			if part != nil {
				text += ", " + strings.TrimSuffix(*part, c.fill("-{mark}@example.com"))
			}
		}
		got = append(got, text)
	}
	want := []string{
		"accessToken.created deployment, owner", "profile.created by token, owner, deployment", "profile.created by session, owner",
		"accessToken.revoked deployment, owner", "accessToken.created second, owner", "accessToken.revoked second, owner, signedOutEverywhere",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestAccessTokens_ShownOnceAndNeverLogged(t *testing.T) {
	search := newLeakSearch(t)
	h := &testEnv{url: search.server.URL, all: search.all, parts: search.parts}
	c := newTokenClient(t, h, "owner")
	_, token := c.create(h, "deployment", "profiles:read")
	search.values = []string{token, strings.TrimPrefix(token, "svct_")}
	search.search("the list", c.want(http.StatusOK, h, c.user, "GET", "/v1/auth/tokens", ""))
	search.search("an answer", c.want(http.StatusOK, h, token, "GET", "/v1/profiles", ""))
	search.search("a refusal", c.want(http.StatusForbidden, h, token, "GET", "/v1/sessions", ""))
	for _, bearer := range []string{token + "x", token[:40]} {
		search.search("a refusal", c.want(http.StatusUnauthorized, h, bearer, "GET", "/v1/profiles", ""))
	}
	search.checkLog()
}

// Of two tokens with the same scopes, the one of another organization sees nothing.
func TestAccessTokens_OfAnotherOrganization(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	other := newTokenClient(t, h, "owner")
	id, token := c.create(h, "deployment", tokenScopes...)
	_, foreign := other.create(h, "deployment", tokenScopes...)
	for _, path := range []string{"/v1/profiles/{profileId}", "/v1/sessions/{pastId}", "/v1/organizations/{organizationId}/api-keys", "/v1/organizations/{organizationId}/members"} {
		c.want(http.StatusOK, h, token, "GET", path, "")
		c.want(http.StatusNotFound, h, foreign, "GET", path, "")
	}
	c.want(http.StatusNotFound, h, other.user, "DELETE", "/v1/auth/tokens/"+id, "")
	if text := other.want(http.StatusOK, h, other.user, "GET", "/v1/auth/tokens", ""); strings.Contains(text, id) {
		t.Errorf("the list of another user has the token: %s", text)
	}
	c.want(http.StatusOK, h, token, "GET", "/v1/profiles", "")
}

// The retention deletes tokens 30 days after their expiry.
func TestAccessTokens_DeletedAfterExpiry(t *testing.T) {
	h := newTestEnv(t, nil)
	c := newTokenClient(t, h, "owner")
	old, _ := c.create(h, "old", "profiles:read")
	expired, _ := c.create(h, "expired", "profiles:read")
	for id, age := range map[string]time.Duration{old: 31 * 24 * time.Hour, expired: 29 * 24 * time.Hour} {
		h.all.MustExec(`UPDATE access_tokens SET expires_at = $2 WHERE id = $1`, id, time.Now().Add(-age))
	}
	if _, err := h.parts.retention.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := c.want(http.StatusOK, h, c.user, "GET", "/v1/auth/tokens?limit=100", "")
	if strings.Contains(text, old) || !strings.Contains(text, expired) {
		t.Errorf("listed %s", text)
	}
}
