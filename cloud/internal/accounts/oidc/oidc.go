// Package oidc is a client for sign-in through an OpenID provider: authorization
// code flow with PKCE. It returns the identity at the provider and does not know
// accounts.
package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/browser-svc/svc/shared/fault"
)

// Config identifies this service at the provider.
type Config struct {
	Issuer       string // the provider's issuer identifier, as in its ID tokens
	ClientID     string
	ClientSecret string
	RedirectURL  string // where the provider redirects browsers after the sign-in
}

// Attempt is the state of a sign-in in progress. It is kept in the browser and
// must stay secret.
type Attempt struct {
	State    string // returned with the browser
	Nonce    string // returned in the ID token
	Verifier string // proves to the provider that the same client began the sign-in (PKCE)
}

// Identity is a user's identity at the provider.
type Identity struct {
	Issuer        string
	Subject       string
	Email         string
	EmailVerified bool // as reported by the provider
	Name          string
}

// Provider is an OpenID provider. It is discovered on first use, so that the
// service starts without it. It is safe for concurrent use.
type Provider struct {
	config Config
	client *http.Client
	found  atomic.Pointer[discovery]
}

// discovery is the provider's configuration.
type discovery struct {
	provider *oidc.Provider
	keys     oidc.KeySet
	oauth    oauth2.Config
}

// New returns a Provider without contacting it.
func New(c Config) *Provider { return &Provider{config: c, client: newClient()} }

// Start begins a sign-in and returns the URL to redirect the browser to.
func (p *Provider) Start(ctx context.Context) (Attempt, string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return Attempt{}, "", err
	}
	a := Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return a, d.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Finish completes a sign-in with the parameters of the callback. Returns
// Validation for the state of another attempt, Unauthenticated for any other
// untrusted answer, and Unavailable, Timeout or BadGateway for a failing
// provider.
func (p *Provider) Finish(ctx context.Context, a Attempt, answer url.Values) (Identity, error) {
	if a.State == "" || !equalConstantTime(answer.Get("state"), a.State) {
		return Identity{}, fault.Field("state", "belongs to another or an abandoned sign-in")
	}
	if answer.Has("error") {
		cause := errors.New(truncate(answer.Get("error")))
		return Identity{}, fault.Wrap(cause, fault.Unauthenticated, "The sign-in provider refused the sign-in.")
	}
	if issuer := answer.Get("iss"); issuer != "" && issuer != p.config.Issuer { // RFC 9207: mixed up with another provider
		return Identity{}, errUntrusted(errors.New("the answer has a different issuer"))
	}
	d, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := d.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Identity{}, refused(err)
	}
	claims, err := p.verify(ctx, d, token, a.Nonce)
	if err != nil {
		return Identity{}, err
	}
	if claims.Email == "" { // some providers return the address only there
		if claims, err = userInfo(ctx, d, token, claims); err != nil {
			return Identity{}, err
		}
	}
	return Identity{
		Issuer: p.config.Issuer, Subject: claims.Subject,
		Email: claims.Email, EmailVerified: bool(claims.EmailVerified), Name: claims.Name,
	}, nil
}

// discover reads the provider's configuration once.
func (p *Provider) discover(ctx context.Context) (*discovery, error) {
	if d := p.found.Load(); d != nil {
		return d, nil
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, failure(err)
	}
	var says struct {
		KeysURL string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&says); err != nil {
		return nil, failure(err)
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(says.Methods) > 0 && !slices.Contains(says.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	// The keys are fetched for all waiting requests, so not in the context of one of
	// them.
	d := &discovery{
		provider: provider,
		keys:     oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), p.client), says.KeysURL),
		oauth: oauth2.Config{
			ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, RedirectURL: p.config.RedirectURL,
			Endpoint: endpoint, Scopes: []string{oidc.ScopeOpenID, oidc.ScopeEmail, oidc.ScopeProfile},
		},
	}
	p.found.Store(d)
	return d, nil
}

// claims are the claims that are read from the ID token or the user info.
type claims struct {
	Subject         string      `json:"sub"`
	AuthorizedParty string      `json:"azp"`
	Email           string      `json:"email"`
	EmailVerified   lenientBool `json:"email_verified"`
	Name            string      `json:"name"`
}

// verify checks the ID token: its signature, issuer, audience, expiry and nonce.
func (p *Provider) verify(ctx context.Context, d *discovery, token *oauth2.Token, nonce string) (claims, error) {
	raw, _ := token.Extra("id_token").(string)
	keys := &keySet{KeySet: d.keys}
	var says struct {
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := d.provider.Claims(&says); err != nil {
		return claims{}, failure(err)
	}
	config := &oidc.Config{ClientID: p.config.ClientID, SupportedSigningAlgs: asymmetric(says.Algorithms)}
	id, err := oidc.NewVerifier(p.config.Issuer, keys, config).Verify(ctx, raw)
	if isUnreachable(keys.err) {
		return claims{}, failure(keys.err)
	}
	if err != nil {
		return claims{}, errUntrusted(err)
	}
	if !equalConstantTime(id.Nonce, nonce) {
		return claims{}, errUntrusted(errors.New("the ID token has a different nonce"))
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		return claims{}, errUntrusted(err)
	}
	if c.Subject == "" || len(id.Audience) > 1 && c.AuthorizedParty != p.config.ClientID {
		return claims{}, errUntrusted(errors.New("the ID token was issued to a different client"))
	}
	return c, nil
}

// userInfo reads the claims that the ID token omits.
func userInfo(ctx context.Context, d *discovery, token *oauth2.Token, id claims) (claims, error) {
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return claims{}, failure(err)
	}
	var c claims
	if err := info.Claims(&c); err != nil {
		return claims{}, failure(err)
	}
	if c.Subject != id.Subject { // OpenID Connect Core 5.3.2
		return claims{}, errUntrusted(errors.New("the user info belongs to a different subject"))
	}
	c.Name = cmp.Or(c.Name, id.Name)
	return c, nil
}

func equalConstantTime(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
