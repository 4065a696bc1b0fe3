package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestAuth_SignUpToSignOut(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	up := a.do("POST", "/v1/auth/sign-up", nil, map[string]any{"email": "Ada@Example.com", "password": password, "name": "Ada"})
	session := decode[cloudapi.SignIn](t, up, 201)
	if session.User.Email != "ada@example.com" || session.ActiveOrganizationId != nil {
		t.Errorf("signed up as %+v", session)
	}
	if got := up.header.Get("Location"); got != "/v1/auth/session" {
		t.Errorf("location %q", got)
	}
	created := a.createOrg(bearer(session.Token), "Engines")

	answer := a.do("POST", "/v1/auth/sign-in", nil, map[string]any{"email": "ada@example.com", "password": password})
	session = decode[cloudapi.SignIn](t, answer, 200)
	if session.ActiveOrganizationId == nil || *session.ActiveOrganizationId != created.Id {
		t.Errorf("active %v, want %v", session.ActiveOrganizationId, created.Id)
	}
	for name, c := range map[string]credential{"cookie": cookie(session.Token), "bearer": bearer(session.Token)} {
		got := decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", c, nil), 200)
		want := cloudapi.AuthSession{ExpiresAt: session.ExpiresAt, User: session.User, ActiveOrganizationId: &created.Id}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the session by %s (-want +got):\n%s", name, diff)
		}
	}
	full := a.wrong("POST", "/v1/auth/sign-out", cookie(session.Token), map[string]any{"everywhere": true})
	full.want(t, 400, "VALIDATION_ERROR")
	if len(full.fields) != 1 || full.fields[0] != "everywhere UNRECOGNIZED_KEY" {
		t.Errorf("a body of an operation without one: %v", full.fields)
	}
	out := a.do("POST", "/v1/auth/sign-out", cookie(session.Token), map[string]any{}) // an empty object, as generic clients send it
	decode[cloudapi.Empty](t, out, 200)
	if got := out.header.Get("Set-Cookie"); got != "svc_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
		t.Errorf("the cookie is deleted with %q", got)
	}
	for _, c := range []credential{cookie(session.Token), bearer(session.Token)} {
		a.do("GET", "/v1/auth/session", c, nil).want(t, 401, "AUTHENTICATION_ERROR")
		a.do("POST", "/v1/auth/sign-out", c, nil).want(t, 401, "AUTHENTICATION_ERROR")
	}
}

func TestAuth_CookieIsSecureWithHTTPS(t *testing.T) {
	for publicURL, secure := range map[string]bool{"http://127.0.0.1": false, "https://svc.example": true} {
		a := newAccounts(t, publicURL)
		r := a.do("POST", "/v1/auth/sign-up", nil, map[string]any{"email": "a@example.com", "password": password, "name": "A"})
		session := decode[cloudapi.SignIn](t, r, 201)
		got, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
		must(t, err)
		if got.Name != "svc_session" || got.Value != session.Token || got.Path != "/" || !got.HttpOnly ||
			got.SameSite != http.SameSiteLaxMode || got.Secure != secure || got.Domain != "" {
			t.Errorf("%s: cookie %s", publicURL, got)
		}
		if left := got.Expires.Sub(a.clock.Now()); left < 7*24*time.Hour-2*time.Second || left > 7*24*time.Hour {
			t.Errorf("%s: the cookie expires in %v, want seven days", publicURL, left)
		}
	}
}

func TestSignUp_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	a.signUp("ada@example.com")
	good := map[string]any{"email": "eve@example.com", "password": password, "name": "Eve"}
	for name, test := range map[string]struct {
		field  string
		value  any
		fields []string
	}{
		"no address":       {"email", "eve", []string{"email INVALID_FORMAT"}},
		"a short password": {"password", "too short", []string{"password TOO_SHORT"}},
		"a long password":  {"password", strings.Repeat("x", 257), []string{"password TOO_LONG"}},
		"a blank name":     {"name", "  ", []string{"name INVALID_PATTERN"}},
		"an unknown field": {"admin", true, []string{"admin UNRECOGNIZED_KEY"}},
	} {
		body := map[string]any{test.field: test.value}
		for k, v := range good {
			if k != test.field {
				body[k] = v
			}
		}
		r := a.wrong("POST", "/v1/auth/sign-up", nil, body)
		r.want(t, 400, "VALIDATION_ERROR")
		if diff := cmp.Diff(test.fields, r.fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if text, ok := test.value.(string); ok && test.field == "password" && strings.Contains(r.body, text) {
			t.Errorf("%s: the answer contains the secret", name)
		}
	}
	a.do("POST", "/v1/auth/sign-up", nil, map[string]any{"email": "ADA@example.com", "password": password, "name": "A"}).
		want(t, 409, "RESOURCE_CONFLICT")
	a.do("POST", "/v1/auth/sign-up", credential{"Sec-Fetch-Site": "cross-site"}, good).want(t, 403, "AUTHORIZATION_ERROR")
}

func TestSignIn_DoesNotRevealAccounts(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	a.signUp("ada@example.com")
	var bodies []string
	for _, email := range []string{"ada@example.com", "eve@example.com"} {
		r := a.do("POST", "/v1/auth/sign-in", nil, map[string]any{"email": email, "password": "not the password"})
		r.want(t, 401, "AUTHENTICATION_ERROR")
		if r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: a refusal sets a cookie", email)
		}
		bodies = append(bodies, r.body)
	}
	if bodies[0] != bodies[1] {
		t.Errorf("a wrong password: %s\nan unknown address: %s", bodies[0], bodies[1])
	}
}

