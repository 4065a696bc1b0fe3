package oidc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/cloud/internal/accounts/oidc/oidctest"
	"github.com/browser-svc/svc/shared/fault"
)

const redirectURL = "http://127.0.0.1:1/v1/auth/oidc/callback"

// fixture is a provider with a service that uses it for sign-in.
type fixture struct {
	*oidc.Provider
	real *oidctest.Provider
}

func newFixture(t *testing.T, o oidctest.Options) fixture {
	t.Helper()
	o.RedirectURL = redirectURL
	real := oidctest.Start(t, o)
	return fixture{oidc.New(config(real, real.Client)), real}
}

func config(real *oidctest.Provider, client oidctest.Client) oidc.Config {
	return oidc.Config{Issuer: real.Issuer, ClientID: client.ID, ClientSecret: client.Secret, RedirectURL: redirectURL}
}

// begin starts a sign-in and signs in at the provider with this name.
func (f fixture) begin(t *testing.T, name string) (oidc.Attempt, url.Values) {
	t.Helper()
	attempt, address, err := f.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	return attempt, f.real.SignIn(t, jar, address, name).Query()
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.From(err).Kind != kind {
		t.Errorf("error %v, want one of kind %d", err, kind)
	}
}

func TestFinish_ReturnsIdentity(t *testing.T) {
	for name, o := range map[string]oidctest.Options{"by the ID token": {}, "by the user info": {ClaimsAtUserInfoOnly: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, o)
			for _, login := range []string{"ada", "unverified-eve"} {
				attempt, answer := f.begin(t, login)
				got, err := f.Finish(t.Context(), attempt, answer)
				if err != nil {
					t.Fatal(err)
				}
				want := oidc.Identity{
					Issuer: f.real.Issuer, Subject: login, Email: login + "@example.com", EmailVerified: login == "ada", Name: login,
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("identity (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestFinish_RefusesInvalidAnswer(t *testing.T) {
	f := newFixture(t, oidctest.Options{})
	attempt, answer := f.begin(t, "ada")
	with := func(name, value string) url.Values {
		changed := url.Values{}
		for n, v := range answer {
			changed[n] = v
		}
		changed.Set(name, value)
		return changed
	}
	wrongVerifier := attempt
	wrongVerifier.Verifier = strings.Repeat("a", 43)
	noState := attempt
	noState.State = ""
	for name, test := range map[string]struct {
		attempt oidc.Attempt
		answer  url.Values
		kind    fault.Kind
	}{
		"another state":     {attempt, with("state", "x"), fault.Validation},
		"no state anywhere": {noState, with("state", ""), fault.Validation},
		"another issuer":    {attempt, with("iss", "https://evil.example"), fault.Unauthenticated},
		"a made-up code":    {attempt, with("code", "x"), fault.Unauthenticated},
		"no code":           {attempt, with("code", ""), fault.BadGateway},
		"a refusal":         {attempt, with("error", "access_denied"), fault.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Finish(t.Context(), test.attempt, test.answer)
			wantKind(t, err, test.kind)
		})
	}
	if _, err := f.Finish(t.Context(), attempt, answer); err != nil {
		t.Errorf("unchanged answer: %v", err)
	}
	_, err := f.Finish(t.Context(), attempt, answer)
	wantKind(t, err, fault.Unauthenticated) // a code is valid only once

	_, answer = f.begin(t, "ada")
	wrongVerifier.State = answer.Get("state")
	_, err = f.Finish(t.Context(), wrongVerifier, answer)
	wantKind(t, err, fault.Unauthenticated)
}

// swap replaces one part of the provider's answers.
func (f fixture) swap(path, name, value string) {
	f.real.WrapHandler(func(provider http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				provider.ServeHTTP(w, r)
				return
			}
			recorded := httptest.NewRecorder()
			provider.ServeHTTP(recorded, r)
			var answer map[string]any
			_ = json.Unmarshal(recorded.Body.Bytes(), &answer)
			answer[name] = value
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		})
	})
}

// idToken returns a valid ID token that the provider issued to a client.
func (f fixture) idToken(t *testing.T, client oidctest.Client, nonce string) string {
	t.Helper()
	party := oauth2.Config{
		ClientID: client.ID, ClientSecret: client.Secret, RedirectURL: redirectURL, Scopes: []string{"openid", "email", "profile"},
		Endpoint: oauth2.Endpoint{AuthURL: f.real.Issuer + "/auth", TokenURL: f.real.Issuer + "/token"},
	}
	verifier := oauth2.GenerateVerifier()
	address := party.AuthCodeURL("s", oauth2.SetAuthURLParam("nonce", nonce), oauth2.S256ChallengeOption(verifier))
	jar, _ := cookiejar.New(nil)
	code := f.real.SignIn(t, jar, address, "mallory").Query().Get("code")
	token, err := party.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	id, _ := token.Extra("id_token").(string)
	return id
}

// sign returns an ID token with the claims of a valid one and another header.
func sign(t *testing.T, token, header string, key []byte) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + strings.Split(token, ".")[1]
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestFinish_RefusesForeignIDToken(t *testing.T) {
	f := newFixture(t, oidctest.Options{})
	for name, test := range map[string]struct {
		token func(nonce string) string
		good  bool
	}{
		"to this client with this nonce": {func(nonce string) string { return f.idToken(t, f.real.Client, nonce) }, true},
		"to another client":              {func(nonce string) string { return f.idToken(t, f.real.Other, nonce) }, false},
		"with another nonce":             {func(string) string { return f.idToken(t, f.real.Client, "another") }, false},
		"with no nonce":                  {func(string) string { return f.idToken(t, f.real.Client, "") }, false},
		"none":                           {func(string) string { return "" }, false},
		"unsigned": {func(nonce string) string {
			forged := sign(t, f.idToken(t, f.real.Client, nonce), `{"alg":"none"}`, nil)
			return forged[:strings.LastIndex(forged, ".")+1]
		}, false},
		"signed with the client's secret": {func(nonce string) string {
			return sign(t, f.idToken(t, f.real.Client, nonce), `{"alg":"HS256"}`, []byte(f.real.Client.Secret))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			attempt, answer := f.begin(t, "ada")
			f.swap("/token", "id_token", test.token(attempt.Nonce))
			defer f.real.WrapHandler(nil)
			got, err := f.Finish(t.Context(), attempt, answer)
			if test.good {
				if err != nil || got.Subject != "mallory" {
					t.Errorf("valid token: %+v, %v", got, err)
				}
				return
			}
			wantKind(t, err, fault.Unauthenticated)
		})
	}
}

func TestFinish_RefusesForeignUserInfo(t *testing.T) {
	f := newFixture(t, oidctest.Options{ClaimsAtUserInfoOnly: true})
	for subject, good := range map[string]bool{"ada": true, "mallory": false, "": false} {
		attempt, answer := f.begin(t, "ada")
		f.swap("/me", "sub", subject)
		_, err := f.Finish(t.Context(), attempt, answer)
		f.real.WrapHandler(nil)
		if good && err != nil {
			t.Error(err)
		}
		if !good {
			wantKind(t, err, fault.Unauthenticated)
		}
	}
}
