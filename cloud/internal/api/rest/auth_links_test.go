package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestSignInLink_SignsInLikePassword(t *testing.T) {
	a := newAccounts(t, "https://svc.example")
	created := a.signUp("ada@example.com")
	organization := a.createOrg(bearer(created.Token), "Engines")
	link := decode[cloudapi.SignInLink](t, a.do("POST", "/v1/auth/sign-in-links", bearer(created.Token), nil), 200)
	_, token, found := strings.Cut(link.Url, "/sign-in/link#token=")
	if !found || strings.Contains(link.Url, "?") {
		t.Fatalf("link %s, want the token in its fragment", link.Url)
	}
	answer := a.do("POST", "/v1/auth/sign-in/link", nil, map[string]any{"token": token})
	session := decode[cloudapi.SignIn](t, answer, 200)
	if session.ActiveOrganizationId == nil || *session.ActiveOrganizationId != organization.Id || session.User != created.User {
		t.Errorf("signed in as %+v", session)
	}
	got, err := http.ParseSetCookie(answer.header.Get("Set-Cookie"))
	must(t, err)
	if got.Name != "svc_session" || got.Value != session.Token || !got.HttpOnly || !got.Secure || got.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %s", got)
	}
	again := a.do("POST", "/v1/auth/sign-in/link", nil, map[string]any{"token": token})
	again.want(t, 401, "AUTHENTICATION_ERROR")
	if again.header.Get("Set-Cookie") != "" || strings.Contains(again.body, token) {
		t.Errorf("a refusal sets a cookie or contains the token: %s", again.body)
	}
}

func TestSignInLink_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	created := a.signUp("ada@example.com")
	a.do("POST", "/v1/auth/sign-in-links", nil, nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.do("POST", "/v1/auth/sign-in-links", credential{"Cookie": "svc_session=" + created.Token, "Origin": "https://evil.example"}, nil).
		want(t, 403, "AUTHORIZATION_ERROR")
	a.do("POST", "/v1/auth/sign-in/link", credential{"Origin": "https://evil.example"}, map[string]any{"token": "x"}).want(t, 403, "AUTHORIZATION_ERROR")
	for name, test := range map[string]struct {
		body   map[string]any
		fields []string
	}{
		"no token":         {map[string]any{}, []string{"token REQUIRED"}},
		"an empty token":   {map[string]any{"token": ""}, []string{"token TOO_SHORT"}},
		"an unknown field": {map[string]any{"token": "x", "email": "a"}, []string{"email UNRECOGNIZED_KEY"}},
	} {
		r := a.wrong("POST", "/v1/auth/sign-in/link", nil, test.body)
		r.want(t, 400, "VALIDATION_ERROR")
		if diff := cmp.Diff(test.fields, r.fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for range 20 {
		a.do("POST", "/v1/auth/sign-in/link", nil, map[string]any{"token": "unknown"}).want(t, 401, "AUTHENTICATION_ERROR")
	}
	limited := a.do("POST", "/v1/auth/sign-in/link", nil, map[string]any{"token": "unknown"})
	limited.want(t, 429, "RATE_LIMIT_EXCEEDED")
	if limited.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	for range 20 {
		decode[cloudapi.SignInLink](t, a.do("POST", "/v1/auth/sign-in-links", bearer(created.Token), nil), 200)
	}
	a.do("POST", "/v1/auth/sign-in-links", bearer(created.Token), nil).want(t, 429, "RATE_LIMIT_EXCEEDED")
	a.wrong("POST", "/v1/auth/sign-in-links", bearer(created.Token), map[string]any{"minutes": 60}).want(t, 400, "VALIDATION_ERROR")
}

func TestUpdateUser_ChangesNameOfCaller(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	ada, eve := a.signUp("ada@example.com"), a.signUp("eve@example.com")
	got := decode[cloudapi.User](t, a.do("PATCH", "/v1/auth/user", bearer(ada.Token), map[string]any{"name": "Ada King"}), 200)
	if got.Name != "Ada King" || got.Id != ada.User.Id {
		t.Errorf("got %+v", got)
	}
	if got := decode[cloudapi.AuthSession](t, a.do("GET", "/v1/auth/session", bearer(eve.Token), nil), 200); got.User != eve.User {
		t.Errorf("another user became %+v", got.User)
	}
	a.do("PATCH", "/v1/auth/user", nil, map[string]any{"name": "Ada"}).want(t, 401, "AUTHENTICATION_ERROR")
	a.do("PATCH", "/v1/auth/user", credential{"Cookie": "svc_session=" + ada.Token, "Origin": "https://evil.example"}, map[string]any{"name": "Ada"}).
		want(t, 403, "AUTHORIZATION_ERROR")
	a.wrong("PATCH", "/v1/auth/user", bearer(ada.Token), map[string]any{"name": " "}).want(t, 400, "VALIDATION_ERROR")
	a.wrong("PATCH", "/v1/auth/user", bearer(ada.Token), map[string]any{"email": "b@example.com"}).want(t, 400, "VALIDATION_ERROR")
}

func TestGetAuthOptions_IsPublic(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	got := decode[cloudapi.AuthOptions](t, a.do("GET", "/v1/auth/options", nil, nil), 200)
	if diff := cmp.Diff(cloudapi.AuthOptions{SignUp: cloudapi.SignUpPolicyOpen, SingleSignOn: true}, got); diff != "" {
		t.Error(diff)
	}
	a.wrong("GET", "/v1/auth/options?all=true", nil, nil).want(t, 400, "VALIDATION_ERROR")
}