func TestSignIn_StartsNewSession(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	first := a.signUp("ada@example.com")
	body := map[string]any{"email": "ada@example.com", "password": password}
	second := decode[cloudapi.SignIn](t, a.do("POST", "/v1/auth/sign-in", cookie(first.Token), body), 200)
	third := decode[cloudapi.SignIn](t, a.do("POST", "/v1/auth/sign-in", cookie("planted"), body), 200)
	if second.Token == first.Token || third.Token == "planted" {
		t.Error("the token that a request came with became the session's")
	}
	a.do("POST", "/v1/auth/sign-in", credential{"Origin": "https://evil.example"}, body).want(t, 403, "AUTHORIZATION_ERROR")
	a.wrong("POST", "/v1/auth/sign-in", nil, map[string]any{"email": "ada@example.com"}).want(t, 400, "VALIDATION_ERROR")
}

func TestAuth_ExpiredSessionIsRefused(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	a.clock.Advance(7 * 24 * time.Hour)
	a.do("GET", "/v1/auth/session", bearer(session.Token), nil).want(t, 401, "AUTHENTICATION_ERROR")
}

// dashboard are the operations of this part that require a dashboard session; %s is an
// organization.
var dashboard = []string{
	"POST /v1/auth/sign-out", "GET /v1/auth/session", "POST /v1/auth/sign-out-everywhere", "GET /v1/auth/sessions",
	"DELETE /v1/auth/sessions/019a5f3e-7b20-7f10-8a11-3c5d7e9f0b04", "POST /v1/auth/verify-email/resend", "POST /v1/auth/password/change",
	"GET /v1/organizations", "POST /v1/organizations",
	"POST /v1/organizations/%s/activate", "GET /v1/organizations/%s/api-keys", "POST /v1/organizations/%s/api-keys",
	"DELETE /v1/organizations/%s/api-keys/019a5f3e-5a07-7e44-8c61-90f3b1d2c403", "GET /v1/profiles/stats",
}

// each calls do with the method, path and a valid body of each operation.
func each(operations []string, orgID uuid.UUID, do func(method, path string, body any)) {
	for _, operation := range operations {
		method, path, _ := strings.Cut(operation, " ")
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, orgID)
		}
		var body any
		if method == "POST" && (strings.HasSuffix(path, "organizations") || strings.HasSuffix(path, "api-keys")) {
			body = map[string]any{"name": "n"}
		}
		if strings.HasSuffix(path, "password/change") {
			body = map[string]any{"currentPassword": password, "newPassword": "another password"}
		}
		do(method, path, body)
	}
}

func TestDashboardOperations_RequireSession(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	orgID := a.createOrg(bearer(session.Token), "Engines").Id
	key := a.createKey(bearer(session.Token), orgID, map[string]any{"name": "fleet"}).Key
	each(dashboard, orgID, func(method, path string, body any) {
		for name, c := range map[string]credential{
			"nothing": nil, "a wrong bearer": bearer("wrong"), "a wrong cookie": cookie("wrong"),
			"a key": apiKey(key), "a key as bearer": bearer(key), "a key as cookie": cookie(key),
			"a token as key": apiKey(session.Token), "a wrong bearer beside a good cookie": cookie(session.Token).with("Authorization", "Bearer wrong"),
		} {
			if r := a.do(method, path, c, body); r.status != 401 || r.code != "AUTHENTICATION_ERROR" {
				t.Errorf("%s %s with %s: %s", method, path, name, r.body)
			}
		}
	})
	stale := bearer(session.Token).with("Cookie", "svc_session=wrong") // browsers send cookies with every request
	decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", stale, nil), 200)
}

func TestAuth_RefusesCrossOriginRequests(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	a.verify()
	orgID := a.createOrg(bearer(session.Token), "Engines").Id
	foreign := cookie(session.Token).with("Sec-Fetch-Site", "cross-site")
	each(dashboard, orgID, func(method, path string, body any) {
		if method == "GET" {
			return
		}
		a.do(method, path, foreign, body).want(t, 403, "AUTHORIZATION_ERROR")
		a.do(method, path, foreign.with("Authorization", "Basic YWRhOg=="), body).want(t, 403, "AUTHORIZATION_ERROR")
	})
	decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", foreign, nil), 200)
	a.createOrg(bearer(session.Token).with("Sec-Fetch-Site", "cross-site"), "By a script")
	a.createOrg(foreign.with("Authorization", "Bearer "+session.Token), "By a holder of the token")
	a.createOrg(cookie(session.Token).with("Sec-Fetch-Site", "same-origin"), "By our page")
}

func TestAuth_StoresNoPlaintextTokenOrKey(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	orgID := a.createOrg(bearer(session.Token), "Engines").Id
	key := a.createKey(bearer(session.Token), orgID, map[string]any{"name": "fleet"}).Key
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 200, "")
	var tables []string
	must(t, a.db.Select(&tables, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`))
	dump := ""
	for _, table := range tables {
		var rows []json.RawMessage
		must(t, a.db.Select(&rows, `SELECT to_jsonb(t) FROM "`+table+`" t`))
		for _, row := range rows {
			dump += string(row) + "\n"
		}
	}
	var data []byte
	must(t, a.db.Get(&data, `SELECT data FROM auth_sessions`)) // to_jsonb formats it in hexadecimal
	dump += string(data)
	if !strings.Contains(dump, "ada@example.com") || !strings.Contains(dump, orgID.String()) {
		t.Fatalf("the dump is not complete: %s", dump)
	}
	for _, secret := range []string{session.Token, key, key[8:32], password} {
		if strings.Contains(dump, secret) {
			t.Errorf("%q is in clear in the database", secret)
		}
	}
}
