package oidc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/cloud/internal/accounts/oidc/oidctest"
	"github.com/browser-svc/svc/shared/fault"
)

func TestProvider_ReportsOutage(t *testing.T) {
	f := newFixture(t, oidctest.Options{ClaimsAtUserInfoOnly: true})
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	answers := map[string]struct {
		handler http.HandlerFunc
		kind    fault.Kind
	}{
		"fails":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, fault.BadGateway},
		"hangs up":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault.Unavailable},
		"is silent":      {func(http.ResponseWriter, *http.Request) { <-over }, fault.Timeout},
		"talks nonsense": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }, fault.BadGateway},
		"sends away": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example", http.StatusTemporaryRedirect)
		}, fault.BadGateway},
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/jwks", "/me"} {
		for name, answer := range answers {
			t.Run(path[1:]+" "+name, func(t *testing.T) {
				f.Provider = oidc.New(config(f.real, f.real.Client)) // without a download of the keys
				attempt, params := f.begin(t, "ada")
				f.real.WrapHandler(func(provider http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == path {
							answer.handler(w, r)
							return
						}
						provider.ServeHTTP(w, r)
					})
				})
				defer f.real.WrapHandler(nil)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if answer.kind == fault.Timeout {
					ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				}
				defer cancel()
				var err error
				if strings.HasPrefix(path, "/.well-known") {
					_, _, err = oidc.New(config(f.real, f.real.Client)).Start(ctx)
				} else {
					_, err = f.Finish(ctx, attempt, params)
				}
				wantKind(t, err, answer.kind)
				if text := err.Error(); strings.Contains(text, params.Get("code")) || strings.Contains(text, f.real.Client.Secret) ||
					strings.Contains(text, attempt.Verifier) || strings.Contains(text, attempt.Nonce) || strings.Contains(text, attempt.State) {
					t.Errorf("the error contains a secret: %s", text)
				}
			})
		}
	}
}

func TestProvider_DiscoversOnce(t *testing.T) {
	f := newFixture(t, oidctest.Options{})
	var requests atomic.Int64
	f.real.WrapHandler(func(provider http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/.well-known") {
				requests.Add(1)
				if requests.Load() == 1 {
					w.WriteHeader(503)
					return
				}
			}
			provider.ServeHTTP(w, r)
		})
	})
	_, _, err := f.Start(t.Context())
	wantKind(t, err, fault.BadGateway) // the failure is not cached
	for range 3 {
		attempt, answer := f.begin(t, "ada")
		if _, err := f.Finish(t.Context(), attempt, answer); err != nil {
			t.Fatal(err)
		}
	}
	if requests.Load() != 2 {
		t.Errorf("got %d requests, want 2 (a failure and a success)", requests.Load())
	}
}

func TestProvider_ReportsUnreachable(t *testing.T) {
	p := oidc.New(oidc.Config{Issuer: "http://127.0.0.1:1", ClientID: "svc", RedirectURL: redirectURL})
	_, _, err := p.Start(t.Context())
	wantKind(t, err, fault.Unavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	_, _, err = oidc.New(oidc.Config{Issuer: silent.URL}).Start(ctx)
	wantKind(t, err, fault.Timeout)
}
